"""A state that was left out and comes back takes what it has missed for committed, if that is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken, TransactionAttempt
from tests.unit.trident_py.given import Given
from tests.unit.trident_py.states.sql.everywhere import factory_over
from trident_py import Count, TridentConfig
from trident_py.errors import StateError
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import ReducerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import FencedState, MapState, StateFactory
from trident_py.participants.states import AggregateParticipant
from trident_py.rows.schema import schema_of
from trident_py.states.sql.sqlite import SQLiteState


@pytest.fixture(params=["memory", "sqlite", "shards", pytest.param("postgres", marks=pytest.mark.postgres)])
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> StateFactory:
    return factory_over(request, tmp_path)


@pytest.fixture
def counts(factory: StateFactory) -> Iterator[AggregateParticipant]:
    made = factory.for_fields(schema_of("word string"), schema_of("count bigint").fields[0])
    state = made.make_state(TridentConfig(), Metrics(), 0, 1)
    with closing(AggregateParticipant(name="counts", state=state, aggregator=Count(), keys=1)) as participant:
        yield participant


IDENTITY = TopologyIdentity("wordcount", "8d1f", 1)
ONE = pa.table({"word": ["a"], "count": [1]})


def transaction(txid: int, *, attempt_id: int = 0, epoch: int = 2) -> SinkTransaction:
    key = TransactionKey(IDENTITY.uuid, IDENTITY.incarnation, txid)
    return SinkTransaction(key, TransactionAttempt(txid, attempt_id), epoch)


def counted(participant: AggregateParticipant) -> int | None:
    assert isinstance(participant.state, MapState)
    value: int | None = participant.state.multi_get([["a"]])[0]
    return value


def test_a_state_passes_over_transactions_that_it_never_gets(counts: AggregateParticipant) -> None:
    counts.recover(IDENTITY, 2)
    counts.commit_group([(transaction(1), ONE)])
    with pytest.raises(StateError, match="so 2 comes next"):
        counts.commit_group([(transaction(9), ONE)])
    counts.pass_over(IDENTITY, 2, range(2, 9))
    assert counts.recover(IDENTITY, 2) == CommitToken(8, 2, 0)
    counts.commit_group([(transaction(9), ONE)])
    assert counts.recover(IDENTITY, 3) == CommitToken(9, 2, 0)
    assert counted(counts) == 2


def test_passing_over_rolls_back_what_a_dead_attempt_has_left_and_may_be_done_again(
    counts: AggregateParticipant,
) -> None:
    counts.recover(IDENTITY, 2)
    for txid in (1, 2):
        counts.commit_group([(transaction(txid, attempt_id=5), ONE)])
    counts.recover(IDENTITY, 3)
    counts.pass_over(IDENTITY, 3, range(2, 9))
    assert (counts.recover(IDENTITY, 4), counted(counts)) == (CommitToken(8, 3, 0), 1)
    counts.pass_over(IDENTITY, 4, range(8, 9))
    assert counts.recover(IDENTITY, 4) == CommitToken(8, 4, 0)
    counts.commit_group([(transaction(9, epoch=4), ONE)])
    assert counted(counts) == 2


# --- keys that are removed --------------------------------------------------------------------------------------------


class Open(ReducerAggregator[Any]):
    """How many are open; an end closes all."""

    def init(self) -> Any:
        return 0

    def reduce(self, curr: Any, row: Any) -> Any:
        return REMOVE if row.event == "end" else curr + 1


class Plain(MapState[Any]):
    """A state of a user's that can't remove a key."""

    def begin_commit(self, txid: int) -> None: ...

    def commit(self, txid: int) -> None: ...

    def multi_get(self, keys: Any) -> list[Any]:
        return [None] * len(keys)

    def multi_put(self, keys: Any, values: Any) -> None: ...

    def multi_update(self, keys: Any, updaters: Any) -> list[Any]:
        return [updater(None) for updater in updaters]


def events(*rows: tuple[str, str]) -> pa.Table:
    words, what = zip(*rows, strict=True)
    return pa.table({"_key_word": list(words), "event": list(what)})


def test_a_reducer_that_returns_remove_begins_anew_with_the_next_row_and_new_values_have_a_null(
    factory: StateFactory,
) -> None:
    made = factory.for_fields(schema_of("word string"), schema_of("count bigint").fields[0])
    seen: list[Any] = []
    participant = AggregateParticipant(
        name="open",
        state=made.make_state(TridentConfig(), Metrics(), 0, 1),
        aggregator=Open(),
        keys=1,
        inputs=["event"],
        downstream=lambda tx, values, _: seen.append(values),
    )
    with closing(participant):
        participant.recover(IDENTITY, 2)
        participant.commit_group([(transaction(1), events(("a", "start"), ("b", "start"), ("c", "end")))])
        participant.commit_group([(transaction(2), events(("a", "end"), ("b", "end"), ("b", "start")))])
        assert seen == [[("a", 1), ("b", 1), ("c", None)], [("a", None), ("b", 1)]]
        assert isinstance(participant.state, MapState)
        assert participant.state.multi_get([["a"], ["b"], ["c"]]) == [None, 1, None]


def test_keys_that_only_an_older_attempt_had_changed_are_handed_on_by_themselves(tmp_path: Path) -> None:
    made = SQLiteState(tmp_path / "s.db", table="counts").for_fields(
        schema_of("word string"), schema_of("count bigint").fields[0]
    )
    seen: list[Any] = []
    state = made.make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(state, FencedState)
    state.tells_rolled_back = True
    participant = AggregateParticipant(
        name="counts",
        state=state,
        aggregator=Count(),
        keys=1,
        downstream=lambda tx, values, rolled_back: seen.append((values, rolled_back)),
    )
    with closing(participant):
        participant.recover(IDENTITY, 2)
        participant.commit_group([(transaction(1), ONE)])
        participant.commit_group([(transaction(2), pa.table({"word": ["a", "b", "c"], "count": [1, 1, 1]}))])
        again = transaction(2, attempt_id=1)
        participant.commit_group([(again, pa.table({"word": ["c", "d"], "count": [1, 2]}))])
        participant.apply(transaction(2, attempt_id=2), Given([("d", 1)], "word string, count bigint"))
    assert seen == [
        ([("a", 1)], ()),
        ([("a", 2), ("b", 1), ("c", 1)], ()),
        ([("c", 1), ("d", 2)], [("a", 1), ("b", None)]),
        ([("d", 1)], [("a", 1), ("b", None), ("c", None)]),
    ]


def test_a_state_that_cannot_remove_a_key_is_refused_by_name_when_it_is_to() -> None:
    participant = AggregateParticipant(name="open", state=Plain(), aggregator=Open(), keys=1, inputs=["event"])
    participant.commit_group([(transaction(1), events(("a", "start")))])
    with pytest.raises(StateError, match="state 'open': Open returned REMOVE, and Plain can't remove a key"):
        participant.commit_group([(transaction(2), events(("a", "end")))])
