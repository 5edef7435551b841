"""The messages of PostgreSQL's output plugin `pgoutput`, in version 1 of its protocol. Pure."""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import TypeAlias

from attrs import define, frozen

from trident_py.errors import SpoutError

_SHORT, _INTEGER, _LONG = Struct(">H"), Struct(">I"), Struct(">Q")


class Unchanged(Enum):
    """A large value that an update left as it was: it is stored outside of the row, and not logged again."""

    UNCHANGED = "unchanged"


Text: TypeAlias = "str | Unchanged | None"
"""A value as PostgreSQL writes it."""

Texts: TypeAlias = tuple[Text, ...]


@frozen
class Begin:
    """The begin of a transaction, with the position of its commit."""

    lsn: int


@frozen
class Commit:
    """The commit of a transaction: where its record begins and ends."""

    lsn: int
    end: int


@frozen
class RelationColumn:
    """A column of a table.

    Attributes:
        kind: the OID of its type.
        modifier: of the type; -1: none.
        is_key: whether it is part of the replica identity.
    """

    name: str
    kind: int
    modifier: int
    is_key: bool


@frozen
class Relation:
    """The description of a table, sent before its first change and after it was altered."""

    id: int
    schema: str
    name: str
    columns: tuple[RelationColumn, ...]

    @property
    def shown(self) -> str:
        """Schema and name."""
        return f"{self.schema}.{self.name}"


@frozen
class RowChange:
    """A changed row.

    Attributes:
        op: ``insert``, ``update`` or ``delete``.
        relation: the id of its table.
        new: the values afterwards; None: the row was deleted.
        old: the values before, as far as they are logged: those of the key, or all with ``REPLICA IDENTITY FULL``; else
            NULL. None: nothing is logged, so the key is unchanged.
        is_full: whether ``old`` has all values.
    """

    op: str
    relation: int
    new: Texts | None
    old: Texts | None
    is_full: bool = False


@frozen
class Truncate:
    """Tables that were emptied by one statement."""

    relations: tuple[int, ...]


@frozen
class Other:
    """A message without meaning for rows: an origin, a type, or a message of an application."""


Message: TypeAlias = Begin | Commit | Relation | RowChange | Truncate | Other


@define
class _Bytes:
    """Reads the parts of a message, one after the other."""

    data: bytes
    at: int = 0

    def taken(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        if len(found) < size:
            raise SpoutError(f"a message of pgoutput ends after {len(self.data)} bytes, in the middle of a value")
        self.at += size
        return found

    def number(self, form: Struct) -> int:
        (found,) = form.unpack(self.taken(form.size))
        return int(found)

    def letter(self) -> str:
        return chr(self.taken(1)[0])

    def name(self) -> str:
        end = self.data.find(b"\0", self.at)
        found = self.taken((end if end >= 0 else len(self.data)) - self.at)
        self.taken(1)
        return found.decode()

    def texts(self) -> Texts:
        return tuple(self._text() for _ in range(self.number(_SHORT)))

    def _text(self) -> Text:
        match self.letter():
            case "n":
                return None
            case "u":
                return Unchanged.UNCHANGED
            case "t":
                return self.taken(self.number(_INTEGER)).decode()
            case other:
                raise SpoutError(f"a message of pgoutput has a value of the unknown form {other!r}")


def message_of(data: bytes) -> Message:
    """Return the message.

    Raises:
        SpoutError: it is not one of version 1, or is cut off.
    """
    parts = _Bytes(data)
    match parts.letter():
        case "B":
            return Begin(parts.number(_LONG))
        case "C":
            parts.taken(1)
            return Commit(parts.number(_LONG), parts.number(_LONG))
        case "R":
            return _relation(parts)
        case "I" | "U" | "D" as kind:
            return _row_change(kind, parts)
        case "T":
            count, _ = parts.number(_INTEGER), parts.taken(1)
            return Truncate(tuple(parts.number(_INTEGER) for _ in range(count)))
        case "O" | "Y" | "M":
            return Other()
        case other:
            raise SpoutError(f"pgoutput sent a message of the unknown kind {other!r}")


def _relation(parts: _Bytes) -> Relation:
    id, schema, name = parts.number(_INTEGER), parts.name(), parts.name()
    parts.taken(1)  # the kind of its replica identity, which each column says
    columns = []
    for _ in range(parts.number(_SHORT)):
        is_key = bool(parts.taken(1)[0] & 1)
        column, kind, modifier = parts.name(), parts.number(_INTEGER), parts.number(_INTEGER)
        columns.append(RelationColumn(column, kind, modifier - (modifier >> 31 << 32), is_key))
    return Relation(id, schema or "pg_catalog", name, tuple(columns))


_OPS = {"I": "insert", "U": "update", "D": "delete"}


def _row_change(kind: str, parts: _Bytes) -> RowChange:
    relation, form = parts.number(_INTEGER), parts.letter()
    old: Texts | None = None
    is_full = form == "O"
    if form in ("K", "O"):
        old = parts.texts()
        if kind == "D":
            return RowChange(_OPS[kind], relation, None, old, is_full)
        form = parts.letter()
    if form != "N" or kind == "D":
        raise SpoutError(f"a message of pgoutput has a row of the unknown form {form!r}")
    return RowChange(_OPS[kind], relation, parts.texts(), old, is_full)
