"""Counts page visits of a web server in Redis, where other programs look them up (docs/how-to/redis.md).

::

    python examples/redis_visits.py redis://localhost:6379/0 '/var/log/nginx/access.log*'
"""

from __future__ import annotations

import sys

from trident_py import Count, FileSpout, RedisState, TridentTopology


def visits(url: str, logs: str) -> TridentTopology:
    """Count the pages of log files in the common format: the seventh word of a line is the page."""
    topology = TridentTopology("visits")
    lines = topology.new_stream("log", FileSpout(logs))
    pages = lines.flat_map(lambda line: [(word,) for word in line.value.split()[6:7]], "page string")
    pages.group_by("page").persistent_aggregate(RedisState(url, prefix="visits"), Count(), "count")
    return topology


if __name__ == "__main__":
    with visits(*sys.argv[1:3]).start() as query:
        query.await_termination()
