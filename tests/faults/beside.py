"""One more output beside the counts, in a store of another kind: words are counted there too, or written to a table.

``kafka-sink`` writes them to a topic; ``kafka-spout`` reads a topic instead, and counts its values in the database.

``bad-rows`` writes them to a table, but for lines with words that a function refuses, which are in another one.

``letters`` writes them to a table, too. Lines with words that a function refuses are dead letters, until there is a
file.

``poisoned`` is no output: a function refuses a word until there is a file.

``mysql`` and ``redis`` are states on a server, ``delta`` and ``iceberg`` tables of files, ``sql`` is a table of a sink.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.faults.points import Points, around
from tests.unit.trident_py.sinks.iceberg.tables import NAME, catalog_at
from trident_py import (
    Count,
    DeltaSink,
    IcebergSink,
    KafkaSink,
    KafkaSpout,
    MySQLState,
    PostgresState,
    RedisState,
    SQLSink,
    TransactionalSink,
    TridentTopology,
)
from trident_py.sinks.tables.transactions import TableTransactions
from trident_py.states.redis.redis_state import RedisMapState
from trident_py.states.sql.mysql import MySQLDatabase
from trident_py.states.sql.sessions import SessionLink
from trident_py.streams.stream import Stream

TABLE, BAD = "beside", "bad"
RECORDS = 10
"""Of a batch from Kafka."""
_KNOWS_SOON = {"topic.metadata.propagation.max.ms": 2000, "topic.metadata.refresh.interval.ms": 1000}
"""That a topic is gone; Kafka's client believes it after half a minute else."""


POISON = "poison"
MENDED = "mended"

LEAVES_OUT = ("poisoned", "letters")
"""Of these some transactions change nothing in the counts."""


@frozen
class Refusing:
    """Raises over one word until there is a file."""

    mended: Path

    def __call__(self, row: Any) -> None:
        if row.word == POISON and not self.mended.exists():
            raise ValueError(row.word)


@frozen
class Unlucky:
    """Raises over some words until there is a file."""

    mended: Path

    def __call__(self, row: Any) -> tuple[str]:
        if _is_bad(row.word) and not self.mended.exists():
            raise ValueError(row.word)
        return (row.word,)


def declare(kind: str, where: str, words: Stream, topology: TridentTopology, *more: str) -> None:
    """Add the output: ``where`` is the URL of a server, or a directory; ``more`` a topic and the DSN of a database."""
    match kind:
        case "mysql":
            words.group_by("word").persistent_aggregate(MySQLState(where, table=TABLE), Count(), "n")
        case "redis":
            words.group_by("word").persistent_aggregate(RedisState(where, prefix=TABLE), Count(), "n")
        case "sql" | "delta" | "iceberg":
            words.name(TABLE).write_to(_table(kind, where))
        case "kafka-sink":
            [topic] = more
            words.map(lambda row: (row.word,), "value string").write_to(KafkaSink(where, topic, options=_KNOWS_SOON))
        case "kafka-spout":
            topic, dsn = more
            spout = KafkaSpout(where, topic, value="string", max_records_per_batch=RECORDS)
            values = topology.new_stream(topic, spout).group_by("value")
            values.persistent_aggregate(PostgresState(dsn, table=TABLE), Count(), "n")
        case "bad-rows":
            some = words.map(some_seconds, "word string")
            some.name(TABLE).write_to(SQLSink(f"sqlite:///{where}/{TABLE}.db", TABLE))
            some.on_error(to=SQLSink(f"sqlite:///{where}/{BAD}.db", BAD))

        case "letters":
            some = words.map(Unlucky(Path(where) / MENDED), "word string")
            some.on_error()
            some.name(TABLE).write_to(SQLSink(f"sqlite:///{where}/{TABLE}.db", TABLE))


def _table(kind: str, where: str) -> TransactionalSink[Any]:
    match kind:
        case "sql":
            return SQLSink(where, TABLE)
        case "delta":
            return DeltaSink(where)
    return IcebergSink(NAME, catalog=catalog_at(Path(where)))


def _is_bad(word: str) -> bool:
    return zlib.crc32(word.encode()) % 50 == 0


def some_seconds(row: Any) -> tuple[str]:
    """Raise over some words always, and over a few others in each second."""
    if _is_bad(row.word) or zlib.crc32(f"{row.word} {time.time() // 1}".encode()) % 1500 == 0:
        raise ValueError(row.word)
    return (row.word,)


def put(points: Points) -> None:
    """Put the moments around the commit of each of them."""
    before = lambda *_: points.reach("before_beside_commit")  # noqa: E731
    after = lambda *_: points.reach("after_beside_commit")  # noqa: E731
    around(RedisMapState, "commit_group", before, after)
    around(TableTransactions, "commit", before, after)
    around(SessionLink, "commit", _if_mysql(before), _if_mysql(after))


def _if_mysql(reach: Callable[[], None]) -> Callable[[SessionLink], None]:
    def reach_if(link: SessionLink) -> None:
        if isinstance(link._database, MySQLDatabase) and link.session is not None:
            reach()

    return reach_if
