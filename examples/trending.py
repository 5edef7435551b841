"""Which hashtags are trending? After every 10 of them, the 5 most frequent of the last 1000.

Put text files with posts into ``posts/``, one in a line, and run it; files that grow or appear are read too::

    python examples/trending.py                  everything there is now, then ends
    trident run examples/trending.py:topology    until Ctrl-C

    sqlite3 trending.db 'SELECT rank, hashtag FROM trending ORDER BY rank'

Kill it whenever you like: the window goes on with the very hashtags that it had, none lost and none twice. Those of the
last hour, every minute, are ``SlidingDuration(timedelta(hours=1), timedelta(minutes=1))``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from trident_py import TridentCollector, TridentTopology
from trident_py.operations import Aggregator, ReducerAggregator
from trident_py.spouts import FileSpout
from trident_py.states import SQLiteState
from trident_py.windows import SlidingCount

HASHTAG = re.compile(r"#\w+")


class Top(Aggregator[Counter[str]]):
    """The ``n`` most frequent hashtags; the ranks that are left have none."""

    def __init__(self, n: int) -> None:
        self.n = n

    def init(self, batch_id: Any, collector: TridentCollector) -> Counter[str]:
        return Counter()

    def aggregate(self, value: Counter[str], row: Any, collector: TridentCollector) -> None:
        value[row.hashtag] += 1

    def complete(self, value: Counter[str], collector: TridentCollector) -> None:
        tags = sorted(value, key=lambda tag: (-value[tag], tag))
        for rank in range(1, self.n + 1):
            collector.emit((rank, tags[rank - 1] if rank <= len(tags) else None))


class Latest(ReducerAggregator[str | None]):
    """The last hashtag that had a rank."""

    def init(self) -> None:
        return None

    def reduce(self, curr: str | None, row: Any) -> str | None:
        hashtag: str | None = row.hashtag
        return hashtag


topology = TridentTopology("trending")
(
    topology.new_stream("posts", FileSpout("posts/*.txt"))
    .flat_map(lambda post: [(tag.lower(),) for tag in HASHTAG.findall(post.value)], "hashtag string")
    .name("recent-hashtags")
    .window(SlidingCount(1000, 10), "hashtag", Top(5), "rank int, hashtag string")
    .group_by("rank")
    .persistent_aggregate(SQLiteState("trending.db", table="trending"), Latest(), "hashtag string", in_fields="hashtag")
)

if __name__ == "__main__":
    with topology.start() as query:
        query.process_all_available()
    print(query.last_progress or "nothing new")
