"""A data plane with real threads, and a thread that turns it as the driver's does; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

from attrs import define, field

from coordinators.batches.spout_coordinator import TridentSpoutCoordinator
from coordinators.driver.batch_streams import Batch
from coordinators.protocol.messages import Acked, Diagnosis, Message, Reported
from coordinators.protocol.protocol import StreamId
from coordinators.status.listener import Tell, tell_nobody
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from coordinators.values.shutdown import Shutdown
from trident_py.engine.plane.emitted import EmittedBatch
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.plane import DataPlane
from trident_py.engine.plane.sifting import Sifted
from trident_py.engine.plane.work import Job, JobMember, Processed
from trident_py.engine.ports.batch_engine import Jobs
from trident_py.engine.ports.commit_thread import CommitThread
from trident_py.engine.ports.reads import StateReads, States
from trident_py.engine.threads.commits import Commits
from trident_py.engine.threads.dead_letters import DeadLetterTable
from trident_py.engine.threads.parked_rows import ParkedRows
from trident_py.engine.threads.sifting import Sifting
from trident_py.engine.threads.spout_executor import TridentSpoutExecutor
from trident_py.engine.threads.streams import TopologyStreams
from trident_py.engine.threads.threads import SpoutThreads
from trident_py.engine.threads.workers import Workers
from trident_py.engine.wiring.assembly import shape_of
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.spouts import Emitter
from trident_py.participants.participant import Participant
from trident_py.rows.schema import schema_of
from trident_py.spark.asking import Life
from trident_py.spark.failures import Place, diagnosed
from trident_py.worker.sieve import Quarantine

WITHIN_SECONDS = 60
JOB_EDGE = 7


class Nothing(BatchCoordinator[Any]):
    """Has nothing to define."""

    def is_ready(self, txid: int) -> bool:
        return False

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        return None


def spout_of(emitter: Emitter[Any], fields: str, name: str = "s") -> SpoutThreads:
    """A spout that only emits."""
    return SpoutThreads.of(
        TridentSpoutCoordinator("t", name, Nothing(), exact=True),
        TridentSpoutExecutor("t", name, schema_of(fields), emitter, Metrics()),
    )


def processed(job: Job, members: Sequence[JobMember]) -> list[Processed]:
    """What a job makes of attempts, if nothing is to be made: their receipts are their txids."""
    return [Processed(each.attempt.txid, [Acked(each.attempt, StreamId.BATCH, JOB_EDGE)]) for each in members]


@define
class Making(Jobs):
    """Jobs that a function makes up."""

    make: Callable[[Job, Sequence[JobMember]], Sequence[Processed]]

    def process(self, job: Job, members: Sequence[JobMember]) -> Sequence[Processed]:
        return self.make(job, members)

    def checkpoint(self, emit: Emit, batch: EmittedBatch, verify: bool) -> EmittedBatch:
        return batch

    def sift(self, emit: Emit, batch: EmittedBatch, branch: int, quarantine: Quarantine) -> Sifted:
        raise AssertionError(quarantine)


@define(eq=False)
class Driven:
    """The data plane of a topology "t" with spouts and outputs; `turn` runs on the driver's thread.

    Attributes:
        told: what the driver would be told, besides reports.
    """

    streams: TopologyStreams
    told: Queue[Message] = field(factory=Queue)
    _inbox: Queue[Message | Callable[[], object] | None] = field(factory=Queue)
    _is_closed: bool = False

    def turn(self, call: Callable[[], Any]) -> Any:
        """Make ``call`` on the driver's thread."""
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(call())
            except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
                done.set_exception(error)

        self._inbox.put(run)
        return done.result(WITHIN_SECONDS)

    def emit(
        self, txid: int, metadata: Mapping[str, Any], attempt_id: int = 0, *, is_empty: bool = False
    ) -> TransactionAttempt:
        """Announce a batch."""
        attempt = TransactionAttempt(txid, attempt_id)
        edges = [1] * self.streams.consumers(StreamId.BATCH)
        number = None if is_empty else txid
        batch = Batch(attempt=attempt, number=number, commits=number, metadata=metadata, time=0, edges=edges)
        self.turn(lambda: self.streams.emit_batch(batch))
        return attempt

    def commit(self, *attempts: TransactionAttempt) -> None:
        """Announce a group commit."""
        edges = list(range(1, self.streams.consumers(StreamId.COMMIT) + 1))
        self.turn(lambda: self.streams.emit_commit(dict.fromkeys(attempts, edges)))

    def next(self) -> Message:
        """What the driver is told next."""
        return self.told.get(timeout=WITHIN_SECONDS)

    def acked(self, stream: StreamId, count: int) -> None:
        """Return when so many edges of a stream were acked."""
        while count:
            message = self.next()
            assert isinstance(message, Acked), message
            count -= message.stream is stream

    def run(self) -> None:
        """The driver's thread."""
        while (item := self._inbox.get()) is not None:
            match item:
                case Reported():
                    # What comes after the end nobody takes: tests look at it.
                    for message in () if self._is_closed else self.streams.take():
                        self.told.put(message)
                case _ if callable(item):
                    item()
                case _:
                    self.told.put(item)

    def close(self) -> None:
        """End it, on the driver's thread or after that has ended; once."""
        if not self._is_closed:
            self._is_closed = True
            self.streams.close()

    def post(self, message: Message) -> None:
        """As the inbox does."""
        self._inbox.put(message)


@contextmanager
def driven(
    spouts: Sequence[SpoutThreads] = (),
    participants: Sequence[Participant] = (),
    *,
    shareable: Collection[int] = (),
    process: Callable[[Job, Sequence[JobMember]], Sequence[Processed]] = processed,
    states: States | None = None,
    thread: CommitThread | None = None,
    shutdown: Shutdown | None = None,
    tell: Tell = tell_nobody,
) -> Iterator[Driven]:
    """Each participant is the output of a branch that reads all spouts."""
    reads = StateReads("t", states or {}, thread or CommitThread())
    branches = [frozenset(each.tx_id for each in spouts)] * len(participants)
    executors = {each.tx_id: each.executor for each in spouts}

    def diagnose(error: BaseException, place: Place, doing: str) -> Diagnosis:
        return diagnosed(error, place, doing, lambda: Life.ALIVE)

    made: list[Driven] = []
    parked = ParkedRows("t", "1234", Path("parked"))
    workers = Workers(
        topology="t",
        spouts=spouts,
        branches=branches,
        rereads=frozenset(),
        sifting={each.tx_id: Sifting.of(each.tx_id, (), 1000) for each in spouts},
        commits=Commits(
            topology="t",
            spouts=executors,
            participants=participants,
            transaction=lambda attempt, time: SinkTransaction(
                TransactionKey("uuid", 1, attempt.txid), attempt, 1, time
            ),
            ensure_leading=lambda: None,
            diagnose=diagnose,
            thread=reads.thread,
            trial_seconds=5.0,
        ),
        reads=reads,
        parked=parked,
        letters=DeadLetterTable(Path("letters.db"), parked, {}),
        jobs=Making(process),
        diagnose=diagnose,
        draw_edge=lambda: 1,
        tell=tell,
        job_threads=2,
    )
    streams = TopologyStreams(
        topology="t",
        plane=DataPlane(shape=shape_of(executors, branches, [frozenset()] * len(branches), participants, shareable)),
        workers=workers,
        post=lambda message: made[0].post(message),
        shutdown=shutdown or Shutdown(patience=WITHIN_SECONDS),
    )
    made.append(Driven(streams))
    turning = Thread(target=made[0].run, daemon=True)
    turning.start()
    try:
        yield made[0]
    finally:
        made[0]._inbox.put(None)
        turning.join(WITHIN_SECONDS)
        made[0].close()
