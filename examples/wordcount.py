"""Counts the words of text files, for ever and exactly once.

Put text files into ``logs/`` and run it in one of two ways; files that grow or appear are counted too::

    python examples/wordcount.py                  everything there is now, then ends
    trident run examples/wordcount.py:topology    until Ctrl-C

Kill it whenever you like and start it again: no word is lost or counted twice. Look at the counts at any time::

    sqlite3 counts.db 'SELECT word, count FROM counts ORDER BY count DESC LIMIT 10'
"""

from __future__ import annotations

from trident_py import TridentConfig, TridentTopology
from trident_py.operations import Count
from trident_py.spouts import FileSpout
from trident_py.states import SQLiteState

topology = TridentTopology("wordcount")
(
    topology.new_stream("lines", FileSpout("logs/*.txt", max_bytes_per_batch=1 << 20))
    .flat_map(lambda line: [(word,) for word in line.value.split()], "word string")
    .group_by("word")
    .persistent_aggregate(SQLiteState("counts.db", table="counts"), Count(), "count")
)

if __name__ == "__main__":
    with topology.start(TridentConfig(max_spout_pending=3)) as query:
        query.process_all_available()
    print(query.last_progress or "nothing new")
