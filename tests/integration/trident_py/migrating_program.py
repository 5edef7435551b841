"""Two versions of a topology; the second one migrates two states, and kills its own process while it does.

Call it with ZooKeeper's address, a directory, a database, and the moment of its death. The database is a DSN of
PostgreSQL, a URL of MySQL, or empty for SQLite. The moment is a number of calls of the function that migrates, or a
text in a line of its log; ``first`` is the first version, and an empty text no death.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from coordinators.values.secret import Secret
from trident_py import Count, FixedBatchSpout, MySQLState, PostgresState, SQLiteState, TridentConfig, TridentTopology
from trident_py.operations import CombinerAggregator
from trident_py.states.sql.factory import SQLState

WORDS = 40
"""Each comes in two transactions of each version, so that it has a value and a previous value to migrate."""


class Texts(CombinerAggregator[str]):
    """Counts in texts."""

    def init(self, row: Any) -> str:
        return "1"

    def combine(self, left: str, right: str) -> str:
        return str(int(left) + int(right))

    def zero(self) -> str:
        return "0"


class Dying(logging.Handler):
    """Kills the process at a moment."""

    def __init__(self, moment: str) -> None:
        super().__init__()
        self._text = "" if moment.isdigit() else moment
        self._left = int(moment) if moment.isdigit() else 0

    def emit(self, record: logging.LogRecord) -> None:
        if self._text and self._text in record.getMessage():
            os.kill(os.getpid(), signal.SIGKILL)

    def as_text(self, value: int) -> str:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return str(value)


def declare(directory: Path, dsn: str, dying: Dying | None) -> TridentTopology:
    """Return the first version, or the second one with what kills it."""

    def state(table: str) -> SQLState:
        if not dsn:
            return SQLiteState(directory / f"{table[0]}.db", table=table)
        return (MySQLState if dsn.startswith("mysql") else PostgresState)(Secret(dsn), table=table)

    topology = TridentTopology("migrated")
    rows = [(f"w{number % WORDS}",) for number in range(2 * WORDS * (1 if dying is None else 2))]
    spout = FixedBatchSpout("word string", WORDS, *rows)
    by_word = topology.new_stream("lines" if dying is None else "log", spout).group_by("word")
    if dying is None:
        by_word.persistent_aggregate(state("counts"), Count(), "count")
        by_word.persistent_aggregate(state("sums"), Count(), "count")
        return topology
    by_word.persistent_aggregate(state("chars"), Texts(), "n string")
    by_word.persistent_aggregate(state("sums"), Texts(), "n string")
    topology.migrate("lines", rename="log")
    topology.migrate("counts", rename="chars", with_=dying.as_text)
    topology.migrate("chars", rename={"count": "n"})
    topology.migrate("sums", rename={"count": "n"}, with_=dying.as_text)
    return topology


def main() -> None:
    zookeeper, directory, dsn, moment = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    dying = None if moment == "first" else Dying(moment)
    if dying is not None:
        logging.getLogger("trident_py").addHandler(dying)
    config = TridentConfig(zookeeper=zookeeper, session_timeout=2, state_dir=directory / "state", max_spout_pending=3)
    with declare(directory, dsn, dying).start(config) as query:
        query.process_all_available(120)


if __name__ == "__main__":
    main()
