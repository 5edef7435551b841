"""Records the golden data with the release that is to be remembered: see README.md beside this file.

Each topology runs in a process of its own, which ends, as by SIGKILL, in the middle of the commit that its scenario
names. What it leaves in ZooKeeper and in databases is then written down as it is.

The hooks below belong to the release at 230fe66, with its modules and names; a later one gets a recorder of its own.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from attrs import define, evolve, frozen
from kazoo.client import KazooClient

from tests.golden.topologies import FILES, RECORDED_FILES, TOPOLOGIES, file_lines, postgres
from tests.servers.postgresql import PostgresServer
from trident_py import TridentConfig, TridentTopology

KILLED = 9
PATIENCE_SECS = 120.0

# --- in the process that runs a topology ------------------------------------------------------------------------------


def die(*_: object) -> None:
    """End as by SIGKILL: nothing is closed, flushed or given up."""
    os._exit(KILLED)


@define
class Gate:
    """Holds one thread until another one opens it."""

    opened: threading.Event

    @classmethod
    def closed(cls) -> Gate:
        return cls(threading.Event())

    def pass_through(self, *_: object) -> None:
        assert self.opened.wait(PATIENCE_SECS)


def on_commit(module: str, kind: str, table: str, txid: int, *, before: Any = None, after: Any = None) -> None:
    """Call ``before`` or ``after`` the COMMIT that has ``txid`` in ``table``."""
    state = getattr(import_module(f"trident_py.states.{module}"), kind)
    commit_group = state.commit_group

    def hooked(self: Any) -> None:
        concerned = self._table.name == table and txid in [tx.txid for tx in self._group]
        if concerned and before:
            before()
        commit_group(self)
        if concerned and after:
            after()

    state.commit_group = hooked


def on_sqlite(table: str, txid: int, **hooks: Any) -> None:
    on_commit("sql.state", "SQLMapState", table, txid, **hooks)


def on_postgres(table: str, txid: int, **hooks: Any) -> None:
    on_commit("sql.staging", "StagingSQLMapState", table, txid, **hooks)


def on_success(txid: int, act: Callable[[], None]) -> None:
    """Call ``act`` when the success of ``txid`` is delivered to the emitter."""
    executor = import_module("trident_py.engine.spout_executor").TridentSpoutExecutor
    success = executor.success

    def hooked(self: Any, attempt: Any) -> None:
        if attempt.txid == txid:
            act()
        success(self, attempt)

    executor.success = hooked


def hold_writes_from(current_txid: int) -> None:
    """No record with ``current_txid`` or a later one is ever written, as if ZooKeeper were paused."""
    store = import_module("coordinators.leadership").ZooKeeperRecordStore
    write = store.write

    def hooked(self: Any, record: Any) -> None:
        if record.current_txid >= current_txid:
            threading.Event().wait()
        write(self, record)

    store.write = hooked


def pretend_time() -> None:
    """Windows see a clock of 2020 that goes on by five minutes whenever one of them reads it."""
    state = import_module("trident_py.planner.windowing").WindowState
    updater, times = state.updater, iter(range(1_600_000_800, 1_700_000_000, 300))

    def hooked(self: Any, source: Any) -> Any:
        return evolve(updater(self, source), clock=lambda: float(next(times)))

    state.updater = hooked


def run(topology: TridentTopology, config: TridentConfig, gate: Gate, pending: int) -> None:
    """Run ``topology``; open ``gate`` when ``pending`` transactions are processed or committing; wait to be killed."""
    with topology.start(config) as query:
        until = time.monotonic() + PATIENCE_SECS
        while time.monotonic() < until:
            assert query.is_active, query.exception()
            if sum(str(each.status) in ("processed", "committing") for each in query.transactions()) >= pending:
                gate.opened.set()
            if not pending:
                query.process_all_available(timeout=PATIENCE_SECS)
                return
            time.sleep(0.05)
    raise TimeoutError("nothing has killed it")


@frozen
class Scenario:
    """How a topology is brought to where it ends.

    Attributes:
        hooks: what to install; the gate holds the first transaction until all the others are processed.
        pending: how many transactions there are to be at that moment; 0: it ends by itself, with nothing left to do.
    """

    hooks: Callable[[Gate], object]
    pending: int = 4
    upto: int = 4


def torn_group(gate: Gate) -> None:
    on_sqlite("by_key", 1, before=gate.pass_through)
    on_sqlite("rows", 4, before=die)


def split_group(gate: Gate) -> None:
    on_sqlite("counts", 1, before=gate.pass_through)
    on_sqlite("counts", 4, after=die)
    hold_writes_from(3)


def shelves_before(gate: Gate) -> None:
    on_sqlite("sums", 1, before=gate.pass_through)
    on_sqlite("sums", 2, before=die)


def shelves_after(gate: Gate) -> None:
    on_sqlite("sums", 1, before=gate.pass_through)
    on_sqlite("sums", 2, after=die)


def windows(gate: Gate) -> None:
    pretend_time()
    on_sqlite("sliding_rows", 4, before=die)


def files_again(gate: Gate) -> None:
    on_sqlite("words", 3, before=gate.pass_through)
    on_sqlite("words", 4, before=die)


def staged(gate: Gate) -> None:
    on_postgres("by_key", 1, before=gate.pass_through)
    on_postgres("by_key", 2, before=die)


SCENARIOS: dict[str, Scenario] = {
    "torn-group": Scenario(torn_group),
    "split-group": Scenario(split_group),
    "owed-success": Scenario(lambda _: on_success(3, die), upto=3),
    "exact-partitions": Scenario(shelves_before),
    "opaque-partitions": Scenario(shelves_after),
    "windows": Scenario(windows),
    "long-window": Scenario(lambda _: None, pending=0, upto=2),
    "files": Scenario(lambda _: None, pending=0),
    "files-again": Scenario(files_again),
    "postgres": Scenario(staged),
}


def drive(name: str, at: Path, hosts: str, dsn: str) -> None:
    """Run one scenario to the point where this process ends."""
    config = TridentConfig(zookeeper=hosts, state_dir=at, session_timeout=5, message_timeout=120)
    scenario, gate = SCENARIOS[name], Gate.closed()
    scenario.hooks(gate)
    topology = name.removesuffix("-again")
    declared = TOPOLOGIES[topology](at, scenario.upto) if topology != "postgres" else postgres(dsn, scenario.upto)
    run(declared, config, gate, scenario.pending)


# --- in the process that writes it down -------------------------------------------------------------------------------


def write_file(name: str) -> None:
    """One of the recorded files, left alone for an hour."""
    path, data = FILES / name, "".join(f"{line}\n" for line in file_lines(name, RECORDED_FILES[name])).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))


def dump_znodes(hosts: str, topology: str, to: Path) -> None:
    """Every durable node of the topology, a file each, byte by byte; but the name of this machine."""
    client = KazooClient(hosts)
    client.start()
    base = f"/trident/{topology}"
    for node in ["identity", "epoch", "record", *(f"blobs/{name}" for name in client.get_children(f"{base}/blobs"))]:
        data, _ = client.get(f"{base}/{node}")
        target = to / node
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.replace(os.uname().nodename.encode(), b"recorder") if node == "epoch" else data)
        assert unquote(target.name), target
    client.stop()
    client.close()


def dump_sqlite(database: Path, to: Path) -> None:
    """The database as SQL; compressed, where rows are long."""
    with closing(sqlite3.connect(database)) as connection:
        text = "\n".join(connection.iterdump()) + "\n"
    if len(text) > 100_000:
        to.with_name(f"{to.name}.xz").write_bytes(lzma.compress(text.encode()))
    else:
        to.write_text(text)


def dump_postgres(server: PostgresServer, dsn: str, to: Path) -> None:
    """The database as SQL that any client can run, without the commands that only ``psql`` knows."""
    program = shutil.which("pg_dump") or next(Path("/usr/lib/postgresql").glob("*/bin/pg_dump"))
    command = [str(program), "--inserts", "--no-owner", "--no-privileges", dsn]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = (line for line in said.splitlines() if line and not line.startswith(("--", "\\")))
    to.write_text("\n".join(lines) + "\n")


def steps(name: str) -> Iterator[str]:
    """The runs of a scenario, with what happens to its files before each."""
    if name == "files":
        shutil.rmtree(FILES, ignore_errors=True)
        FILES.mkdir()
        for each in ("a.log", "b.log.gz"):
            write_file(each)
        yield "files"
        (FILES / "a.log").unlink()
        for each in ("c.log", "d.log.gz", "e.log"):
            write_file(each)
        yield "files-again"
    else:
        yield name


def record(name: str, hosts: str, server: PostgresServer, to: Path) -> None:
    """Run one scenario, and write down what it leaves."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    dsn = server.dsn("golden")
    with tempfile.TemporaryDirectory(prefix="trident-golden-") as directory:
        for step in steps(name):
            command = [sys.executable, "-P", "-m", "tests.golden.record", "--drive", step, directory, hosts, dsn]
            code = subprocess.run(command, check=False).returncode
            assert code in (0, KILLED), f"{step} ended with {code}"
        dump_znodes(hosts, f"golden-{name}", to / "zookeeper")
        for database in Path(directory).glob("*.db"):
            dump_sqlite(database, to / f"{database.stem.removeprefix(f'golden-{name}-')}.sql")
    if name == "files":
        (to / "files").mkdir()
        for path in FILES.iterdir():
            shutil.copyfile(path, to / "files" / path.name)
        shutil.rmtree(FILES)
    if name == "postgres":
        dump_postgres(server, dsn, to / "postgres.sql")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="where to write it, a directory for each scenario")
    parser.add_argument("names", nargs="*", help="which scenarios; all")
    names = parser.parse_args()
    embedded = import_module("coordinators.embedded").EmbeddedZooKeeper
    with tempfile.TemporaryDirectory(prefix="trident-golden-") as directory:
        Path(directory).chmod(0o711)
        server = PostgresServer(Path(directory) / "data")
        server.start()
        try:
            import psycopg

            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute("CREATE DATABASE golden")
            with embedded.running(Path(directory) / "zookeeper") as zookeeper:
                for name in names.names or [*TOPOLOGIES, "postgres"]:
                    record(name, zookeeper.hosts, server, names.data / name)
        finally:
            server.stop("immediate")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        drive(sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        main()
