"""Writes words into a database by a function of our own, each exactly once: the recipe of docs/how-to/foreach-batch.md.

::

    python examples/foreach_batch.py      kill it whenever you like, and start it again
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from trident_py import ForeachBatchSink, SinkTransaction, TridentTopology
from trident_py.spouts import FileSpout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATABASE = "words.db"
TABLES = """
    CREATE TABLE IF NOT EXISTS words (word text, length int);
    CREATE TABLE IF NOT EXISTS written (uuid text, incarnation int, txid int, PRIMARY KEY (uuid, incarnation, txid));
"""


def write(frame: DataFrame, tx: SinkTransaction) -> None:
    """Write the rows and the key of their transaction in one step, unless the key is there."""
    key = (tx.key.uuid, tx.key.incarnation, tx.key.txid)
    rows = [tuple(row) for row in frame.toLocalIterator()]
    with closing(sqlite3.connect(DATABASE, isolation_level="IMMEDIATE")) as database, database:
        database.executescript(TABLES)
        try:
            database.execute("INSERT INTO written VALUES (?, ?, ?)", key)
        except sqlite3.IntegrityError:
            return  # it was written before, and comes again
        database.executemany("INSERT INTO words VALUES (?, ?)", rows)


topology = TridentTopology("foreach-words")
(
    topology.new_stream("lines", FileSpout("logs/*.txt"))
    .flat_map(lambda line: [(word, len(word)) for word in line.value.split()], "word string, length int")
    .write_to(ForeachBatchSink(write))
)

if __name__ == "__main__":
    print(topology.explain())
    with topology.start() as query:
        query.process_all_available()
    with closing(sqlite3.connect(DATABASE)) as words:
        for word, times in words.execute("SELECT word, count(*) FROM words GROUP BY word ORDER BY 2 DESC, 1 LIMIT 10"):
            print(word, times)
