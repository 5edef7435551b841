"""A change of many keys is applied portion by portion."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import TransactionAttempt
from trident_py import Count, SQLiteState, TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import ITupleCollection
from trident_py.participants.states import PORTION_ROWS, AggregateParticipant, in_key_order, portions
from trident_py.rows.schema import schema_of

ROWS = 2 * PORTION_ROWS + 1


@pytest.mark.parametrize(
    "keys",
    [
        [number * 7_919 % ROWS for number in range(ROWS)],
        [f"w{number * 7_919 % ROWS}" for number in range(ROWS)],
        [datetime.fromtimestamp(number * 7_919 % ROWS, UTC) for number in range(ROWS)],
        [None] * ROWS,
    ],
)
def test_a_large_change_comes_in_portions_in_the_order_of_its_keys(keys: list[Any]) -> None:
    change = pa.table({"key.1": keys, "same": [1] * ROWS, "count": list(range(ROWS))})
    found = portions(change, 2)
    assert [portion.num_rows for portion in found] == [PORTION_ROWS, PORTION_ROWS, 1]
    rows = list(zip(*(column.to_pylist() for column in pa.concat_tables(found).columns), strict=True))
    assert sorted(rows, key=str) == sorted(zip(keys, [1] * ROWS, range(ROWS), strict=True), key=str)
    if keys[0] is not None:
        assert rows == sorted(rows)


def test_keys_that_have_no_order_come_as_they_are() -> None:
    keys = [[number * 7_919 % ROWS] for number in range(ROWS)]
    found = portions(pa.table({"key": keys, "count": list(range(ROWS))}), 1)
    assert [portion.num_rows for portion in found] == [PORTION_ROWS, PORTION_ROWS, 1]
    assert pa.concat_tables(found).column(0).to_pylist() == keys


@pytest.mark.parametrize("keys", [[3, None, 1, 3, 2], [[3], None, [1], [3], [2]]], ids=["compared", "by their texts"])
def test_new_values_come_in_the_order_of_their_keys_and_rows_of_a_key_in_theirs(keys: list[Any]) -> None:
    change = pa.table({"key": keys, "n": range(5)})
    assert in_key_order(change, 1).column(1).to_pylist() == [2, 4, 0, 3, 1]
    assert in_key_order(change, 0) == change


def test_a_small_change_is_one_portion() -> None:
    change = pa.table({"key": [2, 1], "count": [1, 1]})
    assert portions(change, 1) == [change]


def test_all_portions_are_one_transaction(tmp_path: Path) -> None:
    factory = SQLiteState(tmp_path / "s.db", table="counts")
    made = factory.for_fields(schema_of("word string"), schema_of("count bigint").fields[0])
    state = made.make_state(TridentConfig(), Metrics(), 0, 1)
    participant = AggregateParticipant(name="counts", state=state, aggregator=Count(), keys=1)
    identity = TopologyIdentity("wordcount", "8d1f", 1)
    words = [f"word{number}" for number in range(ROWS)]
    with closing(participant):
        participant.recover(identity, 1)
        for txid in (1, 2, 2):
            tx = SinkTransaction(TransactionKey(identity.uuid, 1, txid), TransactionAttempt(txid, 0), 1)
            change = pa.table({"word": words, "count": [txid] * ROWS})
            participant.commit_group([(tx, change)])
        assert isinstance(state, ITupleCollection)
        assert {tuple(row) for row in state.get_tuples()} == {(word, 3) for word in words}
