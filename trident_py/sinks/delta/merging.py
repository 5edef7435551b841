"""The effect of a batch of changes on a Delta table, as the source of one merge. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from attrs import frozen

from trident_py.rows.row import keys_in
from trident_py.sinks.changes import OLD, Merge, MergedRow, MergeFields, in_order, merged, old_keys, old_values
from trident_py.states.keys import encode_keys

WRITE, INSERT, DELETE, MOVE = "write", "insert", "delete", "move"
KIND, AT, KEEPS = "_trident_kind", "_trident_at_", "_trident_keeps_"
"""Names, or their beginnings, of columns of the source that the table hasn't."""

Fate: TypeAlias = tuple[str, str, MergedRow | None]
"""The change of a row of the table: the kind, the text of the key that it has there, and the row afterwards."""


@frozen(kw_only=True)
class MergeSource:
    """The source of a merge.

    Attributes:
        rows: a row for each row of the table that is added or changed. The fields of the table, then the kind, the key
            at which it is found, and which fields keep their values.
        columns: the fields of the table.
        keys: those of the key.
        kept: the fields of which some row keeps the value.
        empties: whether all other rows of the table are deleted.
    """

    rows: pa.Table
    columns: Sequence[str]
    keys: Sequence[str]
    kept: Sequence[str] = ()
    empties: bool = False

    @property
    def condition(self) -> str:
        """The condition that a row of the table is meant; null equals null."""
        pairs = ((f"target.{_quoted(name)}", f"source.{_quoted(AT + name)}") for name in self.keys)
        same = (f"({target} = {source} OR ({target} IS NULL AND {source} IS NULL))" for target, source in pairs)
        return " AND ".join([*same, f"source.{KIND} <> '{INSERT}'"])

    @property
    def updates(self) -> Mapping[str, str]:
        """The new value of each field, in a row that is there."""
        return {name: self._value(name) for name in self.columns}

    @property
    def inserts(self) -> Mapping[str, str]:
        """The value of each field in a new row."""
        return {name: f"source.{_quoted(name)}" for name in self.columns}

    def null_field(self, names: Sequence[str]) -> str:
        """Return one of these fields that would be null in a row of the table; empty: none would."""
        for name in names:
            is_null = self.rows[name].is_null().to_pylist() if name in self.columns else []
            keeps = self.rows[KEEPS + name].to_pylist() if name in self.kept else [False] * len(is_null)
            if any(map(_is_missing, is_null, keeps, self.rows[KIND].to_pylist())):
                return name
        return ""

    def _value(self, name: str) -> str:
        new = f"source.{_quoted(name)}"
        if name not in self.kept:
            return new
        return f"CASE WHEN source.{_quoted(KEEPS + name)} THEN target.{_quoted(name)} ELSE {new} END"


def _is_missing(is_null: bool, keeps: bool, kind: str) -> bool:
    return is_null and not keeps and kind != DELETE


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def rows_source(rows: pa.Table, keys: Sequence[str]) -> MergeSource:
    """Return the source by which each row is added, or replaces the row of its key."""
    at = {AT + name: rows[name] for name in keys}
    kinds = pa.repeat(WRITE, rows.num_rows)
    columns = dict(zip(rows.column_names, rows.columns, strict=True))
    return MergeSource(rows=pa.table({**columns, KIND: kinds, **at}), columns=rows.column_names, keys=keys)


def merge_source(data: pa.Table, columns: Sequence[str], keys: Sequence[str], fields: MergeFields) -> MergeSource:
    """Return the effect of a batch of changes on a table with these columns.

    Raises:
        SinkError: a row keeps values of a row that isn't there.
    """
    data = in_order(data, fields)
    texts, old = _texts(data.select(keys)), old_keys(data, keys, _texts)
    places = ((place,) * len(columns) for place in range(data.num_rows))  # the values of a row are taken afterwards
    merge = merged(data, fields, columns, values=places, keys=texts, old_keys=old)
    found = list(fates(merge))
    after = [row for _, _, row in found]
    taken = {
        name: data[name].take(pa.array([row.values[place] if row else None for row in after], pa.int64()))
        for place, name in enumerate(columns)
    }
    at = _key_values(data, keys, texts, old, [key for _, key, _ in found])
    kept = sorted(set[str]().union(*(row.kept for row in after if row)))
    keeps = {KEEPS + name: [bool(row and name in row.kept) for row in after] for name in kept}
    kinds = pa.array([kind for kind, _, _ in found], pa.string())
    return MergeSource(
        rows=pa.table({**taken, KIND: kinds, **at, **keeps}),
        columns=columns,
        keys=keys,
        kept=kept,
        empties=merge.empties,
    )


def fates(merge: Merge) -> Iterator[Fate]:
    """Yield the change of each row of the table, and the rows that are added where another one is moved away."""
    moved = {row.source: row for row in merge.rows.values() if row is not None and row.kept}
    for key, row in merge.rows.items():
        if key in moved:
            yield MOVE, key, moved[key]
            if row is not None and not row.kept:
                yield INSERT, key, row
        elif row is None or row.kept:
            yield DELETE, key, None
        else:
            yield WRITE, key, row


def _texts(keys: pa.Table) -> list[str]:
    return encode_keys(keys_in(keys, keys.column_names))


def _key_values(
    data: pa.Table, keys: Sequence[str], texts: Sequence[str], old: Sequence[str | None], wanted: Sequence[str]
) -> Mapping[str, pa.ChunkedArray]:
    """Return the values of the keys with these texts, from the changes or the rows before them."""
    known, place_of = data.select(keys), {text: place for place, text in enumerate(texts)}
    if OLD in data.column_names:
        known = pa.concat_tables([known, old_values(data, keys).cast(known.schema)])
        for place, text in enumerate(old):
            if text is not None:
                place_of.setdefault(text, len(texts) + place)
    places = pa.array([place_of[text] for text in wanted], pa.int64())
    return {AT + name: known[name].take(places) for name in keys}
