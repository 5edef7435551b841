"""Runs small and large transactions for some minutes, and looks whether anything grows.

Every minute an operator slows it down, pauses it and has it go on.

    python -m tests.soak --minutes 20 [--small] [--transactions 1000000] [--json FILE]

A few times a minute, when all input is committed, it counts Python's objects, threads, descriptors, znodes and Spark's
blocks, and the memory of the driver and of its JVM, all garbage collected. Exit code 1 if the median of the last minute
is above that of the second one by more than is allowed, with the table of what was measured.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import pyarrow as pa
from attrs import asdict, frozen
from kazoo.client import KazooClient
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from coordinators.backends.zookeeper.coordination import ZooKeeperCoordination
from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
from tests.servers.postgresql import NoServerError, PostgresServer
from tests.soak.judgement import MINUTE_SECONDS, MINUTES_MIN, TOLD, Growth, Sample, growths
from tests.soak.load import TOPOLOGY, Load
from tests.soak.operator import Operator
from tests.soak.probe import Probe
from tests.soak.small import SmallLoad
from trident_py import PostgresState, SQLiteState, StateFactory, TridentConfig

PENDING = 8
PENDING_SMALL = 64
MIB = 1 << 20
RETAINED = "20"

SPARK: dict[str, bool | float | int | str | None] = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-Xms1g",  # a heap that never grows or shrinks
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # What Spark remembers of the past is bounded, but by so much that an hour would not fill it.
    "spark.ui.retainedJobs": RETAINED,
    "spark.ui.retainedStages": RETAINED,
    "spark.ui.retainedTasks": RETAINED,
    "spark.sql.ui.retainedExecutions": RETAINED,
}


@frozen
class Soaked:
    """What came of it.

    Attributes:
        samples: in order.
        transactions: how many were committed.
        pauses: how often it was slowed down and paused.
    """

    samples: list[Sample]
    transactions: int
    pauses: int


@contextmanager
def words_state(directory: Path) -> Iterator[StateFactory]:
    """A state of a PostgreSQL server where one is installed, else of SQLite."""
    directory.chmod(0o711)  # the server's user has to get through
    server = PostgresServer(directory / "postgres")
    try:
        server.start()
    except NoServerError:
        yield SQLiteState(directory / "words.db", table="words")
        return
    try:
        yield PostgresState(server.dsn(), table="words")
    finally:
        server.stop("immediate")


@contextmanager
def session() -> Iterator[SparkSession]:
    """A Spark session as the product makes it, but for its heap."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = SparkSession.Builder().master("local[2]").appName("soak").config(map=SPARK).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # of the failures that are meant
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def connected(server: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """A client of a ZooKeeper, let in as the topology is."""
    assert server.access.login is not None
    client = KazooClient(server.hosts, auth_data=[("digest", server.access.login.reveal())])
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def load_of(directory: Path, small: bool, stack: ExitStack) -> Load | SmallLoad:
    """Make the input and the states."""
    sums = SQLiteState(directory / "sums.db", table="sums")
    if small:
        return SmallLoad(sums)
    words = stack.enter_context(words_state(directory))
    return Load(directory / "input", words, sums, SQLiteState(directory / "totals.db", table="totals"))


def soak(seconds: float, transactions: int = 0, *, small: bool = False) -> Soaked:
    """Run rounds until both the time and the number of transactions are reached, with a sample after each."""
    # Arrow's own pool keeps for each thread what it has freed, 12 MiB after some minutes, and gives it back to nobody.
    pa.set_memory_pool(pa.system_memory_pool())
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="trident-soak-")))
        config = TridentConfig(max_spout_pending=PENDING_SMALL if small else PENDING, state_dir=directory / "state")
        server = stack.enter_context(EmbeddedZooKeeper.running(config.embedded_dir))
        load = load_of(directory, small, stack)
        spark = stack.enter_context(session())
        probe = Probe.of(spark, stack.enter_context(connected(server)), config.root)
        query = stack.enter_context(load.topology().start(config, spark=spark))
        operator = Operator(ZooKeeperCoordination(hosts=server.hosts, root=config.root, access=server.access), TOPOLOGY)
        load.burst(query)
        began, samples = monotonic(), list[Sample]()
        while monotonic() - began < seconds or query.status["current_txid"] <= transactions:
            operator.round(load, query, monotonic() - began)
            samples.append(probe.sample(monotonic() - began))
        return Soaked(samples, query.status["current_txid"] - 1, operator.visits)


def table(grown: list[Growth]) -> Table:
    """What was measured, for people."""
    shown = Table("", "minute 2", "last minute", "growth", "")
    for each in grown:
        unit = MIB if each.measure.endswith("_bytes") else 1
        what = each.measure.replace("_bytes", ", MiB").replace("_", " ")
        numbers = (f"{number / unit:,.1f}" for number in (each.before, each.after))
        growth = f"{100 * (each.after / each.before - 1):+.1f} %" if each.before else ""
        shown.add_row(what, *numbers, growth, "LEAK" if each.is_leak else "told" if each.limit is TOLD else "good")
    return shown


def minutes(text: str) -> float:
    """A number of minutes that can be judged."""
    if float(text) < MINUTES_MIN:
        raise argparse.ArgumentTypeError(f"at least {MINUTES_MIN}")
    return float(text)


def main(argv: list[str] | None = None) -> int:
    """Do it, and tell."""
    parser = argparse.ArgumentParser(description="Run small and large transactions, and look whether anything grows.")
    parser.add_argument("--minutes", type=minutes, default=20.0)
    parser.add_argument("--small", action="store_true", help="only small transactions, thousands in each round")
    parser.add_argument("--transactions", type=int, default=0, help="how many to commit at least")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where every sample goes, and what was made of them")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.ERROR)
    soaked = soak(arguments.minutes * MINUTE_SECONDS, arguments.transactions, small=arguments.small)
    took_minutes = max(arguments.minutes, soaked.samples[-1].at / MINUTE_SECONDS)
    grown = growths(soaked.samples, took_minutes)
    if arguments.json:
        told = {"minutes": took_minutes, **asdict(soaked)}
        told["growths"] = [asdict(each) | {"is_leak": each.is_leak} for each in grown]
        arguments.json.write_text(json.dumps(told, indent=2))
    console = Console(width=100)
    console.print(table(grown))
    leaks = [each.measure for each in grown if each.is_leak]
    console.print(
        f"{soaked.transactions} transactions, {soaked.pauses} pauses, {len(soaked.samples)} samples: "
        f"{', '.join(leaks) or 'nothing'} grew"
    )
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
