"""The program that faults are done to: a word count that is told what to do by lines of JSON.

    python -m tests.faults.program --journal FILE [--master MASTER]

It has Spark running before it is told anything, so that a fault need not wait for that; and ends with its input. To
``warm`` is to ``run`` until everything is counted.

    {"do": "run", "topology": …, "input": GLOB, "zookeeper": …, "dsn": …, "session": SECS, "shares": …,
     "per_window": …, "window_secs": …, "tasked": …, "together": …, "churn": …, "beside": …, "asks": …,
     "resident": …, "orders": {POINT: [DO, N]}}
    {"do": "order", "orders": …}   {"do": "stop"}
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import quote

from attrs import define, field
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

import trident_py.runtime
from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore
from coordinators.driver.batch_streams import Batch
from coordinators.takeover import takeover
from coordinators.values.attempt import TransactionAttempt
from tests.faults import beside as outputs
from tests.faults.check import ASKED, RUN_MAX
from tests.faults.churn import DATABASE, declare
from tests.faults.journal import Journal
from tests.faults.ledger import LedgerPostgres, Tally
from tests.faults.points import Points, around
from tests.servers.class_archive import quick
from trident_py import (
    MapGet,
    RetryPolicy,
    TridentConfig,
    TridentQuery,
    TridentTopology,
    TumblingCount,
    TumblingDuration,
)
from trident_py.engine.resident import resident_tasks
from trident_py.engine.resident.resident_tasks import ResidentTasks
from trident_py.engine.threads.streams import TopologyStreams
from trident_py.errors import TridentError
from trident_py.operations import Count, Sum
from trident_py.sinks import SQLSink
from trident_py.spark.session import topology_session
from trident_py.spouts import FileSpout
from trident_py.spouts.files import files
from trident_py.spouts.files.files import FileCoordinator
from trident_py.states import PostgresState
from trident_py.worker.wire import Frame

BATCH_BYTES = 4096
SMALL_BYTES = files.SMALL_BYTES
SLOW_SECONDS = 5.0
"""A task that stood still is to answer again while the fault is watched."""
SIGNAL_SECONDS = 0.2
ASK_SECONDS = 0.1
ANSWER_SECONDS = 5.0

SPARK: dict[str, bool | float | int | str | None] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.task.reaper.enabled": "true",
}
"""As the product has it where it makes the session itself."""


@define(eq=False)
class Program:
    """One process, one topology at a time."""

    journal: Journal
    spark: SparkSession
    points: Points = field(init=False)
    announced: dict[TransactionAttempt, object] = field(factory=dict)
    query: TridentQuery | None = None
    has_started: threading.Event = field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self.points = Points(self.journal)
        self.has_started.set()  # nothing is starting yet
        # The journal first: what is told is told before a crash point is reached.
        around(ZooKeeperRecordStore, "write", after=self._written)
        around(TopologyStreams, "emit_batch", before=self._emitted)
        around(FileCoordinator, "success", before=lambda _, txid: self.journal.tell("success", txid=txid))
        around(ResidentTasks, "_joined", after=self._joined)
        around(ResidentTasks, "_left", after=lambda _, link: self.journal.tell("left", link=link))
        around(ResidentTasks, "_received", after=self._received)
        self.points.put()
        outputs.put(self.points)

        def recovered(store: Any, states: Any, **more: Any) -> Any:
            record = takeover.recover(store, states, **more)
            self.journal.tell("leads", epoch=store.epoch, current=record.current_txid, upto=record.success_upto)
            return record

        trident_py.runtime.recover = recovered  # type: ignore[attr-defined]

    def _joined(self, tasks: ResidentTasks, link: int, task: int) -> None:
        server = tasks._server
        peer = server._peers[link].socket.getpeername()
        self.journal.tell("joined", port=server.port, link=link, task=task, peer=peer[1])

    def _received(self, _: ResidentTasks, link: int, frame: Frame) -> None:
        if "place" not in frame.head:
            self.journal.tell("answered", link=link)

    def _written(self, store: ZooKeeperRecordStore, record: Any) -> None:
        self.journal.tell("record", epoch=store.epoch, current=record.current_txid, upto=record.success_upto)

    def _emitted(self, _: object, batch: Batch) -> None:
        attempt = batch.attempt
        splits = batch.metadata.get("lines", [])  # an empty transaction, which closes a window, has none
        self.announced[attempt] = splits
        self.journal.tell("emitted", txid=attempt.txid, attempt=attempt.attempt_id, splits=splits)

    def run(
        self,
        *,
        topology: str,
        input: str,
        zookeeper: str,
        dsn: str,
        session: float,
        shares: bool,
        per_window: int,
        window_secs: int,
        tasked: bool,
        together: bool,
        churn: str,
        beside: list[str],
        asks: bool,
        orders: dict[str, Any],
        resident: int | str = "auto",
    ) -> None:
        """Have a thread stand by to count the words of all files of ``input``, and say how that ended.

        With ``shares`` transactions share jobs and commits; else each has a job, whose tasks stage what they made. With
        ``per_window`` windows of so many of each word are counted; with ``window_secs`` words are counted when a window
        of so many seconds closes. If they are ``tasked``, tasks count them in the commit. ``together`` they are counted
        in a second state, too, and written by a sink. ``churn`` names states whose keys go, ``beside`` kind and place
        of an output in another store. Who ``asks`` asks for a count all the time. ``resident`` is how many tasks stay
        for small batches.
        """
        files.SMALL_BYTES = SMALL_BYTES if shares else 0
        resident_tasks.SLOW_SECONDS = SLOW_SECONDS
        self.journal.topology = topology
        self.announced.clear()
        self.points.order(orders)
        words = self._declared(
            topology, input, dsn, per_window, window_secs, tasked=tasked, together=together, churn=churn, beside=beside
        )
        config = TridentConfig(
            max_spout_pending=RUN_MAX,
            session_timeout=session,
            message_timeout=15,
            zookeeper=zookeeper,
            state_dir=Path(beside[1] if beside[:1] == ["letters"] else "/x"),
            resident_tasks=resident,
            on_poison="park" if beside[:1] == ["poisoned"] else "halt",
            retry=RetryPolicy(attempts=2 if beside[:1] == ["poisoned"] else 5),
        )
        self.has_started.clear()
        threading.Thread(target=self._started, args=(words, config, asks), daemon=True).start()

    def _declared(
        self,
        topology: str,
        input: str,
        dsn: str,
        per_window: int,
        window_secs: int,
        *,
        tasked: bool,
        together: bool,
        churn: str,
        beside: list[str],
    ) -> TridentTopology:
        words = TridentTopology(topology)
        placement = "tasks" if tasked else "driver"
        state = LedgerPostgres(dsn, table="counts", placement=placement, points=self.points, announced=self.announced)
        counted = words.new_stream("lines", FileSpout(input, max_bytes_per_batch=BATCH_BYTES)).flat_map(
            lambda line: [(word,) for word in line.value.split()], "word string"
        )
        if together:
            counted.persistent_aggregate(PostgresState(dsn, table="totals"), Count(), "n")
            counted.name("words").write_to(SQLSink(url_of(dsn), "words"))
        if churn:
            declare(churn, words, counted, dsn, Path(input).parent / DATABASE, self.journal)
        if beside[:1] == ["poisoned"]:
            counted = counted.peek(outputs.Refusing(Path(beside[1])))
        elif beside:
            kind, where, *more = beside
            outputs.declare(kind, where, counted, words, *more)
        if per_window:
            windows, store = TumblingCount(per_window), PostgresState(dsn, table="windows")
            counted = counted.group_by("word").window(windows, "word", Count(), "n", store=store)
        counter: Count | Sum | Tally = Tally() if tasked else Count()
        if window_secs:
            timed, store = TumblingDuration(window_secs), PostgresState(dsn, table="windows")
            counted = counted.group_by("word").window(timed, "word", Count(), "n", store=store)
            counter = Sum("n")
        field = "count bigint" if tasked else "count"  # the type of what user code makes isn't known
        counts = counted.group_by("word").persistent_aggregate(state, counter, field)
        words.new_drpc_stream("count").state_query(counts, "args", MapGet(), "count bigint").project("count")
        return words

    def _started(self, words: TridentTopology, config: TridentConfig, asks: bool) -> None:
        error: BaseException | None = None
        try:
            self.query = query = words.start(config, spark=self.spark, standby=True)
            self.has_started.set()
            self.journal.tell("stands_by")
            if asks:
                threading.Thread(target=self._ask, args=(query,), daemon=True).start()
            query.await_termination()
        except BaseException as raised:  # noqa: BLE001 - that is what is to be told
            error = raised
        self.has_started.set()
        self.journal.tell("ended", error=type(error).__name__ if error else None, message=str(error or ""))

    def _ask(self, query: TridentQuery) -> None:
        """Ask for a count again and again, and tell what the answer was; who stands by has none."""
        while query.is_active:
            began = time.monotonic()
            with suppress(Exception):
                [[count]] = query.execute("count", ASKED, timeout=ANSWER_SECONDS)
                self.journal.tell("answer", began=began, count=count or 0)
            threading.Event().wait(ASK_SECONDS)

    def stop(self) -> None:
        """End the topology after what is under way, also one that is just starting."""
        self.has_started.wait()
        if self.query is not None:
            self.query.stop()

    def warm(self, **what: Any) -> None:
        """Count a few words, so that everything is loaded that will be needed; returns when that is done."""
        while not self._counts(what):
            logging.warning("not warm yet, as a server was away; trying again")
        self.journal.tell("warm")

    def _counts(self, what: dict[str, Any]) -> bool:
        """Whether all is counted; not where the nemesis is at the servers just now."""
        plain: dict[str, Any] = {"per_window": 0, "window_secs": 0, "churn": "", "beside": []}
        plain |= {"tasked": False, "together": False}
        self.run(**what, orders={}, shares=True, asks=False, **plain)
        self.has_started.wait()
        query, self.query = self.query, None
        if query is None:
            return False
        with suppress(TridentError):
            query.process_all_available()
            query.stop()
            return True
        return False

    def obey(self, command: dict[str, Any]) -> None:
        """Do what a line says."""
        match command.pop("do"):
            case "run":
                self.run(**command)
            case "warm":
                self.warm(**command)
            case "order":
                self.points.order(command["orders"])
            case "stop":
                threading.Thread(target=self.stop, daemon=True).start()


def main() -> int:
    """Be told what to do."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--master", default="local[1]")  # each more core needs Python workers, which take seconds
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    set_clock(float(os.environ.get("TRIDENT_CLOCK_AHEAD_SECONDS", "0")))
    os.environ.setdefault("SPARK_SUBMIT_OPTS", quick())
    with ExitStack() as stack:
        session = SparkSession.Builder().master(arguments.master).config(map=SPARK).getOrCreate()
        stack.callback(session.stop)
        spark = stack.enter_context(topology_session("faults", session))
        program = Program(Journal(arguments.journal), spark)
        terminated = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: _terminate(program, terminated))
        program.journal.tell("ready", wall=time.time())
        for line in lines():
            program.obey(json.loads(line))
        if program.query is not None:
            program.query.stop(drain=False)
    return 0


def url_of(dsn: str) -> str:
    """What names the same database as a URL."""
    parts = {name: quote(str(part), safe="") for name, part in conninfo_to_dict(dsn).items()}
    return f"postgresql://{parts['user']}:{parts['password']}@{parts['host']}:{parts['port']}/{parts['dbname']}"


def set_clock(ahead: float) -> None:
    """Let this process take it to be so much later; with libfaketime neither its waits nor a JVM's work."""
    real = time.time
    time.time = lambda: real() + ahead


def lines() -> Iterator[str]:
    """Standard input; read on another thread, since a signal may come through any, and is handled on this one."""
    told: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            told.put(line)
        told.put("")

    threading.Thread(target=read, daemon=True).start()
    while True:
        with suppress(Empty):
            if not (line := told.get(timeout=SIGNAL_SECONDS)):
                return
            yield line


def _terminate(program: Program, terminated: threading.Event) -> None:
    """As `trident run` does it: let what is being processed commit, then end."""

    def end() -> None:
        program.stop()
        program.journal.tell("terminated")
        os._exit(0)

    if not terminated.is_set():
        terminated.set()
        threading.Thread(target=end, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
