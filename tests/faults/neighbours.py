"""Faults: another program changes a store while a topology runs, as the tables of docs/how-to/other-writers.md have it.

Each change is made by a client that isn't ours: psql, deltalake, pyiceberg or Kafka's own tools. Either the
topology goes on, or it stops by an error that names what was changed and how to go on; then the operator does what it
says, and the topology goes on. In the end the store has each word as often as it was read.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import frozen
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.types import StringType

from tests.faults.beside import TABLE
from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.check import words_in
from tests.faults.drivers import Driver, wait_until
from tests.faults.outputs import STORES
from tests.faults.program import url_of
from tests.servers.kafka import KafkaBroker, tools_command
from tests.servers.running import started
from tests.unit.trident_py.sinks.iceberg.tables import table_at

PREFIX = "neighbour"
Change: TypeAlias = Callable[[Any], object]


@frozen
class Stop:
    """How a topology stops.

    Attributes:
        error: the class of its error.
        names: what the error has to name: what was changed, and the way on.
        way_on: what the operator does then.
    """

    error: str
    names: tuple[str, ...]
    way_on: Change


def changed(case: Case, change: Callable[[], object], stop: Stop | None, way_on: Callable[[], object]) -> None:
    """Have a topology run, do ``change``, and see it go on, or stop so; in the end all is counted."""
    [driver] = case.world.take(1)
    case.lead(driver)
    case.await_commits(2)
    change()
    if stop is not None:
        _stops(case, driver, stop)
        way_on()
        case.run(driver)
    case.await_commits(3, since=monotonic())
    if stop is None:
        happened(len(case.events("leads")) == 1, "the leader leads on")
    case.drain()


def _stops(case: Case, driver: Driver, stop: Stop) -> None:
    ended = driver.await_event("ended", case.topology)
    happened(ended["error"] == stop.error, f"it ends by name, not {ended}")
    lacking = [name for name in stop.names if name not in ended["message"]]
    happened(not lacking, f"the error names {lacking}, not only {ended['message']}")
    case.ends.add(stop.error)


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@frozen
class Psql:
    """A table in the database of a case, as psql sees it."""

    dsn: str

    def __call__(self, *statements: str) -> str:
        """Run statements, in one transaction."""
        options = [option for statement in statements for option in ("-c", statement)]
        command = ["psql", "-X", "-q", "-A", "-t", "-1", "-v", "ON_ERROR_STOP=1", "-d", self.dsn, *options]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def words(self) -> Counter[str]:
        """What is in the table."""
        return Counter(self(f"SELECT word FROM {TABLE}").split())  # noqa: S608 - a constant


def _psql(name: str, *change: str, stop: Stop | None = None, loses: bool = False) -> None:
    """Enter a change by psql; with ``loses`` values of before are lost, and only their number is compared."""

    @fault(f"{PREFIX}-psql-{name}")
    def _(case: Case) -> None:
        psql = Psql(case.dsn)
        case.beside = ["sql", url_of(case.dsn)]
        changed(case, lambda: psql(*change), stop, lambda: stop and stop.way_on(psql))
        words, there = words_in(case.feeder.files), psql.words()
        if not loses:
            assert there == words
        else:
            rows = int(psql(f"SELECT count(*) FROM {TABLE}"))  # noqa: S608 - a constant
            assert rows == words.total(), f"{rows} rows, {words.total()} words"
            assert there <= words, "what is there was read"


_psql("column-added", f"ALTER TABLE {TABLE} ADD COLUMN note text")
_psql(
    "column-dropped",
    f"ALTER TABLE {TABLE} DROP COLUMN word",
    stop=Stop(
        "SinkError",
        (TABLE, "'word'", "add the column"),
        lambda psql: psql(f"ALTER TABLE {TABLE} ADD COLUMN word text"),
    ),
    loses=True,
)
_psql(
    "column-renamed",
    f"ALTER TABLE {TABLE} RENAME COLUMN word TO other",
    stop=Stop(
        "SinkError",
        (TABLE, "'word'", "add the column"),
        lambda psql: psql(f"ALTER TABLE {TABLE} RENAME COLUMN other TO word"),
    ),
)
_psql(
    "table-renamed",
    f"ALTER TABLE {TABLE} RENAME TO elsewhere",
    stop=Stop(
        "SinkError",
        (TABLE, "no such table", "restore it"),
        lambda psql: psql(f"ALTER TABLE elsewhere RENAME TO {TABLE}"),
    ),
)
_psql(
    "token-deleted",
    "LOCK TABLE _trident",  # so that no commit comes in between
    f"CREATE TABLE saved AS SELECT * FROM _trident WHERE state = '{TABLE}'",  # noqa: S608 - a constant
    f"DELETE FROM _trident WHERE state = '{TABLE}'",  # noqa: S608 - a constant
    stop=Stop(
        "StateError",
        (TABLE, "_trident", "restore"),
        lambda psql: psql("INSERT INTO _trident SELECT * FROM saved", "DROP TABLE saved"),
    ),
)


@fault(f"{PREFIX}-psql-table-recreated")
def _(case: Case) -> None:
    """The table is dropped and made anew: the sink goes on, and has the rows that came after that."""
    psql = Psql(case.dsn)
    case.beside = ["sql", url_of(case.dsn)]
    before = 0

    def recreate() -> None:
        nonlocal before
        said = psql(
            f"LOCK TABLE {TABLE}",
            f"SELECT count(*) FROM {TABLE}",  # noqa: S608 - a constant
            f"CREATE TABLE anew (LIKE {TABLE} INCLUDING ALL)",
            f"DROP TABLE {TABLE}",
            f"ALTER TABLE anew RENAME TO {TABLE}",
        )
        before = int(said)

    changed(case, recreate, None, lambda: None)
    words, there = words_in(case.feeder.files), psql.words()
    happened(before, "rows were dropped")
    assert there.total() == words.total() - before, f"{there.total()} rows are there, {before} were dropped"
    assert there <= words, "what is there was read"


@fault(f"{PREFIX}-psql-constraint-added")
def _(case: Case) -> None:
    """A constraint that rows violate: batches fail, by its name; it is dropped, and all of them are there once."""
    psql = Psql(case.dsn)
    case.beside = ["sql", url_of(case.dsn)]

    def constrain() -> None:
        psql(f"ALTER TABLE {TABLE} ADD CONSTRAINT no_words CHECK (word = '') NOT VALID")
        wait_until("a batch fails", lambda: any("no_words" in driver.log for driver in case.drivers))
        psql(f"ALTER TABLE {TABLE} DROP CONSTRAINT no_words")

    changed(case, constrain, None, lambda: None)
    assert psql.words() == words_in(case.feeder.files)


# --- Delta and Iceberg ------------------------------------------------------------------------------------------------


def _compared(kind: str, name: str, change: Change, stop: Stop | None = None, at: Change = lambda where: where) -> None:
    """Enter a change by the format's own library to the table that ``at`` finds."""

    @fault(f"{PREFIX}-{name}")
    def _(case: Case) -> None:
        with STORES[kind](case) as store:
            case.beside = [kind, store.where]
            found = partial(at, Path(store.where))
            changed(case, partial(_committed, change, found), stop, lambda: stop and stop.way_on(found()))
            assert dict(store.read()) == dict(words_in(case.feeder.files)), f"in {kind}"


def _committed(change: Change, found: Callable[[], Any]) -> None:
    """Do it as any client does it: again, where a commit of the topology came in between."""

    def is_done() -> bool:
        try:
            change(found())
        except (CommitFailedException, CommitFailedError):
            return False
        return True

    wait_until("the change is committed", is_done)


OTHER = pa.table({"other": ["x"]})


def _overwrite(path: Path) -> None:
    write_deltalake(path, OTHER, mode="overwrite", schema_mode="overwrite")


def _restore(path: Path) -> None:
    table = DeltaTable(path)
    overwritten = next(
        int(entry["version"])
        for entry in table.history()
        if entry.get("operationParameters", {}).get("mode") == "Overwrite"
    )
    table.restore(overwritten - 1)


def _recreate(path: Path) -> None:
    path.rename(path.with_name("first"))
    write_deltalake(path, pa.table({"word": ["x"]}))


def _bring_back(path: Path) -> None:
    shutil.rmtree(path)
    path.with_name("first").rename(path)


_compared(
    "delta",
    "deltalake-column-added",
    lambda path: DeltaTable(path).alter.add_columns([Field("note", PrimitiveType("string"))]),
)
_compared("delta", "deltalake-compacted", lambda path: DeltaTable(path).optimize.compact())


def _vacuum(path: Path) -> None:
    """Remove what is older than three seconds: more than an attempt takes, so what is staged now stays."""
    DeltaTable(path).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 3 seconds"})
    DeltaTable(path).optimize.compact()
    wait_until("replaced files are removed", lambda: DeltaTable(path).vacuum(dry_run=False, full=True))


_compared("delta", "deltalake-vacuumed", _vacuum)
_compared(
    "delta",
    "deltalake-overwritten",
    _overwrite,
    Stop("SinkError", ("'word'", TABLE, "['other']", "leave it out"), _restore),
)
_compared(
    "delta",
    "deltalake-constraint-added",
    lambda path: DeltaTable(path).alter.add_constraint({"short": "word <> ''"}),
    Stop(
        "SinkError",
        (TABLE, "delta.constraints.short", "write to a table without"),
        lambda path: DeltaTable(path).alter.drop_constraint("short"),
    ),
)
_compared("delta", "deltalake-recreated", _recreate, Stop("SinkError", (TABLE, "restore", "reset"), _bring_back))


def _rename(before: str, after: str) -> Callable[[Table], None]:
    def rename(table: Table) -> None:
        with table.update_schema() as update:
            update.rename_column(before, after)

    return rename


def _partition(table: Table) -> None:
    with table.update_spec() as update:
        update.add_identity("word")


def _add(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("note", StringType())


def _roll_back(table: Table) -> None:
    parent = table.metadata.snapshots[-3].snapshot_id
    table.manage_snapshots().set_current_snapshot(parent).commit()


def _roll_forward(table: Table) -> None:
    newest = max(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)
    table.manage_snapshots().set_current_snapshot(newest.snapshot_id).commit()


_compared("iceberg", "pyiceberg-column-added", _add, at=table_at)
_compared("iceberg", "pyiceberg-partition-added", _partition, at=table_at)
_compared(
    "iceberg",
    "pyiceberg-column-renamed",
    _rename("word", "other"),
    Stop("SinkError", ("'word'", "web.events", "['other']", "add the column"), _rename("other", "word")),
    at=table_at,
)
_compared(
    "iceberg",
    "pyiceberg-rolled-back",
    _roll_back,
    Stop("SinkError", ("web.events", "was rolled back", "make that snapshot the current one"), _roll_forward),
    at=table_at,
)


# --- Kafka ------------------------------------------------------------------------------------------------------------

TOPIC = "records"
SENT = 200
SESSION_SECONDS_OF_KAFKA = 60.0
"""Kafka's tools need seconds to start, while the driver stands still."""


@frozen
class Topics:
    """A broker's topics, as Kafka's own tools change them; what they say is of `TOPIC` where nothing else is named."""

    broker: KafkaBroker

    def _tool(self, program: str, *arguments: str) -> str:
        command = tools_command(f"org.apache.kafka.tools.{program}", "--bootstrap-server", self.broker.servers)
        done = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def make(self, partitions: int = 1) -> None:
        """As by kafka-topics.sh --create."""
        self._tool("TopicCommand", "--create", "--topic", TOPIC, "--partitions", str(partitions))

    def remove(self, name: str = TOPIC) -> None:
        """As by kafka-topics.sh --delete; the topic is gone when this returns, or a sink has made another one."""
        before = self._id_of(name)
        self._tool("TopicCommand", "--delete", "--topic", name)
        wait_until(f"{name} is gone", lambda: self._id_of(name) != before)

    def _id_of(self, name: str) -> str | None:
        """What tells it from another topic of the same name; None: there is none."""
        told = self.broker.admin.describe_topics(TopicCollection([name]), request_timeout=10)
        try:
            return str(told[name].result().topic_id)
        except KafkaException:
            return None

    def add_partitions(self) -> None:
        """As by kafka-topics.sh --alter."""
        self._tool("TopicCommand", "--alter", "--topic", TOPIC, "--partitions", "3")

    def token_topics(self) -> list[str]:
        """Those that a sink keeps its token in."""
        return [name for name in self._tool("TopicCommand", "--list").split() if name.startswith("_trident-")]

    def delete_records(self, before: int) -> None:
        """As by kafka-delete-records.sh, of partition 0; -1: all of them."""
        wanted = {"partitions": [{"topic": TOPIC, "partition": 0, "offset": before}], "version": 1}
        path = self.broker.directory / "offsets.json"
        path.write_text(json.dumps(wanted))
        self._tool("DeleteRecordsCommand", "--offset-json-file", str(path))

    def send(self, first: int, end: int) -> None:
        """Send numbers, each to a partition that its key chooses."""
        producer = Producer({"bootstrap.servers": self.broker.servers, "log_level": 0})
        for number in range(first, end):
            producer.produce(TOPIC, f"{number}", key=f"{number}")
        assert producer.flush(30) == 0

    def values(self) -> Counter[str]:
        """What a consumer of committed records reads."""
        options = {
            "bootstrap.servers": self.broker.servers,
            "group.id": "looking",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
        found, over = Counter[str](), False
        consumer = Consumer(options)
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        while not over:
            message = consumer.poll(10)
            assert message is not None, "the broker doesn't answer"
            over = message.error() is not None
            if not over:
                found[(message.value() or b"").decode()] += 1
        consumer.close()
        return found


@contextmanager
def _topics(case: Case) -> Iterator[Topics]:
    """A broker that drivers reach, with one topic."""
    directory = case.world.directory / case.topology
    directory.mkdir()
    broker = KafkaBroker(directory, address=case.world.address)
    with started(broker):
        topics = Topics(broker)
        topics.make()
        yield topics


def _read(name: str, change: Callable[[Topics], object], stop: Stop | None, expected: range) -> None:
    """Enter a change of a topic while a batch of it is read; in the end these numbers are counted once each."""

    @fault(f"{PREFIX}-kafka-{name}")
    def _(case: Case) -> None:
        with _topics(case) as topics:
            topics.send(0, SENT)
            case.beside = ["kafka-spout", topics.broker.servers, TOPIC, case.dsn]
            case.session = SESSION_SECONDS_OF_KAFKA
            [driver] = case.world.take(1)
            case.lead(driver, batch_emitted=["hold", 4])
            case.await_fired(driver)
            wait_until("it stands still", driver.is_stopped)
            change(topics)
            driver.go_on()
            if stop is not None:
                _stops(case, driver, stop)
                case.reset()
                case.beside = ["kafka-spout", topics.broker.servers, TOPIC, case.dsn]
                case.run(driver)
            case.await_commits(2, since=monotonic())
            if stop is None:
                happened(len(case.events("leads")) == 1, "the leader leads on")
            count = f"SELECT count(*) FROM {TABLE}"  # noqa: S608 - a constant
            wait_until("all records are counted", lambda: case.query(count) == [(len(expected),)])
            case.drain()
            counts = dict(case.query(f"SELECT value, n FROM {TABLE}"))  # noqa: S608 - a constant
            assert counts == {f"{number}": 1 for number in expected}


def _recreate_topic(topics: Topics) -> None:
    topics.remove()
    topics.make()
    topics.send(SENT, 2 * SENT)


def _add_partitions(topics: Topics) -> None:
    topics.add_partitions()
    topics.send(SENT, 2 * SENT)


def _nothing(*_: object) -> None:
    pass


_read(
    "topic-recreated",
    _recreate_topic,
    Stop("SpoutError", (f"'{TOPIC}'", "was deleted and made again", "trident reset"), _nothing),
    range(SENT, 2 * SENT),
)
_read(
    "records-deleted",
    lambda topics: topics.delete_records(SENT - 10),
    Stop("SpoutError", (f"{TOPIC}/0", "expired", "trident reset"), _nothing),
    range(SENT - 10, SENT),
)
_read("partitions-added", _add_partitions, None, range(2 * SENT))


@fault(f"{PREFIX}-kafka-token-topic-deleted")
def _(case: Case) -> None:
    """The sink stops; its topic is emptied and the topology reset: each word is there once."""
    with _topics(case) as topics:
        case.beside = ["kafka-sink", topics.broker.servers, TOPIC]
        case.session = SESSION_SECONDS_OF_KAFKA
        [driver] = case.world.take(1)
        case.lead(driver)
        case.await_commits(2)
        [token] = topics.token_topics()
        topics.remove(token)
        _stops(case, driver, Stop("SinkError", (token, "made again", "restore it, or `trident reset`"), _nothing))
        topics.delete_records(-1)
        case.reset()
        case.run(driver)
        case.await_commits(2, since=monotonic())
        case.drain()
        assert topics.values() == words_in(case.feeder.files)
