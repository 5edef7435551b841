"""The rows of a `PostgresChangesSpout`: their fields, and the values that PostgreSQL has written as texts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import field, frozen
from pyspark.sql import types as t

from trident_py.errors import SpoutError, TopologyError
from trident_py.rows.schema import arrow_schema, arrow_type, schema_of
from trident_py.spouts.postgres.changes import Change, Position
from trident_py.spouts.postgres.pgoutput import Relation, RelationColumn, RowChange, Texts, Unchanged, message_of

SNAPSHOT, TRUNCATE = "snapshot", "truncate"

_BEFORE = [t.StructField("_op", t.StringType())]
_TABLE = t.StructField("_table", t.StringType())
_AFTER = [
    t.StructField("_unchanged", t.ArrayType(t.StringType())),
    t.StructField("_lsn", t.LongType()),
    t.StructField("_n", t.LongType()),
]

_SHORT, _INTEGER, _LONG, _FLOAT, _DOUBLE, _NUMERIC = 21, 23, 20, 700, 701, 1700
_READ_AS: dict[type[t.DataType], frozenset[int]] = {
    t.ShortType: frozenset({_SHORT}),
    t.IntegerType: frozenset({_SHORT, _INTEGER}),
    t.LongType: frozenset({_SHORT, _INTEGER, _LONG}),
    t.FloatType: frozenset({_FLOAT}),
    t.DoubleType: frozenset({_FLOAT, _DOUBLE}),
    t.DecimalType: frozenset({_NUMERIC}),
    t.BooleanType: frozenset({16}),
    t.BinaryType: frozenset({17}),
    t.DateType: frozenset({1082}),
    t.TimestampNTZType: frozenset({1114}),
    t.TimestampType: frozenset({1184}),
}
"""The OIDs of PostgreSQL's types whose texts are texts of a type of Spark's. Any text is a string."""

_BUILT_IN_END = 16_384
"""From this OID on, types were made by users."""


@frozen
class SourceTable:
    """A table of the publication.

    Attributes:
        shown: schema and name.
        fields: the columns that are published.
    """

    shown: str
    fields: tuple[t.StructField, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(each.name for each in self.fields)


@frozen(kw_only=True)
class TextRow:
    """A row with values as texts.

    Attributes:
        table: schema and name.
        new: the values by column, afterwards or, of a deleted row, before.
        old: the values before, as far as they are known.
        unchanged: the columns whose values are not known, because they are as before.
    """

    op: str
    table: str
    at: Position
    new: Mapping[str, str | None]
    old: Mapping[str, str | None] | None = None
    unchanged: Sequence[str] | None = None


@frozen
class Layout:
    """The tables and the fields of all rows.

    Attributes:
        tables: by schema and name.
        fields: the columns of all tables; those of the same name are one field.
    """

    tables: Mapping[str, SourceTable]
    fields: tuple[t.StructField, ...] = field(init=False)
    schema: t.StructType = field(init=False)

    @fields.default
    def _all_fields(self) -> tuple[t.StructField, ...]:
        found: dict[str, t.StructField] = {}
        for table in self.tables.values():
            for each in table.fields:
                if found.setdefault(each.name, each).dataType != each.dataType:
                    raise TopologyError(
                        f"column {each.name!r} is {each.dataType.simpleString()} in table {table.shown} and "
                        f"{found[each.name].dataType.simpleString()} in another one; to fix this: make a publication "
                        f"and a spout for each, or read the column as text: as_text={each.name!r}"
                    )
        return tuple(found.values())

    @schema.default
    def _schema(self) -> t.StructType:
        table = [_TABLE] if len(self.tables) > 1 else []
        old = t.StructField("_old", t.StructType(list(self.fields)))
        return schema_of(t.StructType([*_BEFORE, *table, *self.fields, old, *_AFTER]))

    def check(self, relation: Relation) -> None:
        """Check that the fields hold the values of a table as it is described in the log.

        Raises:
            SpoutError: they don't.
        """
        table = self.tables.get(relation.shown)
        if table is None:
            raise SpoutError(
                f"table {relation.shown} was added to the publication, and its rows of before are unknown; to fix "
                f"this: `trident reset` this topology, which takes a new snapshot, or publish the table separately"
            )
        kinds = {each.name: each.dataType for each in table.fields}
        for column in relation.columns:
            if column.name not in kinds:
                raise SpoutError(
                    f"column {column.name!r} was added to table {relation.shown}; to fix this: start this topology "
                    f"again, so that its fields are declared anew"
                )
            if not _is_held(column, kinds[column.name]):
                raise SpoutError(
                    f"column {column.name!r} of table {relation.shown} was altered, and its field is "
                    f"{kinds[column.name].simpleString()}; to fix this: start this topology again, so that its fields "
                    f"are declared anew, or with as_text={column.name!r}"
                )

    def rows_of(self, change: Change) -> Iterator[TextRow]:
        """Yield the rows of a change: one, or that of each table that was emptied."""
        message = message_of(change.data)
        if isinstance(message, RowChange):
            yield _row(message, change.relations[message.relation], change.at)
            return
        for id in getattr(message, "relations", ()):
            yield TextRow(op=TRUNCATE, table=change.relations[id].shown, at=change.at, new={})

    def arrow(self, rows: Sequence[TextRow]) -> pa.Table:
        """Return the rows as Arrow data.

        Raises:
            SpoutError: a field can't hold a value.
        """
        found: dict[str, pa.Array] = {
            "_op": pa.array([row.op for row in rows], pa.string()),
            "_table": pa.array([row.table for row in rows], pa.string()),
            **{each.name: _values(each, [row.new.get(each.name) for row in rows]) for each in self.fields},
            "_old": self._old(rows),
            "_unchanged": pa.array([row.unchanged for row in rows], arrow_type(_AFTER[0].dataType)),
            "_lsn": pa.array([row.at.lsn for row in rows], pa.int64()),
            "_n": pa.array([row.at.n for row in rows], pa.int64()),
        }
        schema = arrow_schema(self.schema)
        return pa.Table.from_arrays([found[name] for name in schema.names], schema=schema)

    def _old(self, rows: Sequence[TextRow]) -> pa.Array:
        olds = [row.old or {} for row in rows]
        columns = [_values(each, [old.get(each.name) for old in olds]) for each in self.fields]
        kind = arrow_type(self.schema["_old"].dataType)
        missing = pa.array([row.old is None for row in rows], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=missing)


def _row(change: RowChange, relation: Relation, at: Position) -> TextRow:
    names = [column.name for column in relation.columns]
    old = _known_old(change, relation)
    if change.new is None:
        return TextRow(op=change.op, table=relation.shown, at=at, new=old or {}, old=old)
    new = _resolved(change.new, change.old if change.is_full else None)
    unchanged = [name for name, value in zip(names, new, strict=True) if value is Unchanged.UNCHANGED]
    values = {name: value for name, value in zip(names, new, strict=True) if not isinstance(value, Unchanged)}
    return TextRow(op=change.op, table=relation.shown, at=at, new=values, old=old, unchanged=unchanged or None)


def _known_old(change: RowChange, relation: Relation) -> dict[str, str | None] | None:
    if change.old is None:
        return None
    return {
        column.name: value
        for column, value in zip(relation.columns, change.old, strict=True)
        if (change.is_full or column.is_key) and not isinstance(value, Unchanged)
    }


def _resolved(new: Texts, full: Texts | None) -> Texts:
    if full is None:
        return new
    return tuple(old if value is Unchanged.UNCHANGED else value for value, old in zip(new, full, strict=True))


def _is_held(column: RelationColumn, kind: t.DataType) -> bool:
    known = _READ_AS.get(type(kind))
    if known is None or column.kind >= _BUILT_IN_END:
        return True
    if isinstance(kind, t.DecimalType) and column.kind == _NUMERIC:
        precision, scale = (column.modifier - 4) >> 16, (column.modifier - 4) & 0x7FF
        is_bounded = column.modifier >= 0 and scale <= kind.scale
        return is_bounded and precision - scale <= kind.precision - kind.scale
    return column.kind in known


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text.removeprefix("\\x"))


def _boolean(text: str | None) -> bool | None:
    return None if text is None else text == "t"


_PARSED: dict[type[t.DataType], Callable[[str | None], Any]] = {t.BinaryType: _bytes, t.BooleanType: _boolean}


def _values(field: t.StructField, texts: Iterable[str | None]) -> pa.Array:
    kind, found = arrow_type(field.dataType), list(texts)
    parsed = _PARSED.get(type(field.dataType))
    if parsed is not None:
        return pa.array([parsed(text) for text in found], kind)
    try:
        return pa.array(found, pa.large_string()).cast(kind)
    except pa.ArrowInvalid:
        wrong = next(text for text in found if not _is_readable(text, kind))
        raise SpoutError(
            f"column {field.name!r} has the value {wrong!r}, which is no {field.dataType.simpleString()}; to fix "
            f"this: read the column as text: as_text={field.name!r}"
        ) from None


def _is_readable(text: str | None, kind: pa.DataType) -> bool:
    try:
        pa.array([text], pa.large_string()).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
