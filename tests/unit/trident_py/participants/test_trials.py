"""A trial does all that a commit does, and leaves nothing: with every store, alone and in a shared transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import TRIAL_TXID, TransactionAttempt
from tests.unit.trident_py.states.sql.everywhere import STORES, factory_over
from trident_py.errors import FencedError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import ReducerAggregator
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import MapState, StateFactory
from trident_py.operations.builtin import Count
from trident_py.participants.participant import SharedTransactions
from trident_py.participants.states import AggregateParticipant
from trident_py.rows.schema import schema_of
from trident_py.states.sql.sqlite import SQLiteState

IDENTITY = TopologyIdentity("words", "8d1f", 1)
FIELDS = schema_of("word string, count bigint")


def transaction(txid: int, attempt: int = 0) -> SinkTransaction:
    return SinkTransaction(TransactionKey("8d1f", 1, txid), TransactionAttempt(txid, attempt), 1, time=txid)


TRIAL = transaction(TRIAL_TXID)


def change(**counts: int) -> pa.Table:
    return pa.table({"word": list(counts), "count": list(counts.values())})


class Counting:
    """A state, recovered, whose values anybody may read."""

    def __init__(self, factory: StateFactory, aggregator: Any) -> None:
        typed = factory.for_fields(schema_of("word string"), FIELDS.fields[1])
        state: Any = typed.make_state(TridentConfig(), Metrics(), 0, 1)
        self.state: MapState[int] = state
        self.participant = AggregateParticipant(
            name="counts", state=state, aggregator=aggregator, keys=1, inputs=["count"]
        )
        self.participant.recover(IDENTITY, 1)
        self.transactions = SharedTransactions()
        self.transactions.join([self.participant])

    def commit(self, tx: SinkTransaction, rows: pa.Table) -> None:
        with self.transactions.committing([0], tx):
            self.participant.commit_group([(tx, rows)])

    def values(self) -> list[int | None]:
        return self.state.multi_get([["a"], ["b"]])


Made: TypeAlias = Callable[[StateFactory, Any], Counting]


@pytest.fixture
def counting() -> Iterator[Made]:
    with ExitStack() as stack:

        def made(factory: StateFactory, aggregator: Any) -> Counting:
            counts = Counting(factory, aggregator)
            stack.callback(counts.participant.close)
            return counts

        yield made


@pytest.fixture(params=STORES)
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> StateFactory:
    return factory_over(request, tmp_path)


def test_a_trial_leaves_nothing_and_the_next_transactions_commit_as_if_it_had_not_been(
    factory: StateFactory, counting: Made
) -> None:
    counts = counting(factory, Count())
    assert counts.transactions.tries(counts.participant, TRIAL, change(a=9)), "before the first commit"
    counts.commit(transaction(1), change(a=1))
    for number in range(3):
        trial = transaction(TRIAL_TXID, number)
        assert counts.transactions.tries(counts.participant, trial, change(a=5, b=5))
        assert counts.values() == [1, None]
    counts.commit(transaction(2), change(a=1, b=2))
    assert counts.values() == [2, 2]
    assert counts.transactions.tries(counts.participant, TRIAL, change(b=7))
    counts.commit(transaction(2, 1), change(b=3))  # a replay of the last one still undoes it
    assert counts.values() == [1, 3]
    assert counts.participant.recover(IDENTITY, 2) == transaction(2, 1).token


class Refuses(ReducerAggregator[int]):
    """Can't add a number to what is stored already."""

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, row: Any) -> int:
        if curr:
            raise ValueError("there is one")
        return int(row.count)


def test_a_trial_sees_what_is_committed_and_fails_as_a_commit_would(factory: StateFactory, counting: Made) -> None:
    counts = counting(factory, Refuses())
    counts.commit(transaction(1), change(a=1))
    with pytest.raises(ValueError, match="there is one"):
        counts.transactions.tries(counts.participant, TRIAL, change(a=2))
    assert counts.transactions.tries(counts.participant, TRIAL, change(b=2))
    counts.commit(transaction(2), change(b=3))
    assert counts.values() == [1, 3]


def test_a_trial_of_a_leader_that_was_replaced_is_refused(factory: StateFactory, counting: Made) -> None:
    counts = counting(factory, Count())
    late = SinkTransaction(TRIAL.key, TRIAL.attempt, 0)
    with pytest.raises(FencedError, match="epoch"):
        counts.transactions.tries(counts.participant, late, change(a=1))


def test_no_trial_is_ever_committed(tmp_path: Path, counting: Made) -> None:
    counts = counting(SQLiteState(tmp_path / "s.db", table="counts"), Count())
    with pytest.raises(AssertionError, match="trial-0 would be committed"):
        counts.commit(TRIAL, change(a=1))
    assert counts.values() == [None, None]
