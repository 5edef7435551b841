"""The composition root: it makes a running topology from a plan and a config, and dismantles it at the end."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Self

from attrs import evolve, field, frozen
from pyspark.sql import SparkSession

from coordinators.backends.coordination import Coordination
from coordinators.batches.spout_coordinator import TridentSpoutCoordinator
from coordinators.driver.driver import CoordinatorDriver
from coordinators.driver.loop import DriverLoop, Inbox
from coordinators.driver.publisher import Publisher
from coordinators.protocol.acker import EDGE_MAX
from coordinators.protocol.messages import Broken, Diagnosis, WishesChanged
from coordinators.record.declarations import Declarations
from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import RecordStore
from coordinators.status.candidate import Candidate
from coordinators.status.listener import EndedEvent
from coordinators.takeover.changes import adopted, compared, corrections_of
from coordinators.takeover.migrations import renamed, with_names
from coordinators.takeover.takeover import recover
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.error_text import quoted
from coordinators.values.shutdown import Shutdown
from coordinators.values.transaction_time import LeaderClock
from trident_py.coordination import coordination_of, place_of
from trident_py.engine.monitoring.listeners import Listeners
from trident_py.engine.plane.plane import DataPlane
from trident_py.engine.ports.batch_engine import BatchEngine, BatchWork
from trident_py.engine.ports.commit_thread import CommitThread
from trident_py.engine.ports.job_names import JobNames
from trident_py.engine.ports.reads import StateReads
from trident_py.engine.ports.requests import Requests
from trident_py.engine.resident.settings import ResidentSettings, count_of
from trident_py.engine.rows.row_engine import RowEngine, spark_needed
from trident_py.engine.spark.shared_job import small_session
from trident_py.engine.spark.spark_engine import SparkEngine
from trident_py.engine.threads.commits import Commits
from trident_py.engine.threads.dead_letters import DeadLetterTable
from trident_py.engine.threads.parked_rows import ParkedRows
from trident_py.engine.threads.sifting import Sifting
from trident_py.engine.threads.spout_executor import TridentSpoutExecutor
from trident_py.engine.threads.streams import TopologyStreams
from trident_py.engine.threads.threads import SpoutThreads
from trident_py.engine.threads.workers import Workers
from trident_py.engine.wiring.assembly import (
    assembled,
    check_fed,
    ensure_recoverable,
    ensure_stores,
    is_passing,
    partial_commit_of,
    settings_of,
    shape_of,
)
from trident_py.engine.wiring.migrating import migrate_values, plan_migrations
from trident_py.errors import ConfigError, SinkError, StateError
from trident_py.graph.queries import requests
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics, TopologyContext
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.spouts import Replay
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import Participant, SharedTransactions, everything
from trident_py.planner.declaring import declarations
from trident_py.planner.guarantees import warnings
from trident_py.planner.plan import Plan, SpoutPlan, check
from trident_py.query import TridentQuery, ensure_not_leading_here, started
from trident_py.spark.failures import Place, diagnosed
from trident_py.spark.probe import ensure_workers
from trident_py.spark.session import ensure_session_possible, ship, topology_session
from trident_py.streams.dead_letters import dead_letters_place

log = logging.getLogger(__name__)
steps = logging.getLogger("trident_py.starting")
"""Logs the steps of a start at INFO, for a command that shows them to a waiting user."""

RECOVER_AGAIN_SECONDS = 1.0
SHUTDOWN_SECONDS_MAX = 3.0
"""Seconds for threads that run user code to return at the end; at most a third of a session, because there may be two
such waits."""


WARM_SECONDS = 40.0
"""A standby loads its code again after this time: Spark ends Python workers that were idle for a minute."""


def draw_edge() -> int:
    """Return a random non-zero edge for the acker; 0 would be invisible to XOR."""
    return random.getrandbits(EDGE_MAX.bit_length()) or 1  # no secret; asking the system for each costs 0.05 ms


def start_topology(
    name: str,
    plan: Plan,
    config: TridentConfig,
    spark: SparkSession | None,
    listeners: Listeners,
    *,
    code: Path | Collection[Path] = (),
    coordination: Coordination | None = None,
    standby: bool = False,
    address: str = "",
) -> TridentQuery:
    """Acquire leadership, recover, and run a plan; arguments are as in ``TridentTopology.start``.

    With ``standby`` it returns before it leads. Other processes find its page by ``address``, a URL.
    """
    place = coordination.place if coordination else place_of(config)
    # First the checks that fail fast: Spark takes seconds to start.
    needs_spark = _needs_spark(plan, spark, coordination)
    if not standby:  # a standby can wait for a leader or a store
        ensure_not_leading_here(name, place)
        ensure_stores(plan.graph)
    with ExitStack() as resources:
        if coordination is None:
            steps.info("topology %s: %s", name, "connecting to ZooKeeper" if config.zookeeper else "starting ZooKeeper")
            coordination = resources.enter_context(coordination_of(config))
        coordination.ensure_answering(name)
        engine = (
            _spark(plan, config, spark, code, resources) if needs_spark else RowEngine(plan=plan, resources=resources)
        )
        for warning in warnings(engine.plan.graph):
            log.warning("%s", warning)
        if standby:
            ensure_recoverable(plan, config, coordination)
            engine.warm_up()
        steps.info("topology %s: %s", name, "standing by" if standby else "taking over")
        process = _Process.of(engine, config, coordination, listeners, address)
        driver = None if standby else process.lead(resources)
        owned = resources.pop_all()
    return process.run(owned, driver, place)


def _needs_spark(plan: Plan, spark: SparkSession | None, coordination: Coordination | None) -> bool:
    """Return whether Spark runs the topology.

    It always does, except in a test in one process, without a given session, if no operation needs Spark.

    Raises:
        ConfigError: Spark is needed, and not available.
    """
    is_test = spark is None and coordination is not None and coordination.is_in_memory
    needed_for = spark_needed(plan) if is_test else ""
    if needed_for is None:
        return False
    try:
        ensure_session_possible(spark)
    except ConfigError as error:
        if not needed_for:
            raise
        name = plan.graph.topology
        raise ConfigError(f"topology {name!r} needs Spark for {needed_for}: {error}", topology=name) from error
    return True


def _spark(
    plan: Plan,
    config: TridentConfig,
    spark: SparkSession | None,
    code: Path | Collection[Path],
    resources: ExitStack,
) -> SparkEngine:
    """Return the engine: a new session of the topology, and a second one for jobs over few rows."""
    name = plan.graph.topology
    steps.info("topology %s: starting Spark", name)
    session = resources.enter_context(topology_session(name, spark, count_of(config)))
    small = resources.enter_context(small_session(session))
    modules = ship(code, session, small)
    checked = check(plan, session)
    ensure_workers(session, name, modules)
    return resources.enter_context(SparkEngine.running(checked, session, small, ResidentSettings.of(config, session)))


@frozen(kw_only=True, eq=False)
class _Process:
    """The parts of a topology that this process has before it leads, and keeps for each try to lead."""

    engine: BatchEngine
    config: TridentConfig
    coordination: Coordination
    listeners: Listeners
    address: str
    requests: Requests
    shutdown: Shutdown
    metrics: Metrics = field(factory=Metrics, init=False)
    inbox: Inbox = field(factory=Inbox, init=False)
    transactions: SharedTransactions = field(factory=SharedTransactions, init=False)

    @classmethod
    def of(
        cls,
        engine: BatchEngine,
        config: TridentConfig,
        coordination: Coordination,
        listeners: Listeners,
        address: str,
    ) -> Self:
        """Return the parts for a topology on ``engine``."""
        graph = engine.plan.graph
        return cls(
            engine=engine,
            config=config,
            coordination=coordination,
            listeners=listeners,
            address=address,
            requests=Requests(graph.topology, {plan.function: plan for plan in requests(graph)}),
            shutdown=Shutdown(min(SHUTDOWN_SECONDS_MAX, config.session_timeout / 3)),
        )

    @property
    def plan(self) -> Plan:
        """The plan to run."""
        return self.engine.plan

    @property
    def name(self) -> str:
        """The name of the topology."""
        return self.plan.graph.topology

    def run(self, owned: ExitStack, driver: CoordinatorDriver | None, place: str) -> TridentQuery:
        """Run ``driver`` on a thread, or stand by until there is one; the thread closes ``owned`` at the end."""
        candidate = Candidate(self.name, address=self.address)
        loop = DriverLoop(
            self.name,
            self.inbox,
            lambda error: self._end(owned, error),
            driver,
            take_over=lambda: self.stand_by(candidate, owned),
            withdraw=candidate.withdraw,
            shutdown=self.shutdown,
        )
        loop.start()
        query = TridentQuery(
            self.name, loop, self.listeners, candidate, self.requests, coordination=self.coordination, place=place
        )
        return started(query)

    def _end(self, owned: ExitStack, error: BaseException | None) -> None:
        _close(owned, self.name)  # leadership first: listeners may take their time
        self.listeners.tell(EndedEvent(topology=self.name, at=time.time(), error=error))
        self.listeners.close()

    def lead(self, resources: ExitStack) -> CoordinatorDriver:
        """Lead and recover; the present leader has some seconds to end."""
        return self._leading(self.coordination.lead(self.name, self.address), resources, None)

    def stand_by(self, candidate: Candidate, resources: ExitStack) -> CoordinatorDriver | None:
        """Lead and recover as soon as no other process leads; None if ``candidate`` was withdrawn before."""

        def take_over(store: RecordStore) -> CoordinatorDriver:
            leads.set()
            with ExitStack() as tried:  # closed if leadership is lost meanwhile; then it is tried again
                driver = self._leading(store, tried, candidate)
                resources.push(tried.pop_all())
                return driver

        with self._kept_warm() as leads:
            return self.coordination.stand_by(candidate, take_over)

    @contextmanager
    def _kept_warm(self) -> Iterator[threading.Event]:
        """Load the code of small batches again and again, until the event is set."""
        leads = threading.Event()

        def load() -> None:
            while not leads.wait(WARM_SECONDS):
                self.engine.warm_up()

        thread = threading.Thread(target=load, name=f"trident-{self.name}-warm", daemon=True)
        thread.start()
        try:
            yield leads
        finally:
            leads.set()
            thread.join(self.shutdown.patience)

    def _leading(self, store: RecordStore, resources: ExitStack, candidate: Candidate | None) -> CoordinatorDriver:
        clock = LeaderClock(store.claimed_at, time.monotonic())
        return _Leadership(process=self, store=store, clock=clock, resources=resources, candidate=candidate).driver()


@frozen(kw_only=True, eq=False)
class _Leadership:
    """The parts of a topology that belong to one leadership of this process.

    Attributes:
        resources: closed when the leadership ends.
        candidate: waits between two tries to recover; None if recovery is tried once.
    """

    process: _Process
    store: RecordStore
    clock: LeaderClock
    resources: ExitStack
    candidate: Candidate | None

    def driver(self) -> CoordinatorDriver:
        """Recover the state of the earlier leader; return the driver that continues from there."""
        self.resources.callback(self.store.close)
        declared = self._checked_declarations()
        participants, reads = self._outputs()
        spouts = self._spouts()
        streams = self._streams(spouts, participants, reads)
        record = self._record(participants, spouts, declared)
        self._hand_over(record, streams, participants)
        self._serve(reads)
        publisher = self._publisher(streams, reads)
        driver = self._driver(record, streams, participants, publisher)
        self._watch(streams, publisher)
        return driver

    def _checked_declarations(self) -> Declarations:
        """Compare the program with the record, before anything is made that changes what the earlier leader left."""
        process = self.process
        declared = declarations(process.plan.graph, process.config.accept)
        found = self.store.read() or CoordinatorRecord(epoch=self.store.epoch)
        compared(with_names(process.name, found, declared).record, declared).check(process.name)
        return declared

    def _outputs(self) -> tuple[list[Participant], StateReads]:
        process = self.process
        thread = CommitThread(process.config.message_timeout)
        context = ParticipantContext(
            config=process.config,
            metrics=process.metrics,
            spark=process.engine.commit_spark(self.store.epoch, thread),
            transactions=process.transactions,
        )
        participants, states = assembled(process.plan, context)
        plan_migrations(process.plan.graph, participants)
        return participants, StateReads(process.name, states, thread)

    def _spouts(self) -> list[SpoutThreads]:
        return [SpoutThreads.of(*self._halves(spout)) for spout in self.process.plan.spouts]

    def _halves(self, plan: SpoutPlan) -> tuple[TridentSpoutCoordinator, TridentSpoutExecutor]:
        process, tx_id, spout = self.process, plan.tx_id, plan.spout
        context = TopologyContext(process.name, tx_id, None, process.metrics, epoch=self.store.epoch)
        emitting = evolve(context, spark=process.engine.session, parallelism=process.engine.parallelism)
        defining = emitting if spout.coordinator_needs_spark else context
        coordinator = spout.get_coordinator(tx_id, process.config, defining)
        emitter = spout.get_emitter(tx_id, process.config, emitting)
        return (
            TridentSpoutCoordinator(process.name, tx_id, coordinator, spout.replay is Replay.EXACT),
            TridentSpoutExecutor(process.name, tx_id, plan.schema, emitter, process.metrics),
        )

    def _streams(
        self, spouts: list[SpoutThreads], participants: list[Participant], reads: StateReads
    ) -> TopologyStreams:
        process = self.process
        branches = [frozenset(branch.spouts) for branch in process.plan.branches]
        jobs = process.engine.jobs(self._work(participants, reads))
        parked = ParkedRows.of(self.store.identity, process.config)
        workers = Workers(
            topology=process.name,
            spouts=spouts,
            branches=branches,
            rereads=frozenset().union(*(branch.rereads for branch in process.plan.branches)),
            sifting={
                each.tx_id: Sifting.of(each.tx_id, process.plan.branches, process.config.bad_rows_max)
                for each in process.plan.spouts
            },
            commits=self._commits(spouts, participants, reads),
            reads=reads,
            parked=parked,
            letters=self._letters(parked),
            jobs=jobs,
            diagnose=self._diagnosed,
            draw_edge=draw_edge,
            tell=process.listeners.tell,
            # Twice the pending transactions, as a cancelled job holds its thread until Spark ends it; others cancel.
            job_threads=(2 * len(branches) + 1) * process.config.max_spout_pending,
        )
        collects = [branch.collects for branch in process.plan.branches]
        shape = shape_of(workers.commits.spouts, branches, collects, participants, jobs.shareable)
        streams = TopologyStreams(
            topology=process.name,
            plane=DataPlane(shape=shape),
            workers=workers,
            post=process.inbox.post,
            shutdown=process.shutdown,
        )
        self.resources.callback(streams.close)
        return streams

    def _letters(self, parked: ParkedRows) -> DeadLetterTable:
        place = dead_letters_place(self.process.config.state_dir, self.process.name)
        return DeadLetterTable(place, parked, {each.tx_id: each.schema for each in self.process.plan.spouts})

    def _work(self, participants: list[Participant], reads: StateReads) -> BatchWork:
        return BatchWork(
            exact=self._exact(),
            names=JobNames(self.process.name, self.store.epoch),
            branches=self.process.plan.branches,
            participants=participants,
            transaction=self._transaction,
            draw_edge=draw_edge,
            reads=reads,
        )

    def _commits(self, spouts: list[SpoutThreads], participants: list[Participant], reads: StateReads) -> Commits:
        return Commits(
            topology=self.process.name,
            spouts={threads.tx_id: threads.executor for threads in spouts},
            participants=participants,
            transactions=self.process.transactions,
            transaction=self._transaction,
            ensure_leading=self.store.ensure_leading,
            diagnose=self._diagnosed,
            thread=reads.thread,
            trial_seconds=self.process.config.trial_seconds,
        )

    def _record(
        self, participants: list[Participant], spouts: list[SpoutThreads], declared: Declarations
    ) -> CoordinatorRecord:
        """Return the record to continue from; a standby tries again if a store is unavailable or locked."""
        name = self.process.name
        states = [state for state in everything(participants) if state.capabilities.commits]
        executors = {threads.tx_id: threads.executor for threads in spouts}
        coordinators = {threads.tx_id: threads.coordinator.coordinator for threads in spouts}
        while True:
            try:
                return recover(
                    self.store,
                    states,
                    has_committer_spouts=any(executor.is_committer for executor in executors.values()),
                    moved=lambda spout, batch: executors[spout].moved(batch) if spout in executors else {},
                    renamed=lambda record: renamed(name, record, declared),
                    adopt=lambda record, torn: adopted(
                        name,
                        check_fed(name, participants, record),
                        torn,
                        declared,
                        corrections_of(record, coordinators),
                    ),
                    migrate=partial(migrate_values, self.store.identity, participants, declared),
                )
            except (StateError, SinkError) as error:
                if self.candidate is None or not is_passing(error):
                    raise
                log.warning("topology %s: the takeover failed, and is tried again: %s", name, error)
            self.store.heartbeat()
            self.candidate.wait(RECOVER_AGAIN_SECONDS)

    def _hand_over(self, record: CoordinatorRecord, streams: TopologyStreams, participants: list[Participant]) -> None:
        """Inform outputs and spouts where the record continues."""
        transactions = self.process.transactions
        transactions.join(participants)
        torn, committed = partial_commit_of(participants, record), record.current_txid - 1
        streams.take_over(torn, transactions.together, committed)
        for threads in streams.workers.spouts:
            threads.restore(record)
        streams.workers.parked.warn_of_missing(record.parked)
        streams.workers.parked.remove_others(record.parked.files)

    def _serve(self, reads: StateReads) -> None:
        process = self.process
        process.requests.serve(reads, process.engine.request_jobs, self._diagnosed, self.store)

    def _publisher(self, streams: TopologyStreams, reads: StateReads) -> Publisher:
        return Publisher(
            tell=self.process.listeners.tell,
            counted=streams.counted,
            late=reads.thread.late,
            lag=streams.lag,
            expiring=streams.expiring,
            resident_tasks=streams.workers.jobs.resident_tasks,
            busy_tasks=streams.workers.jobs.busy_tasks,
        )

    def _driver(
        self,
        record: CoordinatorRecord,
        streams: TopologyStreams,
        participants: list[Participant],
        publisher: Publisher,
    ) -> CoordinatorDriver:
        process = self.process
        return CoordinatorDriver.leading(
            topology=process.name,
            store=self.store,
            record=record,
            streams=streams,
            spouts=tuple(spout.tx_id for spout in process.plan.spouts),
            exact=self._exact(),
            clock=self.clock,
            draw_edge=draw_edge,
            settings=settings_of(
                process.plan,
                process.config,
                participants,
                has_committer_spouts=any(spout.executor.is_committer for spout in streams.workers.spouts),
            ),
            publisher=publisher,
            wished=self._wished,
        )

    def _watch(self, streams: TopologyStreams, publisher: Publisher) -> None:
        """Show progress and standstill to the listeners, and report to the driver if the engine breaks."""
        process, workers = self.process, streams.workers
        process.listeners.progress.follow(lambda: self.store.writes, process.metrics.values)
        self.resources.enter_context(process.engine.watched(lambda error: process.inbox.post(Broken(error))))
        beyond = (process.engine.stages, workers.lock_holders, workers.lost_lease)
        process.listeners.standstill.follow(lambda: publisher.status, workers.works, *beyond)

    def _wished(self, _: object) -> None:
        self.process.inbox.post(WishesChanged())

    def _exact(self) -> frozenset[str]:
        return frozenset(spout.tx_id for spout in self.process.plan.spouts if spout.spout.replay is Replay.EXACT)

    def _diagnosed(self, error: BaseException, place: Place, doing: str) -> Diagnosis:
        return diagnosed(error, place, doing, self.process.engine.life)

    def _transaction(self, attempt: TransactionAttempt, time: int) -> SinkTransaction:
        identity = self.store.identity
        key = TransactionKey(identity.uuid, identity.incarnation, attempt.txid)
        return SinkTransaction(key, attempt, self.store.epoch, time)


def _close(resources: ExitStack, name: str) -> None:
    try:
        resources.close()
    except Exception as error:
        log.error(
            "topology %s: could not be closed cleanly; its position is durable anyway",
            name,
            exc_info=quoted(error),
        )
