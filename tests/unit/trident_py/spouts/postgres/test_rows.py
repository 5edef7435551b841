"""The rows of a `PostgresChangesSpout`, without a server: which columns fit, and how changes become values."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import types as t

from tests.unit.trident_py.spouts.postgres import messages
from trident_py.errors import SpoutError
from trident_py.spouts.postgres.changes import Position, changes_after
from trident_py.spouts.postgres.pgoutput import Relation, RelationColumn, Unchanged
from trident_py.spouts.postgres.rows import Layout, SourceTable


def layout(kind: t.DataType) -> Layout:
    return Layout(
        {"public.t": SourceTable("public.t", (t.StructField("id", kind), t.StructField("doc", t.StringType())))}
    )


def rows(kind: t.DataType, *changes: bytes) -> list[dict[str, Any]]:
    """The rows of one transaction."""
    described = messages.relation(1, "t", [("id", 23, -1, True), ("doc", 25, -1, False)])
    found = changes_after(Position(0), [messages.begin(9), described, *changes, messages.commit(9, 12)])
    made = layout(kind)
    texts = [row for change in found for row in made.rows_of(change)]
    return [{name: row[name] for name in row if not name.startswith("_l")} for row in made.arrow(texts).to_pylist()]


def test_changes_become_rows() -> None:
    kept = Unchanged.UNCHANGED
    assert rows(
        t.IntegerType(),
        messages.update(1, ("2", kept), ("1", None)),
        messages.update(1, ("2", kept), ("2", "full"), b"O"),
        messages.delete(1, ("2", None)),
    ) == [
        {"_op": "update", "id": 2, "doc": None, "_old": {"id": 1, "doc": None}, "_unchanged": ["doc"], "_n": 1},
        {"_op": "update", "id": 2, "doc": "full", "_old": {"id": 2, "doc": "full"}, "_unchanged": None, "_n": 2},
        {"_op": "delete", "id": 2, "doc": None, "_old": {"id": 2, "doc": None}, "_unchanged": None, "_n": 3},
    ]


@pytest.mark.parametrize(
    ("kind", "oid", "modifier", "fits"),
    [
        (t.IntegerType(), 21, -1, True),
        (t.IntegerType(), 20, -1, False),
        (t.LongType(), 23, -1, True),
        (t.LongType(), 25, -1, False),
        (t.DoubleType(), 700, -1, True),
        (t.FloatType(), 701, -1, False),
        (t.StringType(), 20, -1, True),
        (t.DecimalType(10, 2), 1700, 4 + (10 << 16 | 2), True),
        (t.DecimalType(10, 2), 1700, 4 + (8 << 16 | 0), True),
        (t.DecimalType(10, 2), 1700, 4 + (9 << 16 | 0), False),
        (t.DecimalType(10, 2), 1700, 4 + (10 << 16 | 3), False),
        (t.DecimalType(10, 2), 1700, -1, False),
        (t.IntegerType(), 99_999, -1, True),  # a domain, whose values are checked one by one
    ],
)
def test_a_column_that_was_altered_fits_if_its_field_holds_all_values(
    kind: t.DataType, oid: int, modifier: int, fits: bool
) -> None:
    relation = Relation(1, "public", "t", (RelationColumn("id", oid, modifier, True),))
    if fits:
        layout(kind).check(relation)
        return
    with pytest.raises(SpoutError, match=r"column 'id' of table public.t was altered.*as_text='id'"):
        layout(kind).check(relation)


def test_a_value_that_is_not_of_the_type_is_named() -> None:
    with pytest.raises(SpoutError, match="column 'id' has the value 'x', which is no smallint"):
        rows(t.ShortType(), messages.insert(1, ("1", None)), messages.insert(1, ("x", None)))
