"""Which ads were clicked within ten minutes? Impressions and clicks are in different files, and in any batches.

Put text files into ``impressions/`` and ``clicks/``, and run it; files that grow or appear are read too::

    impressions/1.txt    2024-05-01T12:00:00Z i1 tea     time, impression, ad
    clicks/1.txt         2024-05-01T12:04:00Z i1         time, impression

    python examples/clicks.py                  everything there is now, then ends
    trident run examples/clicks.py:topology    until Ctrl-C

    sqlite3 ads.db 'SELECT ad, count(*), count(clicked_at) FROM ads GROUP BY ad'

An impression without a click comes out when clicks of eleven minutes later have come: ten, and one for clicks that are
late. Kill it whenever you like: no impression and no click is lost or counted twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from trident_py import Row, TridentTopology
from trident_py.sinks import SQLSink
from trident_py.spouts import FileSpout


def impression(line: Row) -> tuple[datetime, str, str]:
    """The time, the impression and the ad of a line."""
    at, shown, ad = line.value.split()
    return datetime.fromisoformat(at), shown, ad


def click(line: Row) -> tuple[datetime, str]:
    """The time and the impression of a line."""
    at, shown = line.value.split()
    return datetime.fromisoformat(at), shown


topology = TridentTopology("ads")
impressions = topology.new_stream("impressions", FileSpout("impressions/*.txt")).map(
    impression, "at timestamp, impression string, ad string"
)
clicks = topology.new_stream("clicks", FileSpout("clicks/*.txt")).map(click, "at timestamp, impression string")
joined = topology.join(
    impressions,
    "impression",
    clicks,
    "impression",
    ["impression", "shown_at", "ad", "clicked_at"],
    how="left",
    within=timedelta(minutes=10),
    timestamps=("at", "at"),
    watermark=timedelta(minutes=1),
)
joined.name("ads").write_to(SQLSink("sqlite:///ads.db", "ads"))
joined.late_rows().name("late").write_to(SQLSink("sqlite:///ads.db", "late"))

if __name__ == "__main__":
    with topology.start() as query:
        query.process_all_available()
    print(query.last_progress or "nothing new")
