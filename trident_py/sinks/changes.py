"""Changes of rows: what those of a batch do to a table, as the last change of each key. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen
from pyspark.sql import types as t

from trident_py.errors import SinkError, TopologyError
from trident_py.rows.row import column_values
from trident_py.rows.schema import select

OLD, UNCHANGED, TRUNCATE = "_old", "_unchanged", "truncate"

_CONDITION = re.compile(r"\s*(\w+)\s*=\s*'([^']*)'\s*")


def stored_fields(fields: t.StructType) -> t.StructType:
    """Return the fields that are columns; the others, with an underscore, say what a row means."""
    return select(fields, [name for name in fields.names if not name.startswith("_")])


@frozen(kw_only=True)
class MergeFields:
    """The fields that describe a change.

    Attributes:
        sequence_by: the fields that give the order of changes.
        operation: the field that says what happened to the row; empty: rows are only added and replaced.
        deleted: the value of that field in the rows that delete.
    """

    sequence_by: tuple[str, ...]
    operation: str = ""
    deleted: str = ""

    @classmethod
    def of(cls, sequence_by: tuple[str, ...], deletes: str | None) -> MergeFields:
        """Return them for arguments of a sink.

        Raises:
            TopologyError: they can't work.
        """
        if not sequence_by:
            raise TopologyError("mode='merge' needs sequence_by=, the fields that give the order of changes")
        if deletes is None:
            return cls(sequence_by=sequence_by)
        found = _CONDITION.fullmatch(deletes)
        if found is None:
            raise TopologyError(f"deletes= compares a field with a text, as in \"_op = 'delete'\", not {deletes!r}")
        return cls(sequence_by=sequence_by, operation=found[1], deleted=found[2])

    def check(self, fields: t.StructType, keys: Sequence[str]) -> None:
        """Check that the rows have these fields.

        Raises:
            TopologyError: one is missing, or a key isn't stored.
        """
        select(fields, [*self.sequence_by, *([self.operation] if self.operation else [])])
        select(stored_fields(fields), keys)


@frozen
class MergedRow:
    """The row of a key after a batch.

    Attributes:
        values: of all columns; those of ``kept`` columns have no meaning.
        kept: the columns whose values stay as they are in the table.
        source: the text of the key that the row has in the table; empty if nothing is kept.
    """

    values: tuple[Any, ...]
    kept: frozenset[str] = frozenset()
    source: str = ""


@define
class Merge:
    """Applies changes one after the other.

    Attributes:
        columns: the names of the table's columns.
        empties: whether the table is emptied before everything else.
        rows: by the text of the key, its row afterwards; None: it is deleted.
    """

    columns: Sequence[str]
    empties: bool = False
    rows: dict[str, MergedRow | None] = field(factory=dict)

    def truncate(self) -> None:
        """Remove all rows."""
        self.empties, self.rows = True, {}

    def delete(self, key: str) -> None:
        """Remove the row of a key."""
        self.rows[key] = None

    def write(self, key: str, values: tuple[Any, ...], old_key: str, unchanged: Iterable[str]) -> None:
        """Add the row of a key, or replace that of ``old_key`` by it, which keeps the ``unchanged`` columns."""
        kept = frozenset(unchanged)
        row = self._keeping(values, kept, old_key) if kept else MergedRow(values)
        if old_key != key:
            self.rows[old_key] = None
        self.rows[key] = row

    @property
    def deleted(self) -> list[str]:
        """The keys of rows that are deleted, or replaced by the row of another key."""
        return [key for key, row in self.rows.items() if row is None or row.source not in ("", key)]

    @property
    def whole(self) -> list[tuple[Any, ...]]:
        """The rows that keep nothing, each with its key at the end."""
        return [(*row.values, key) for key, row in self.rows.items() if row is not None and not row.kept]

    @property
    def partial(self) -> list[tuple[str, MergedRow]]:
        """The keys and rows that keep some values."""
        return [(key, row) for key, row in self.rows.items() if row is not None and row.kept]

    def _keeping(self, values: tuple[Any, ...], kept: frozenset[str], old_key: str) -> MergedRow:
        if old_key not in self.rows and not self.empties:
            return MergedRow(values, kept, old_key)
        before = self.rows.get(old_key)
        if before is None:
            raise SinkError(f"the columns {', '.join(sorted(kept))} of key {old_key} are unchanged, and it has no row")
        still = kept & before.kept
        filled = tuple(
            old if name in kept - still else new
            for name, old, new in zip(self.columns, before.values, values, strict=True)
        )
        return MergedRow(filled, still, before.source if still else "")


def in_order(data: pa.Table, fields: MergeFields) -> pa.Table:
    """Return the changes of a batch in their order."""
    return data.sort_by([(name, "ascending") for name in fields.sequence_by])


def merged(
    data: pa.Table,
    fields: MergeFields,
    columns: Sequence[str],
    *,
    values: Iterable[tuple[Any, ...]],
    keys: Iterable[str],
    old_keys: Iterable[str | None],
) -> Merge:
    """Return the effect of a batch of changes, given in their order.

    Args:
        data: the changes.
        fields: the fields that describe them.
        columns: the names of the table's columns.
        values: of all columns, for each change.
        keys: the text of the key of each change.
        old_keys: the text of the key that the row had before; None: the same.

    Raises:
        SinkError: a row keeps values of a row that isn't there.
    """
    merge = Merge(columns)
    operations, kept = _column(data, fields.operation), _column(data, UNCHANGED)
    for operation, key, row, old_key, unchanged in zip(operations, keys, values, old_keys, kept, strict=True):
        if operation == TRUNCATE:
            merge.truncate()
        elif fields.operation and operation == fields.deleted:
            merge.delete(key)
        else:
            merge.write(key, row, old_key or key, unchanged or ())
    return merge


def old_keys(data: pa.Table, names: Sequence[str], texts: Callable[[pa.Table], Sequence[str]]) -> Sequence[str | None]:
    """Return the texts of the keys that rows had before the changes; None: the change doesn't have it.

    Args:
        data: the changes.
        names: the fields of the key.
        texts: returns the texts of keys.
    """
    if OLD not in data.column_names:
        return [None] * data.num_rows
    found = texts(old_values(data, names))
    is_known = data.column(OLD).is_valid().to_pylist()
    return [text if known else None for text, known in zip(found, is_known, strict=True)]


def old_values(data: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return these fields of the rows before the changes, which have a field for them."""
    old = data.column(OLD).combine_chunks()
    return pa.table({name: pc.struct_field(old, name) for name in names})


def _column(data: pa.Table, name: str) -> Sequence[Any]:
    return column_values(data.column(name)) if name in data.column_names else [None] * data.num_rows
