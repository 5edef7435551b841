"""Whether transactions of a topology commit in groups, and whether it is stored which one is about to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinators.record.store import TopologyIdentity
from coordinators.values.settings import LeadershipSettings
from tests.unit.trident_py.engine.wiring.test_assembly import Made, OneValue
from trident_py.engine.wiring.assembly import assembled, settings_of
from trident_py.interfaces.config import RetryPolicy, TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.spouts import Replay
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import Count
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import SharedTransactions
from trident_py.planner.plan import plan
from trident_py.sinks.sql.sink import SQLSink
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology


class Opaque(FixedBatchSpout):
    replay = Replay.OPAQUE


def settings(
    factory: StateFactory, *, spout: type[FixedBatchSpout] = FixedBatchSpout, committers: bool = False, **config: Any
) -> LeadershipSettings:
    topology = TridentTopology("wordcount")
    topology.new_stream("lines", spout("word string", 1)).persistent_aggregate(factory, Count(), "n")
    planned, configured = plan(topology._graph), TridentConfig(max_spout_pending=8, **config)
    participants, _ = assembled(planned, ParticipantContext(config=configured, metrics=Metrics()))
    return settings_of(planned, configured, participants, has_committer_spouts=committers)


@pytest.fixture
def counts(tmp_path: Path) -> SQLiteState:
    return SQLiteState(tmp_path / "counts.db", table="counts")


def test_exact_batches_in_states_with_a_fence_commit_in_groups(counts: SQLiteState) -> None:
    found = settings(counts)
    assert (found.group_max, found.store_intents) == (8, False)


def test_behind_a_committer_spout_they_commit_one_by_one(counts: SQLiteState) -> None:
    found = settings(counts, committers=True)
    assert (found.group_max, found.store_intents) == (1, False)


@pytest.mark.parametrize(("database", "most"), [("counts.db", 8), ("log.db", 1)])
def test_a_sink_commits_in_groups_only_where_everything_commits_in_one_step(
    tmp_path: Path, database: str, most: int
) -> None:
    """Else another output would have later transactions when the sink refuses rows, which could not be parked."""
    topology = TridentTopology("wordcount")
    words = topology.new_stream("lines", FixedBatchSpout("word string", 1))
    words.group_by("word").persistent_aggregate(SQLiteState(tmp_path / "counts.db", table="counts"), Count(), "n")
    words.name("log").write_to(SQLSink(f"sqlite:///{tmp_path / database}", "log"))
    planned, configured = plan(topology._graph), TridentConfig(max_spout_pending=8)
    participants, _ = assembled(planned, ParticipantContext(config=configured, metrics=Metrics()))
    for participant in participants:
        participant.recover(TopologyIdentity("wordcount", "8d1f", 1), 1)
    SharedTransactions().join(participants)
    found = settings_of(planned, configured, participants, has_committer_spouts=False)
    assert found.group_max == most
    for participant in participants:
        participant.close()


def test_what_may_come_with_other_rows_commits_alone_and_says_so_before(counts: SQLiteState) -> None:
    found = settings(counts, spout=Opaque)
    assert (found.group_max, found.store_intents) == (1, True)


def test_what_goes_to_a_state_without_a_fence_does_too() -> None:
    found = settings(Made(OneValue()))
    assert (found.group_max, found.store_intents) == (1, True)


def test_the_rest_is_what_the_user_has_set(counts: SQLiteState) -> None:
    retry = RetryPolicy(attempts=2, backoff=0.5, backoff_max=4)
    found = settings(counts, message_timeout=7, batch_interval=2, session_timeout=3, source_patience=60, retry=retry)
    assert (found.message_timeout, found.batch_interval, found.idle_turn, found.source_patience) == (7, 2, 0.5, 60)
    assert (found.attempts, found.backoff, found.backoff_max) == (2, 0.5, 4)
