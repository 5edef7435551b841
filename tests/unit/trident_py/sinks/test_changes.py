"""The effect of changes on a table, key by key."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trident_py.sinks.changing import FIELDS, Table
from trident_py.errors import SinkError, TopologyError
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.sinks.changes import Merge, MergedRow, MergeFields, in_order, old_keys, stored_fields

MERGE = MergeFields.of(("_lsn", "_n"), " _op = 'delete'")


@pytest.mark.parametrize("act", [lambda merge: merge.delete("a"), lambda merge: merge.truncate()])
def test_a_row_that_keeps_values_of_none_is_refused(act: Any) -> None:
    merge = Merge(("id", "doc"))
    act(merge)
    with pytest.raises(SinkError, match="the columns doc of key a are unchanged, and it has no row"):
        merge.write("a", (1, None), "a", ["doc"])


def test_a_row_that_is_written_again_keeps_what_it_has_in_the_batch() -> None:
    merge = Merge(("id", "doc"))
    merge.write("a", (1, "new"), "a", [])
    merge.write("b", (2, None), "a", ["doc"])
    assert merge.rows == {"a": None, "b": MergedRow((2, "new"))}
    assert merge.deleted == ["a"]


def test_changes_are_made_in_their_order_and_know_their_old_keys() -> None:
    table = Table()
    table.change("insert", 1)
    table.change("update", 2, old=1)
    data = in_order(arrow_table(table.batch(), schema_of(FIELDS)), MERGE)
    assert data["_op"].to_pylist() == ["insert", "update"]
    assert old_keys(data, ["id"], lambda found: list(map(str, found["id"].to_pylist()))) == [None, "1"]
    assert old_keys(data.drop_columns("_old"), ["id"], lambda found: []) == [None, None]


def test_fields_with_an_underscore_are_not_stored() -> None:
    assert stored_fields(schema_of(FIELDS)).names == ["id", "n", "doc"]


@pytest.mark.parametrize(
    ("sequence_by", "deletes", "message"),
    [((), None, "needs sequence_by="), (("_n",), "_op <> 'insert'", "compares a field with a text")],
)
def test_fields_of_a_merge_that_can_not_work_are_refused(sequence_by: Any, deletes: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        MergeFields.of(sequence_by, deletes)
