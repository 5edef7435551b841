"""What a database's catalog says of a table."""

from __future__ import annotations

from enum import Enum

from attrs import frozen


class Family(Enum):
    """What kind of values a column holds."""

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
    """A column of a table that is there.

    Attributes:
        written: its type as it stands in CREATE TABLE.
        family: what it holds.
        bounds: the least and the greatest of its integers.
        digits: precision and scale of its decimals; None: any.
        size: of texts how many characters, of binary values how many bytes, of floats how many bits of digits, of
            timestamps how many digits of a second; None: any, or the most that there are.
        octets: how many bytes its texts may have in UTF-8.
        is_padded: whether shorter values are filled up.
        members: the texts that an enumeration has.
        parses: whether the database converts a text exactly or not at all; it has a type for booleans then, too.
        is_required: whether NULL is refused, or replaced by something else.
        is_generated: whether the database makes its values itself.
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
"""The unique keys of a table whose rows are known by `_key` only, as `FoundTable.keys` has them."""


@frozen
class FoundTable:
    """A table that is there.

    Attributes:
        columns: in their order.
        keys: its unique indexes and their columns, where the database has to be asked for them; None: it wasn't.
        mark: what the topology that made it has left in it; empty: nothing.
        identity: what another table of the same name would not have, where the database tells.
        is_cased: whether columns may differ in upper and lower case only.
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
        """Return what is other in ``newer``, for messages."""
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
        return told or ["it was made anew"]


def _is_same_text(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def signed(bits: int) -> tuple[int, int]:
    """Return the least and the greatest integer of so many bits."""
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
