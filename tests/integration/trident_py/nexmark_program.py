"""The queries of Nexmark over events that come out of order, with the time of each transaction beside.

Call it with ZooKeeper's address, a directory, and the seconds by which rows may be late.
"""

from __future__ import annotations

import random
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame

from examples import nexmark
from trident_py import FixedBatchSpout, SQLSink, TridentConfig, TridentTopology
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink

EVENTS, BATCH = 6_000, 200
DISORDER_SECONDS = 3.0
NOBODY = -1
WINDOWS = ("hot_items", "highest_bids", "user_sessions")


def events() -> list[tuple[Any, ...]]:
    """Return the events in the order in which they come; the last one lets all windows before it fire."""
    dice = random.Random(8)
    made = sorted(nexmark.events(EVENTS), key=lambda event: event[-1].timestamp() + dice.uniform(0, DISORDER_SECONDS))
    return [*made, ("bid", NOBODY, None, NOBODY, 1, made[-1][-1] + timedelta(hours=1))]


@frozen
class Times(TransactionalSink[int]):
    """Appends each transaction to a file, with its time and its number of rows."""

    path: Path

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Return the token of the last line; the file belongs to one topology, and is not fenced."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        if not lines:
            return None
        txid, _, _, last, attempt = map(int, lines[-1].split())
        return CommitToken(txid, last, attempt)

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> int:
        return frame.count()

    def commit(self, tx: SinkTransaction, receipt: int) -> None:
        with self.path.open("a") as file:
            file.write(f"{tx.txid} {tx.time} {receipt} {tx.epoch} {tx.attempt.attempt_id}\n")

    def abort(self, tx: SinkTransaction, receipt: int | None) -> None:
        """Do nothing: nothing was prepared."""


def main() -> None:
    zookeeper, directory, late = sys.argv[1], Path(sys.argv[2]), timedelta(seconds=float(sys.argv[3]))
    topology = TridentTopology("nexmark")
    stream = topology.new_stream("events", FixedBatchSpout(nexmark.SCHEMA, BATCH, *events()))
    found = nexmark.declare(topology, stream, f"sqlite:///{directory / 'found.db'}", late)
    late_rows = {name: found[name].late_rows().project("at") for name in WINDOWS}
    either = found["new_users"].late_rows().map(lambda row: (row.registered or row.opened,), "at timestamp")
    for name, rows in {**late_rows, "new_users": either}.items():
        rows.name(f"late-{name}").write_to(SQLSink(f"sqlite:///{directory / 'late.db'}", name))
    stream.name("times").write_to(Times(directory / "times"))
    config = TridentConfig(zookeeper=zookeeper, session_timeout=2, state_dir=directory / "state", max_spout_pending=3)
    with topology.start(config) as query:
        query.process_all_available(180)


if __name__ == "__main__":
    main()
