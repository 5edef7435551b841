"""Puts golden data back to where a topology finds it."""

from __future__ import annotations

import json
import lzma
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.backends.zookeeper.znodes import Create, Step, TopologyPaths
from coordinators.record.record import EncodedRecord
from coordinators.record.store import InMemoryCoordination, TopologyIdentity

DATA = Path(__file__).parent / "data"


def scenarios() -> list[str]:
    """All that were recorded."""
    return sorted(each.name for each in DATA.iterdir())


def encoded(name: str) -> EncodedRecord:
    """The record, as the release wrote it."""
    nodes = DATA / name / "zookeeper"
    return EncodedRecord(
        (nodes / "record").read_text(),
        {unquote(path.name): path.read_text() for path in sorted((nodes / "blobs").glob("*"))},
    )


def coordination(name: str) -> InMemoryCoordination:
    """Identity, epoch and record, in memory."""
    nodes = DATA / name / "zookeeper"
    identity, epoch = (json.loads((nodes / each).read_text()) for each in ("identity", "epoch"))
    return InMemoryCoordination(
        TopologyIdentity(f"golden-{name}", identity["uuid"], identity["incarnation"]), epoch["epoch"], encoded(name)
    )


def restore_zookeeper(name: str, hosts: str, record: EncodedRecord) -> None:
    """The znodes without a login, with a record of today."""
    session = ZooKeeperSession.connect(hosts, who="the golden data", session_timeout=30.0)
    paths = TopologyPaths(f"{session.chroot}/trident/golden-{name}")
    nodes = DATA / name / "zookeeper"
    created: list[Step] = [
        Create(f"{paths.base}/{each}", (nodes / each).read_bytes()) for each in ("identity", "epoch")
    ]
    created.append(Create(paths.record, record.head.encode()))
    session.retry_within_lease(lambda: session.ensure_path(paths.blobs))
    session.retry_within_lease(lambda: session.commit(created))
    session.close()


def restore_databases(name: str, at: Path) -> None:
    """The SQLite databases: ``state.db`` and those of windows."""
    for path in (DATA / name).glob("*.sql*"):
        text = lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else path.read_text()
        stem = path.name.partition(".")[0]
        with closing(sqlite3.connect(at / ("state.db" if stem == "state" else f"golden-{name}-{stem}.db"))) as database:
            database.executescript(text)
