"""States whose keys go, beside the counts: one in PostgreSQL, which commits with them, and one in SQLite.

- ``odd``: words that came an even number of times have no key, the others have one;
- ``opaque``: the same of words from a spout that gives others each time it is asked;
- ``recent``: words are counted, and go when they didn't come for `TTL`.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from attrs import frozen
from pyspark.sql import Row

from coordinators.values.attempt import TransactionAttempt
from tests.faults.journal import Journal
from trident_py import REMOVE, CombinerAggregator, TridentConfig, TridentTopology
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.context import TopologyContext
from trident_py.operations import Count
from trident_py.spouts import BatchCoordinator, Emitter, ITridentSpout, Replay
from trident_py.states import PostgresState, SQLiteState
from trident_py.streams.stream import Stream

TTL = timedelta(seconds=2)
DATABASE = "churn.db"
"""The file of the one in SQLite, beside the input."""

_WORDS, _ROWS = 40, 20


class Odd(CombinerAggregator[int]):
    """1 for what came an odd number of times; there is no key for what came an even one."""

    def init(self, row: Row) -> int:
        """One came."""
        return 1

    def combine(self, left: int, right: int) -> int:
        """Two of them remove each other."""
        return (left + right) % 2 or REMOVE

    def zero(self) -> int:
        """None came."""
        return 0


class _Beside(BatchCoordinator[None]):
    """Has a part in each transaction that another spout begins."""

    def is_ready(self, txid: int) -> bool:
        return False

    def initialize_transaction(self, txid: int, prev_metadata: None, curr_metadata: None) -> None:
        """Return nothing: the rows are drawn when they are emitted."""


@frozen
class _Drawing(Emitter[None]):
    """Draws the rows of each attempt, and tells which they are."""

    journal: Journal

    def emit_batch(self, attempt: TransactionAttempt, metadata: None, collector: TridentCollector) -> None:
        words = random.SystemRandom().choices([f"word{number}" for number in range(_WORDS)], k=_ROWS)
        self.journal.tell("drawn", txid=attempt.txid, words=words)
        for word in words:
            collector.emit((word,))


class DrawnSpout(ITridentSpout[None]):
    """An opaque one, whose batches are never the same again."""

    output_schema = "word string"
    replay = Replay.OPAQUE

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> _Beside:
        return _Beside()

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> _Drawing:
        return _Drawing(self._journal)


def declare(kind: str, topology: TridentTopology, words: Stream, dsn: str, file: Path, journal: Journal) -> None:
    """Add the states of this kind to a topology, behind ``words`` or a spout of their own."""
    if kind == "opaque":
        words = topology.new_stream("drawn", DrawnSpout(journal))
    ttl = TTL if kind == "recent" else None
    for state in (PostgresState(dsn, table="going", ttl=ttl), SQLiteState(file, table="going_too", ttl=ttl)):
        grouped = words.group_by("word")
        if kind == "recent":
            grouped.persistent_aggregate(state, Count(), "n")
        else:
            grouped.persistent_aggregate(state, Odd(), "n bigint")


def alive(transactions: Iterable[tuple[int, Counter[str]]]) -> dict[str, int]:
    """What is counted of words that go: each transaction has its time, in milliseconds, and the words it brings in."""
    counts: Counter[str] = Counter()
    written: dict[str, int] = {}
    for time, words in transactions:
        for word in [word for word, at in written.items() if at <= time - TTL // timedelta(milliseconds=1)]:
            del counts[word], written[word]
        counts += words
        written |= dict.fromkeys(words, time)
    return dict(counts)


def rows_in(file: Path) -> dict[str, Any]:
    """What the state in SQLite has."""
    with closing(sqlite3.connect(file)) as reader:
        return dict(reader.execute("SELECT word, n FROM going_too").fetchall())
