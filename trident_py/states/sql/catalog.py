"""The description of a table by the database's catalog."""

from __future__ import annotations

from enum import Enum

from attrs import frozen


class Family(Enum):
    """The kinds of values that a column may hold."""

    INTEGER = "integers"
    EXACT = "decimals"
    FLOAT = "floats"
    BOOLEAN = "booleans"
    TEXT = "texts"
    FORM = "values that are written as texts"
    JSON = "JSON"
    BINARY = "binary values"
    DATE = "dates"
    CLOCK = "timestamps without time zone"
    INSTANT = "timestamps"
    OTHER = "something else"


@frozen(kw_only=True)
class FoundColumn:
    """A column of an existing table.

    Attributes:
        written: its type, as written in CREATE TABLE.
        family: the kind of its values.
        bounds: the least and the greatest of its integers.
        digits: precision and scale of its decimals; None: any.
        size: length in characters of a text, bytes of a binary value, bits of precision of a float, or digits of a
            second of a timestamp. None: any, or the greatest possible length.
        octets: the maximum number of bytes of a text in UTF-8; None: any.
        is_padded: whether shorter values are filled up.
        members: the texts of an enumeration.
        parses: whether the database converts a text exactly or refuses it; then it has a type for booleans, too.
        is_required: whether NULL is refused, or replaced by another value.
        is_generated: whether the database makes the column's values itself.
    """

    name: str
    written: str
    family: Family
    bounds: tuple[int, int] = (0, 0)
    digits: tuple[int, int] | None = None
    size: int | None = None
    octets: int | None = None
    is_padded: bool = False
    members: tuple[str, ...] = ()
    parses: bool = False
    is_required: bool = False
    is_generated: bool = False


ONLY_KEY = "PRIMARY:_key"
"""The value of `FoundTable.keys` for a table whose only unique key is `_key`."""


@frozen
class FoundTable:
    """An existing table.

    Attributes:
        columns: the columns in their order.
        keys: its unique indexes and their columns, if a separate query is needed for them; None: they were not queried.
        mark: the mark that the topology which made the table left in it; empty: no mark.
        identity: a number that another table of the same name would not have; None: the database has no such number.
        is_cased: whether names of columns may differ in upper and lower case only.
    """

    columns: tuple[FoundColumn, ...]
    keys: str | None = None
    mark: str = ""
    identity: int | None = None
    is_cased: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether there is no such table; PostgreSQL has tables without columns."""
        return not self.columns and self.identity is None

    def column(self, name: str) -> FoundColumn | None:
        """Return the column of this name."""
        is_same = str.__eq__ if self.is_cased else _is_same_text
        return next((each for each in self.columns if is_same(each.name, name)), None)

    def differences(self, newer: FoundTable) -> list[str]:
        """Return the differences of ``newer`` from this table, for messages."""
        if newer.is_gone:
            return ["it is gone"]
        told = [f"column {each.name!r} is gone" for each in self.columns if newer.column(each.name) is None]
        for each in newer.columns:
            before = self.column(each.name)
            if before is None:
                told.append(f"column {each.name!r} is new")
            elif before.written != each.written:
                told.append(f"column {each.name!r} was {before.written} and is {each.written}")
            elif before != each:
                told.append(f"column {each.name!r} takes NULL or is generated, other than before")
        if self.keys != newer.keys:
            told.append(f"its unique keys were {self.keys or 'none'} and are {newer.keys or 'none'}")
        return told or ["it was made again"]


def _is_same_text(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def signed(bits: int) -> tuple[int, int]:
    """Return the least and the greatest integer of ``bits`` bits."""
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
