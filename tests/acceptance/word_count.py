"""The program that is killed: like the one at the top of README, over the files and into the table it is told.

python -m tests.acceptance.word_count GLOB DATABASE STATE_DIR
"""

from __future__ import annotations

import sys

from trident_py import TridentConfig, TridentTopology
from trident_py.operations import Count
from trident_py.spouts import FileSpout
from trident_py.states import SQLiteState


def main(glob: str, database: str, state_dir: str) -> None:
    """Count everything that is there, then end."""
    topology = TridentTopology("killed")
    (
        topology.new_stream("lines", FileSpout(glob, max_bytes_per_batch=1 << 20))
        .flat_map(lambda line: [(word,) for word in line.value.split()], "word string")
        .group_by("word")
        .persistent_aggregate(SQLiteState(database, table="counts"), Count(), "count")
    )
    config = TridentConfig(max_spout_pending=3, session_timeout=2, message_timeout=60, state_dir=state_dir)
    with topology.start(config) as query:
        query.process_all_available()


if __name__ == "__main__":
    main(*sys.argv[1:])
