"""Joins what two kinds of files say about the same pages: how often each was viewed, and what was earned there.

``views/*.txt`` has a page in each line, ``orders/*.txt`` a page and an amount. Both are read in the same transactions,
and a join pairs what came in one batch, never rows of different batches. So each side is aggregated first, and the
states add up the batches, exactly once::

    python examples/joining.py                  everything there is now, then ends
    trident run examples/joining.py:topology    until Ctrl-C

    sqlite3 pages.db 'SELECT page, views, revenue FROM views JOIN revenue USING (page) ORDER BY revenue DESC'
"""

from __future__ import annotations

from trident_py import Row, TridentConfig, TridentTopology
from trident_py.operations import Count, Sum
from trident_py.spouts import FileSpout
from trident_py.states import SQLiteState


def order(line: Row) -> tuple[str, float]:
    """The page and the amount of a line of orders."""
    page, amount = line.value.rsplit(maxsplit=1)
    return page, float(amount)


topology = TridentTopology("pages")
views = (
    topology.new_stream("views", FileSpout("views/*.txt"))
    .map(lambda line: (line.value.strip(),), "page string")
    .group_by("page")
    .aggregate(Count(), "views")
)
orders = (
    topology.new_stream("orders", FileSpout("orders/*.txt"))
    .map(order, "page string, amount double")
    .group_by("page")
    .aggregate(Sum("amount"), "revenue")
)
# A page that was only viewed, or only ordered from, stays: the other field is null, which Sum takes for nothing.
pages = topology.join(views, "page", orders, "page", ["page", "views", "revenue"], how="outer").group_by("page")
pages.persistent_aggregate(SQLiteState("pages.db", table="views"), Sum("views"), "views")
pages.persistent_aggregate(SQLiteState("pages.db", table="revenue"), Sum("revenue"), "revenue")

if __name__ == "__main__":
    with topology.start(TridentConfig(max_spout_pending=3)) as query:
        query.process_all_available()
    print(query.last_progress or "nothing new")
