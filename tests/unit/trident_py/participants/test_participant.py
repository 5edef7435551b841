"""Participants in commits: sinks, loose ends, and what the others have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from attrs import define, field

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import FailedException, FencedError, SinkError
from trident_py.interfaces.sinks import RowsSink, SinkTransaction, TransactionalSink, TransactionKey
from trident_py.participants.participant import Leaf, SinkParticipant, earliest
from trident_py.worker.counters import CountScope, count_scope, counter

TOPOLOGY = TopologyIdentity("t", "uuid", 1)


@define
class Sink(TransactionalSink[str]):
    told: list[Any] = field(factory=list)
    error: Exception | None = None

    def recover(self, topology: Any, epoch: int) -> None:
        if self.error:
            raise self.error

    def prepare(self, tx: SinkTransaction, frame: Any) -> str:
        return f"staged {tx.txid}"

    def commit(self, tx: SinkTransaction, receipt: str) -> None:
        counter("commits").add(1)
        self.told.append(("commit", tx.txid, receipt))

    def abort(self, tx: SinkTransaction, receipt: str | None) -> None:
        self.told.append(("abort", tx.txid, receipt))


class Grouping(Sink):
    """Refuses a group with transaction 8, and that transaction alone, if it ``refuses``."""

    takes_groups = True
    refuses: bool = False

    def commit(self, tx: SinkTransaction, receipt: str) -> None:
        if self.refuses and tx.txid == 8:
            raise FailedException("refused")
        super().commit(tx, receipt)

    def commit_group(self, group: Sequence[tuple[SinkTransaction, str]]) -> None:
        if self.refuses and any(tx.txid == 8 for tx, _ in group):
            raise FailedException("refused")
        self.told.append(("group", [tx.txid for tx, _ in group], [receipt for _, receipt in group]))


class Keeping(Sink, RowsSink[str]):
    def keep(self, tx: SinkTransaction, rows: pa.Table) -> str:
        return f"{rows.num_rows} rows of {tx.txid}"


def staged(participant: SinkParticipant, *txids: int) -> list[tuple[SinkTransaction, Any]]:
    prepared: Any = participant.prepare
    return [(transaction(txid), prepared(transaction(txid), None, None)) for txid in txids]


def transaction(txid: int) -> SinkTransaction:
    return SinkTransaction(TransactionKey("uuid", 1, txid), TransactionAttempt(txid, 0), 1)


def test_a_sink_is_told_of_each_transaction_of_a_group_in_order_and_counts_for_each() -> None:
    sink = Sink()
    participant = SinkParticipant("out", sink)
    with count_scope(CountScope(8)) as scope:
        participant.commit_group(staged(participant, 7, 8))
    participant.abort(transaction(9), None)
    assert sink.told == [("commit", 7, "staged 7"), ("commit", 8, "staged 8"), ("abort", 9, None)]
    assert {txid for txid, _ in scope.counts} == {7, 8}


def test_a_sink_that_takes_groups_commits_several_transactions_together_and_one_alone() -> None:
    sink = Grouping()
    participant = SinkParticipant("out", sink)
    assert participant.takes_groups
    with count_scope(CountScope()):
        participant.commit_group(staged(participant, 7, 8))
        participant.commit_group(staged(participant, 9))
    assert sink.told == [("group", [7, 8], ["staged 7", "staged 8"]), ("commit", 9, "staged 9")]


def test_of_a_group_that_a_sink_refuses_each_commits_alone_and_the_refused_one_is_known() -> None:
    sink = Grouping()
    sink.refuses = True
    participant = SinkParticipant("out", sink)
    with count_scope(CountScope()) as scope, pytest.raises(FailedException):
        participant.commit_group(staged(participant, 7, 8, 9))
    assert sink.told == [("commit", 7, "staged 7")]
    assert scope.txid == 8


def test_only_a_sink_of_rows_keeps_those_that_a_shared_job_has_made() -> None:
    rows = pa.table({"n": [1, 2]})
    assert SinkParticipant("out", Keeping()).keep(transaction(7), rows) == "2 rows of 7"
    with pytest.raises(AssertionError, match="out shares no jobs"):
        SinkParticipant("out", Sink()).keep(transaction(7), rows)


def test_what_a_sink_raises_at_a_takeover_names_it_and_our_own_errors_stay_as_they_are() -> None:
    with pytest.raises(SinkError, match="sink 'out' could not recover, OSError: no such disk") as raised:
        SinkParticipant("out", Sink(error=OSError("no such disk"))).recover(TOPOLOGY, 1)
    assert (raised.value.topology, raised.value.state) == ("t", "out")
    with pytest.raises(FencedError):
        SinkParticipant("out", Sink(error=FencedError("a newer leader"))).recover(TOPOLOGY, 1)


def test_a_loose_end_commits_nothing() -> None:
    leaf = Leaf("lines")
    assert not leaf.capabilities.commits
    assert leaf.recover(TOPOLOGY, 1) is None


def test_the_earliest_moment_is_the_first_that_there_is() -> None:
    assert earliest([None, 7, None, 5]) == 5
    assert earliest([None]) is earliest([]) is None
