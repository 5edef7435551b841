"""A state that was left out and comes back takes what it has missed for committed, if that is accepted."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from coordinators.attempt import CommitToken, TransactionAttempt
from coordinators.store import TopologyIdentity
from trident_py import Count, TridentConfig
from trident_py.engine.states import AggregateParticipant
from trident_py.errors import StateError
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import MapState, StateFactory
from trident_py.rows.schema import schema_of
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.postgres import PostgresState
from trident_py.states.sql.sqlite import SQLiteState


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> StateFactory:
    match request.param:
        case "memory":
            return MemoryMapState.factory()
        case "sqlite":
            return SQLiteState(tmp_path / "s.db", table="counts")
    return PostgresState(request.getfixturevalue("postgres"), table="counts")


def test_a_state_passes_over_transactions_that_it_never_gets(factory: StateFactory) -> None:
    made = factory.for_fields(schema_of("word string"), schema_of("count bigint").fields[0])
    state = made.make_state(TridentConfig(), Metrics(), 0, 1)
    assert isinstance(state, MapState)
    participant = AggregateParticipant(name="counts", state=state, aggregator=Count(), keys=1)
    identity = TopologyIdentity("wordcount", "8d1f", 1)
    one = pa.table({"word": ["a"], "count": [1]})

    def transaction(txid: int) -> SinkTransaction:
        return SinkTransaction(TransactionKey(identity.uuid, 1, txid), TransactionAttempt(txid, 0), 2)

    with closing(participant):
        participant.recover(identity, 2)
        participant.commit(transaction(1), one)
        with pytest.raises(StateError, match="so 2 comes next"):
            participant.commit(transaction(9), one)
        participant.pass_over(identity, 2, range(2, 9))
        assert participant.recover(identity, 2) == CommitToken(8, 2, 0)
        participant.commit(transaction(9), one)
        assert participant.recover(identity, 3) == CommitToken(9, 2, 0)
        assert state.multi_get([["a"]]) == [2]
