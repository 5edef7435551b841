"""Which of the transactions that are to commit do so in one step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from queue import Queue
from typing import Any

import pyarrow as pa
import pytest
from attrs import define, field

from coordinators.attempt import TransactionAttempt
from coordinators.batch_coordinator import BatchCoordinator
from coordinators.notices import Acked, Failed, FailureKind, Notice
from coordinators.protocol import StreamId
from coordinators.shutdown import Shutdown
from coordinators.spout_coordinator import TridentSpoutCoordinator
from trident_py.engine.bolt_executor import Processed
from trident_py.engine.commit_thread import CommitThread
from trident_py.engine.emitted import SMALL_ROWS
from trident_py.engine.participants import Participant
from trident_py.engine.reads import StateReads
from trident_py.engine.spout_executor import TridentSpoutExecutor
from trident_py.engine.spout_threads import SpoutThreads
from trident_py.engine.streams import TopologyStreams
from trident_py.errors import FailedException
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.spouts import Emitter
from trident_py.rows.schema import schema_of
from trident_py.spark.asking import Life
from trident_py.spark.failures import diagnosed

WITHIN_SECS = 60
SECS, PATIENCE_SECS = 7, 5
"""What each commit takes, and what is taken for granted."""


class Numbers(Emitter[int]):
    """Emits as many rows as the metadata says."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
        if metadata < 0:
            raise SystemExit(metadata)
        collector.emit_arrow(pa.table({"n": list(range(metadata))}))


class Nothing(BatchCoordinator[Any]):
    def is_ready(self, txid: int) -> bool:
        return False

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        return None


@define
class Steps(Participant):
    """Notes what commits in one step, of which group, and who is said to be alive meanwhile."""

    name: str = "steps"
    is_ours: bool = True
    takes_runs: bool = True
    taken: list[list[int]] = field(factory=list)
    groups: set[int | None] = field(factory=set)
    alive: list[set[int]] = field(factory=list)
    breaks: int = 0
    streams: TopologyStreams | None = None

    def prepare(self, tx: SinkTransaction, frame: Any, collect: Any) -> None:
        raise NotImplementedError

    now: list[float] = field(factory=lambda: [0.0])

    def commit_run(self, run: Sequence[tuple[SinkTransaction, Any]]) -> None:
        assert self.streams
        if run[0][0].key.txid == self.breaks:
            raise KeyboardInterrupt
        self.now[0] += SECS
        self.taken.append([tx.key.txid for tx, _ in run])
        self.groups |= {tx.group_first for tx, _ in run}
        self.alive.append({attempt.txid for attempt, stream in self.streams.alive() if stream is StreamId.COMMIT})


@define
class World:
    streams: TopologyStreams
    steps: Steps
    posted: Queue[Notice]

    def acked(self, stream: StreamId, count: int) -> None:
        """Wait until so many edges of a stream were acked."""
        while count:
            notice = self.posted.get(timeout=WITHIN_SECS)
            assert isinstance(notice, Acked), notice
            count -= notice.stream is stream


@pytest.fixture
def world() -> Iterator[World]:
    posted: Queue[Notice] = Queue()
    spout = SpoutThreads.of(
        TridentSpoutCoordinator("t", "s", Nothing(), exact=True),
        TridentSpoutExecutor("t", "s", schema_of("n bigint"), Numbers(), Metrics()),
    )
    steps = Steps()
    streams = TopologyStreams(
        topology="t",
        spouts=[spout],
        branches=[frozenset({"s"})],
        rereads=frozenset(),
        participants=[steps],
        shareable=(),
        process=lambda work, _: Processed(None, [Acked(work.attempt, StreamId.BATCH, 1)]),
        process_together=lambda works, _: [],
        settle=lambda _, batch, __: batch,
        cancel_jobs=lambda _: None,
        cancel_together=lambda _: None,
        diagnose=lambda error, place, doing: diagnosed(error, place, doing, lambda: Life.ALIVE),
        transaction=lambda attempt, time: SinkTransaction(TransactionKey("uuid", 1, attempt.txid), attempt, 1, time),
        ensure_leading=lambda: None,
        draw_edge=lambda: 1,
        post=posted.put,
        reads=StateReads("t", {}, CommitThread(PATIENCE_SECS, lambda: steps.now[0])),
        shutdown=Shutdown(patience=WITHIN_SECS),
        job_threads=1,
    )
    steps.streams = streams
    with closing(streams):
        yield World(streams, steps, posted)


def test_what_an_emitter_raises_as_a_failed_exception_says_whose_source_is_away(world: World) -> None:
    class Away(Numbers):
        def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
            raise FailedException("nobody there")

    world.streams.spouts[0].executor.emitter = Away()
    world.streams.emit_batch(TransactionAttempt(1, 0), {"s": 1}, 0, [1])
    failed = world.posted.get(timeout=WITHIN_SECS)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.spouts) == (FailureKind.UNREACHABLE, ["s"])


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ("sss", [[1, 2, 3]]),
        ("lll", [[1], [2], [3]]),
        ("sslss", [[1, 2], [3], [4, 5]]),
        ("lssl", [[1], [2, 3], [4]]),
    ],
)
def test_small_transactions_commit_in_one_step_and_each_large_one_alone(
    world: World, caplog: pytest.LogCaptureFixture, sizes: str, taken: list[list[int]]
) -> None:
    attempts = [TransactionAttempt(txid, 0) for txid in range(1, len(sizes) + 1)]
    for attempt, size in zip(attempts, sizes, strict=True):
        world.streams.emit_batch(attempt, {"s": 1 if size == "s" else SMALL_ROWS + 1}, 0, [1])
    world.acked(StreamId.BATCH, 2 * len(sizes))  # by the emitter and by the job
    world.streams.emit_commit({attempt: [1] for attempt in attempts})
    world.acked(StreamId.COMMIT, len(sizes))
    assert world.steps.taken == taken
    assert world.steps.groups == {1}, "each step knows what the record may not have yet"
    # Whoever waits for those before it doesn't fall silent.
    assert world.steps.alive == [set(range(part[0], len(sizes) + 1)) for part in taken]
    # And it is said what they wait for.
    assert caplog.messages == [
        f"topology t: the commit of transaction {part[-1]} (steps) has taken 7 s so far; commits, "
        f"and whoever asks states, wait for it"
        for part in taken
    ]


def test_user_code_that_wants_to_end_python_fails_its_attempt(world: World) -> None:
    world.steps.breaks = 2
    for txid, rows in enumerate([-1, 1, 1], 1):
        world.streams.emit_batch(TransactionAttempt(txid, 0), {"s": rows}, 0, [1])
    (failed,) = [notice for notice in _posted(world, 5) if isinstance(notice, Failed)]
    assert (failed.attempt.txid, failed.kind, type(failed.cause)) == (1, FailureKind.USER_CODE, SystemExit)
    world.streams.emit_commit({TransactionAttempt(2, 0): [1]})
    world.streams.emit_commit({TransactionAttempt(3, 0): [1]})
    interrupted, acked = _posted(world, 2)
    assert isinstance(interrupted, Failed)
    assert (interrupted.attempt.txid, type(interrupted.cause)) == (2, KeyboardInterrupt)
    assert isinstance(acked, Acked)
    assert world.steps.taken == [[3]]


def _posted(world: World, count: int) -> list[Notice]:
    return [world.posted.get(timeout=WITHIN_SECS) for _ in range(count)]
