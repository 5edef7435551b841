"""What a task writes: files, their rows by partition, and what Delta's log says of them."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.unit.trident_py.sinks.delta.tables import Leader, rows_in, written
from tests.unit.trident_py.sinks.tables.leaders import EVERY_TYPE, EVERY_VALUE, transaction
from trident_py import SinkError
from trident_py.sinks.delta.staging import Storage
from trident_py.sinks.tables import staging
from trident_py.sinks.tables.staging import of_transaction

SCHEMA, ROW = EVERY_TYPE, EVERY_VALUE
NULLS = (None,) * len(ROW)


def test_rows_of_every_type_come_back(tmp_path: Path) -> None:
    Leader(tmp_path, schema=SCHEMA).commit(1, ROW, NULLS)
    found = DeltaTable(tmp_path).to_pyarrow_table().sort_by("n").to_pylist()
    assert list(found[0].values())[:-3] == list(ROW)[:-3]
    assert (found[0]["tags"], found[0]["seen"], found[0]["s"]) == (["x", None], [("a", None)], {"a": 1, "b": None})
    assert set(found[1].values()) == {None}


@pytest.mark.parametrize("field", ["word", "n", "b", "at", "local", "day", "price"])
def test_a_table_is_partitioned_by_values_of_each_simple_type(tmp_path: Path, field: str) -> None:
    leader = Leader(tmp_path, schema=SCHEMA, partition_by=(field,))
    leader.commit(1, ROW, NULLS, ROW)
    place = [part.partition(" ")[0] for part in SCHEMA.split(", ")].index(field)
    table = DeltaTable(tmp_path).to_pyarrow_table()
    assert Counter(table[field].to_pylist()) == {ROW[place]: 2, None: 1}
    assert table.num_rows == 3
    assert len(leader.transactions.partition_by) == 1


def test_rows_are_divided_by_several_partitions_and_none_is_lost(tmp_path: Path) -> None:
    leader = Leader(tmp_path, schema="p string, q int, n bigint", partition_by=("p", "q"))
    rows = [(p, q, n) for p in ("a", "/=%", None) for q in (1, None) for n in range(3)]
    tx = transaction(1)
    staged = leader.staged(tx, *rows)
    assert len({tuple(each.about["partition"].values()) for each in staged}) == 6
    leader.transactions.commit(tx, staged)
    found = DeltaTable(tmp_path).to_pyarrow_table().select(["p", "q", "n"]).to_pylist()
    assert sorted(map(str, found)) == sorted(str(dict(zip("pqn", row, strict=True))) for row in rows)


def test_statistics_are_bounds_of_the_rows_and_what_has_no_order_has_none(tmp_path: Path) -> None:
    (file,) = written(Storage(str(tmp_path)), transaction(1), SCHEMA, [ROW, NULLS, ("a" * 33, 5, *NULLS[2:])])
    stats = json.loads(file.about["stats"])
    assert stats["numRecords"] == file.content.rows == 3
    assert stats["minValues"] == {
        "n": -1,
        "at": "2026-07-01T12:30:15.123456Z",
        "local": "2026-07-01T12:30:15.123456",
        "day": "1900-01-01",
    }
    assert stats["maxValues"] == {**stats["minValues"], "n": 5}
    assert stats["nullCount"] == {
        name: 2 if name not in ("word", "n") else 1
        for name in ("word", "n", "b", "at", "local", "day", "price", "ratio", "data")
    }


def test_small_batches_are_written_as_one_row_group_and_large_ones_as_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "ROW_GROUP_ROWS", 4)
    leader = Leader(tmp_path)
    (even, odd) = leader.staged(transaction(1), *[("a", n) for n in range(12)])
    assert even.content.rows == odd.content.rows == 6
    leader.transactions.commit(transaction(1), [even, odd])
    assert rows_in(tmp_path) == [("a", n) for n in range(12)]


def test_a_null_in_a_field_that_must_have_a_value_fails_the_attempt(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="field 'n' is null in a row, and the table"):
        written(Storage(str(tmp_path)), transaction(1), "word string, n bigint", [("a", None)], required=("n",))


def test_the_files_of_a_transaction_are_known_by_their_names(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    first = [each.path for each in written(storage, transaction(1), "n int", [(1,)])]
    other = [each.path for each in written(storage, transaction(11), "n int", [(1,)])]
    assert of_transaction("a-uuid", 1, [*first, *other, "part-0.parquet"]) == first


def test_secrets_of_a_store_are_not_shown() -> None:
    assert "hush" not in repr(Storage("s3://bucket/events", {"AWS_SECRET_ACCESS_KEY": "hush"}))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("string", "", r"the value '', which is null as a partition of Delta's"),
        ("decimal(10,2)", Decimal("-1.50"), "the value -1.50, which deltalake can't read as a partition"),
        ("decimal(10,2)", Decimal("-0.01"), "the value -0.01"),
    ],
)
@pytest.mark.parametrize("keys", [(), ("n",)], ids=["appends", "merges"])
def test_a_value_that_readers_would_take_for_another_partition_is_refused(
    tmp_path: Path, kind: str, value: Any, message: str, keys: tuple[str, ...]
) -> None:
    leader = Leader(tmp_path, schema=f"n bigint, p {kind}", partition_by=("p",), keys=keys)
    with pytest.raises(SinkError, match=f"field 'p' has {message}") as caught:
        leader.staged(transaction(1), (1, None), (2, value))
    assert "to fix this: change such values before the sink" in str(caught.value)


@pytest.mark.parametrize("value", ["-1.00", "0.00", "0.01", "1.05", "0.00000001", "-12345678901.00000000"])
def test_a_decimal_that_readers_read_as_it_is_may_be_a_partition(tmp_path: Path, value: str) -> None:
    scale = len(value.partition(".")[2])
    leader = Leader(tmp_path, schema=f"n bigint, p decimal(20,{scale})", partition_by=("p",))
    leader.commit(1, (1, Decimal(value)))
    assert rows_in(tmp_path) == [(1, Decimal(value))]
    (text,) = {each["add"]["partitionValues"]["p"] for each in log_of(tmp_path) if "add" in each}
    assert text == value


def log_of(path: Path) -> list[Any]:
    entries = (path / "_delta_log").glob("*.json")
    return [json.loads(line) for entry in entries for line in entry.read_text().splitlines()]
