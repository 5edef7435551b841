"""The stores of `benchmarks.sinks`: how each one's library writes a batch, our sink for it, and a reader of both."""
# ruff: noqa: S608 - names in statements are ours

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import confluent_kafka
import psycopg
import pyarrow.dataset
from attrs import define, field
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyspark.sql import DataFrame

from benchmarks.stage import Stage
from tests.servers.kafka import KafkaBroker
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgresql import NoServerError, PostgresServer
from trident_py import DeltaSink, FileSink, IcebergSink, KafkaSink, SQLSink
from trident_py.sinks import TransactionalSink

CREATE = "CREATE TABLE {0} (id BIGINT, word VARCHAR(64), amount DOUBLE PRECISION)"
COLUMNS = "id, word, amount"


class Store(ABC):
    """One place to write to, empty when it is made.

    Attributes:
        by_hand: what writes a batch by hand, for people.
    """

    by_hand: ClassVar[str]

    @abstractmethod
    def write(self, frame: DataFrame) -> None:
        """Write a batch by hand: durable at the end, not exactly once."""

    @abstractmethod
    def sink(self) -> TransactionalSink[Any]:
        """What a topology writes by."""

    @abstractmethod
    def rows(self) -> int:
        """How many rows a reader sees."""

    def close(self) -> None:
        """Let go of connections."""
        return


@define(eq=False)
class Files(Store):
    """A directory of Parquet files."""

    path: Path
    by_hand = "DataFrame.write.parquet"
    _numbers: Iterator[int] = field(factory=count, init=False)

    def write(self, frame: DataFrame) -> None:
        """Spark's own."""
        frame.write.parquet(str(self.path / f"batch={next(self._numbers)}"))

    def sink(self) -> FileSink:
        """Ours."""
        return FileSink(self.path)

    def rows(self) -> int:
        """Read by pyarrow."""
        return int(pyarrow.dataset.dataset(self.path, partitioning="hive").count_rows())


@define(eq=False)
class Delta(Store):
    """A Delta table."""

    path: Path
    by_hand = "deltalake.write_deltalake"

    def write(self, frame: DataFrame) -> None:
        """By the library that our sink commits by."""
        write_deltalake(self.path, frame.toArrow(), mode="append")

    def sink(self) -> DeltaSink:
        """Ours."""
        return DeltaSink(self.path)

    def rows(self) -> int:
        """Read by deltalake."""
        return int(DeltaTable(self.path).count())


@define(eq=False)
class Iceberg(Store):
    """An Iceberg table, in a catalog of its own in SQLite."""

    path: Path
    by_hand = "pyiceberg, Table.append"
    _catalog: Catalog = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.path.mkdir()
        self._catalog = load_catalog(**self._properties)
        self._catalog.create_namespace("web")

    @property
    def _properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.path}/catalog.db", "warehouse": f"file://{self.path}"}

    def write(self, frame: DataFrame) -> None:
        """By the library that our sink commits by."""
        rows = frame.toArrow()
        self._catalog.create_table_if_not_exists("web.rows", rows.schema).append(rows)

    def sink(self) -> IcebergSink:
        """Ours."""
        return IcebergSink("web.rows", catalog=self._properties)

    def rows(self) -> int:
        """Read by pyiceberg."""
        return self._catalog.load_table("web.rows").scan().count()

    def close(self) -> None:
        """Close the catalog."""
        self._catalog.close()


@define(eq=False)
class SQLite(Store):
    """A table of a file, as durable as ours (WAL, ``synchronous=FULL``)."""

    path: Path
    by_hand = "sqlite3, executemany"
    _database: sqlite3.Connection = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._database = sqlite3.connect(self.path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._database.execute(f"PRAGMA {pragma}")
        self._database.execute(CREATE.format("rows"))

    def write(self, frame: DataFrame) -> None:
        """One transaction."""
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT INTO rows VALUES (?, ?, ?)", tuples(frame))
        self._database.execute("COMMIT")

    def sink(self) -> SQLSink:
        """Ours."""
        return SQLSink(f"sqlite:///{self.path}", "rows")

    def rows(self) -> int:
        """Read by another connection."""
        with closing(sqlite3.connect(self.path)) as database:
            return int(database.execute("SELECT count(*) FROM rows").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._database.close()


@define(eq=False)
class Postgres(Store):
    """A table of a server's database."""

    server: PostgresServer
    name: str
    by_hand = "psycopg, COPY"
    _connection: psycopg.Connection[Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._connection = psycopg.connect(self.server.dsn(), autocommit=True)
        self._connection.execute(CREATE.format(self.name).encode())

    def write(self, frame: DataFrame) -> None:
        """One transaction."""
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {self.name} FROM STDIN".encode()) as copy:
            for row in tuples(frame):
                copy.write_row(row)

    def sink(self) -> SQLSink:
        """Ours."""
        parts = psycopg.conninfo.conninfo_to_dict(self.server.dsn())
        quoted = {name: quote(str(part), safe="") for name, part in parts.items()}
        at = "{user}:{password}@{host}:{port}/{dbname}".format_map(quoted)
        return SQLSink(f"postgresql://{at}", self.name)

    def rows(self) -> int:
        """Read by the same connection."""
        found = self._connection.execute(f"SELECT count(*) FROM {self.name}".encode()).fetchone()
        return int(found[0]) if found else 0

    def close(self) -> None:
        """Leave nothing on the disk."""
        with self._connection as connection:
            connection.execute(f"DROP TABLE {self.name}".encode())


@define(eq=False)
class MariaDB(Store):
    """A table of a server's database."""

    server: MariaDBServer
    name: str
    by_hand = "PyMySQL, executemany"
    _connection: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server.run("CREATE DATABASE IF NOT EXISTS benchmark")
        self._connection = self.server.connect("benchmark")
        self._execute(f"{CREATE.format(self.name)} ENGINE=InnoDB")

    def write(self, frame: DataFrame) -> None:
        """One transaction."""
        with self._connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.executemany(f"INSERT INTO {self.name} ({COLUMNS}) VALUES (%s, %s, %s)", list(tuples(frame)))
            cursor.execute("COMMIT")

    def sink(self) -> SQLSink:
        """Ours."""
        return SQLSink(self.server.url("benchmark"), self.name)

    def rows(self) -> int:
        """Read by the same connection."""
        return int(self._execute(f"SELECT count(*) FROM {self.name}")[0][0])

    def close(self) -> None:
        """Leave nothing on the disk."""
        self._execute(f"DROP TABLE {self.name}")
        self._connection.close()

    def _execute(self, statement: str) -> Sequence[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


@define(eq=False)
class Kafka(Store):
    """A topic of two partitions."""

    broker: KafkaBroker
    name: str
    by_hand = "confluent-kafka, a transaction"
    _producer: confluent_kafka.Producer | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.servers})
        admin.create_topics([NewTopic(self.name, 2, 1)])[self.name].result()

    def write(self, frame: DataFrame) -> None:
        """One transaction, compressed as ours are."""
        if self._producer is None:
            own = {"bootstrap.servers": self.broker.servers, "transactional.id": self.name, "log_level": 0}
            self._producer = confluent_kafka.Producer({**own, "linger.ms": 5, "compression.type": "lz4"})
            self._producer.init_transactions(60)
        producer = self._producer
        producer.begin_transaction()
        for number, word, amount in tuples(frame):
            while True:
                try:
                    producer.produce(self.name, f"{amount}", word)
                    break
                except BufferError:
                    producer.poll(1)
            if number % 1000 == 0:
                producer.poll(0)
        producer.commit_transaction(60)

    def sink(self) -> KafkaSink:
        """Ours."""
        return KafkaSink(self.broker.servers, self.name, options={"log_level": 0})

    def rows(self) -> int:
        """Read to the end."""
        own = {"bootstrap.servers": self.broker.servers, "group.id": self.name, "enable.partition.eof": True}
        consumer = confluent_kafka.Consumer({**own, "fetch.queue.backoff.ms": 10})  # instead of a second, as it is far
        found = ended = 0
        consumer.assign([confluent_kafka.TopicPartition(self.name, number, 0) for number in (0, 1)])
        while ended < 2:
            for message in consumer.consume(10_000, 1.0):
                found, ended = (found + 1, ended) if message.error() is None else (found, ended + 1)
        consumer.close()
        return found


def tuples(frame: DataFrame) -> Iterable[tuple[Any, ...]]:
    """The rows, as one would give them to a database with care."""
    return zip(*(column.to_pylist() for column in frame.toArrow().columns), strict=True)


KINDS: Mapping[str, type[Store]] = {
    "files": Files,
    "Delta": Delta,
    "Iceberg": Iceberg,
    "SQLite": SQLite,
    "PostgreSQL": Postgres,
    "MariaDB": MariaDB,
    "Kafka": Kafka,
}


@define
class Stores:
    """Makes new ones; those whose server isn't installed are left out.

    Attributes:
        stage: where they are.
        missing: what is left out, and why.
    """

    stage: Stage
    missing: list[str] = field(factory=list)
    _servers: dict[str, Any] = field(factory=dict, init=False)  # by the name of the store
    _numbers: Iterator[int] = field(factory=count, init=False)

    @contextmanager
    def running(self) -> Iterator[Stores]:
        """With the servers that there are."""
        self.stage.directory.chmod(0o711)  # their users have to get through
        makers: dict[str, Callable[[Path], Any]] = {
            "PostgreSQL": lambda directory: PostgresServer(directory / "data"),
            "MariaDB": lambda directory: MariaDBServer(directory / "data"),
            "Kafka": KafkaBroker,
        }
        with ExitStack() as stack:
            for name, make in makers.items():
                directory = self.stage.directory / f"server-{name}"
                directory.mkdir(mode=0o711)
                server = make(directory)
                stack.callback(server.close)
                try:
                    server.start()
                except NoServerError as error:
                    self.missing.append(f"{name} is left out: {error}")
                else:
                    self._servers[name] = server
            yield self

    @property
    def names(self) -> list[str]:
        """Of those that there are."""
        return ["files", "Delta", "Iceberg", "SQLite", *self._servers]

    def new(self, name: str) -> Store:
        """Make an empty one."""
        own = f"rows_{next(self._numbers)}"
        if name in self._servers:
            return KINDS[name](self._servers[name], own)  # type: ignore[call-arg]
        return KINDS[name](self.stage.scratch(name) / own)  # type: ignore[call-arg]
