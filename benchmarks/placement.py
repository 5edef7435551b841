"""A state that user code changes: on the driver, and in one, two and four of Spark's tasks, into PostgreSQL.

    python -m benchmarks placement [--sizes full] [--out DIR]

An updater adds up amounts by key, with a little Python for each row. A file is one batch. Each placement also runs
against a server that answers each request 5 ms later, as a store in another building does.

Then windows of ten seconds of event time by key, with an aggregator in Python: on the driver, and in two tasks.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from attrs import evolve, frozen
from pyspark.sql import SparkSession

from benchmarks.command import run_part
from benchmarks.event_time import DELAY_SECONDS as DELAY_SECONDS_OF_ROWS
from benchmarks.event_time import FIELDS as TIMED
from benchmarks.event_time import WINDOW_SECONDS, events
from benchmarks.feed import FeedSpout
from benchmarks.parts import Part
from benchmarks.rates import rates
from benchmarks.rounds import race
from benchmarks.sizes import Sizes
from benchmarks.stage import LARGE, Stage
from benchmarks.totals import total
from benchmarks.workloads import FeedHand, Inputs, updates
from tests.servers.postgresql import NoServerError, PostgresServer
from trident_py import PostgresState, ReducerAggregator, SQLiteState, Sum, TridentCollector, TridentTopology
from trident_py.rows.schema import schema_of
from trident_py.states import MapState, StateUpdater
from trident_py.windows import TumblingDuration

FIELDS = "key bigint, amount bigint"
DELAY_SECONDS = 0.005
DRIVER = "driver"


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Each placement in turn, with a server nearby and one far away."""
    if not sizes.placement_rows:
        return Part()
    stage.directory.chmod(0o711)  # the server's user has to get through
    directory = stage.directory / "placement"
    directory.mkdir(mode=0o711)
    server = PostgresServer(directory / "data")
    with ExitStack() as opened:
        opened.callback(server.close)
        try:
            server.start()
        except NoServerError as error:
            return Part(notes=[f"a state in tasks was not measured: {error}"])
        spark = opened.enter_context(stage.session(LARGE))
        far = opened.enter_context(delayed(server.port))
        inputs = updates(stage.scratch("updates"), sizes.files, sizes.placement_rows, sizes.keys, sizes.warm_up)
        course = Placements(stage, spark, inputs, server)
        near = race(course.competitors(server.port), sizes.rounds, DRIVER)
        away = race(course.competitors(far), sizes.rounds, DRIVER)
        timed = events(stage.scratch("events"), evolve(sizes, window_rows=sizes.placement_rows))
        windows = Windowed(stage, spark, timed, server)
        windows_near = race(windows.competitors(server.port), sizes.rounds, DRIVER)
        windows_away = race(windows.competitors(far), sizes.rounds, DRIVER)
    title = f"an updater of keys in PostgreSQL, {inputs.rows:,} rows a batch, {{}}"
    of_windows = f"windows of {sizes.window_keys:,} keys in PostgreSQL, {timed.rows:,} rows a batch, {{}}"
    measured = {
        "tasks_vs_driver": near["2 tasks"],
        "far_tasks_vs_driver": away["4 tasks"],
        "window_tasks_vs_driver": windows_near["2 tasks"],
        "far_window_tasks_vs_driver": windows_away["2 tasks"],
    }
    return Part(
        tables=[
            rates(title.format("a server nearby"), inputs, near, DRIVER),
            rates(title.format("one 5 ms away"), inputs, away, DRIVER),
            rates(of_windows.format("a server nearby"), timed, windows_near, DRIVER),
            rates(of_windows.format("one 5 ms away"), timed, windows_away, DRIVER),
        ],
        numbers={name: each.ratio for name, each in measured.items()},
        spread={name: each.ratio_spread for name, each in measured.items()},
    )


@contextmanager
def delayed(port: int) -> Iterator[int]:
    """Give the port of a server that passes each request on to ``port`` a little later."""

    def passed(source: socket.socket, target: socket.socket, delay: float) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(delay)
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accepted() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                there = socket.create_connection(("127.0.0.1", port))
                ends.extend([client, there])
                for pair in ((client, there, DELAY_SECONDS), (there, client, 0.0)):
                    threading.Thread(target=passed, args=pair, daemon=True).start()

    ends: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accepted, daemon=True).start()
        yield listener.getsockname()[1]
    for end in ends:
        end.close()


@frozen
class Adding(StateUpdater[MapState[int]]):
    """Adds the amounts of each key to its value, row by row."""

    def update_state(self, state: MapState[int], tuples: Sequence[Any], collector: TridentCollector) -> None:
        """Add them."""
        added: dict[int, int] = {}
        for row in tuples:
            added[row.key] = added.get(row.key, 0) + row.amount
        updaters = [partial(_added, amount) for amount in added.values()]
        state.multi_update([[key] for key in added], updaters)


def _added(amount: int, value: int | None) -> int:
    return (value or 0) + amount


@frozen
class Placements:
    """The competitors.

    Attributes:
        stage: for directories and ZooKeeper.
        spark: the session of all of them.
        inputs: files of updates.
        server: keeps the states.
    """

    stage: Stage
    spark: SparkSession
    inputs: Inputs
    server: PostgresServer

    def competitors(self, port: int) -> dict[str, Callable[[], float]]:
        """By name; their connections lead to ``port``."""
        tasks = {1: "1 task", 2: "2 tasks", 4: "4 tasks"}
        return {
            DRIVER: partial(self.trident, port, 1, "driver"),
            **{name: partial(self.trident, port, count, "tasks") for count, name in tasks.items()},
        }

    def trident(self, port: int, parts: int, placement: str) -> float:
        """A topology with a new table."""
        name, dsn = self._database(port)
        state = PostgresState(dsn, table="totals", placement=placement).for_fields(
            schema_of("key bigint"), schema_of("total bigint").fields[0]
        )
        hand, topology = FeedHand.of_files(self.inputs), TridentTopology("benchmark")
        rows = topology.new_stream("updates", FeedSpout(hand.feed, FIELDS, self._emit))
        rows.partition_by("key").parallelism_hint(parts).partition_persist(state, Adding(), ["key", "amount"])
        with topology.start(self.stage.config(None), spark=self.spark) as query:
            seconds = hand.seconds(query)
        with psycopg.connect(self.server.dsn(name)) as connection:
            found = connection.execute("SELECT sum(total) FROM totals").fetchone()
        assert found == (self.inputs.total,), found
        return seconds

    def _database(self, port: int) -> tuple[str, str]:
        name = self.stage.scratch("state").name.replace("-", "_").lower()
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return name, psycopg.conninfo.make_conninfo(self.server.dsn(name), port=port)

    def _emit(self, spark: SparkSession, txid: int, path: Path, collector: TridentCollector) -> None:
        collector.emit_dataframe(spark.read.schema(FIELDS).parquet(str(path)))


class Largest(ReducerAggregator[int]):
    """The largest amount, by a user's code."""

    in_fields = ("amount",)

    def init(self) -> int:
        """Nothing so far."""
        return 0

    def reduce(self, curr: int, row: Any) -> int:
        """Compare."""
        amount: int = row.amount
        return max(curr, amount)


@frozen
class Windowed(Placements):
    """Windows, whose results are counted."""

    def competitors(self, port: int) -> dict[str, Callable[[], float]]:
        return {
            DRIVER: partial(self.trident, port, 1, "driver"),
            "2 tasks": partial(self.trident, port, 2, "tasks"),
        }

    def trident(self, port: int, parts: int, placement: str) -> float:
        """A topology with a new table; as many tasks as the session runs at once."""
        scratch, (_, dsn) = self.stage.scratch("counts"), self._database(port)
        hand, topology = FeedHand.of_files(self.inputs), TridentTopology("benchmark")
        rows = topology.new_stream("events", FeedSpout(hand.feed, TIMED, self._emit_events)).group_by("key")
        fired = rows.window(
            TumblingDuration(WINDOW_SECONDS),
            ["amount"],
            Largest(),
            "amount bigint",
            timestamp="at",
            watermark=timedelta(seconds=DELAY_SECONDS_OF_ROWS),
            store=PostgresState(dsn, table="windows", placement=placement),
        )
        counts = SQLiteState(scratch / "counts.db", table="counts")
        fired.group_by("key").persistent_aggregate(counts, Sum("amount"), "amount")
        with topology.start(self.stage.config(None), spark=self.spark) as query:
            seconds = hand.seconds(query)
        found = total(scratch / "counts.db", "counts", "amount")
        assert 0 < found <= self.inputs.total, found
        return seconds

    def _emit_events(self, spark: SparkSession, txid: int, path: Path, collector: TridentCollector) -> None:
        collector.emit_dataframe(spark.read.schema(TIMED).parquet(str(path)))


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("placement", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
