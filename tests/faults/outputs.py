"""Faults under an output in another store beside the counts: MySQL, Redis, a Delta and an Iceberg table.

It has each word as often as it was read, whatever dies around its commit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic

from attrs import frozen
from deltalake import DeltaTable

from tests.faults.beside import TABLE
from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.check import words_in
from tests.faults.crashes import crash
from tests.faults.drivers import wait_until
from tests.faults.points import BESIDE
from tests.servers.mariadb import MariaDBServer
from tests.servers.redis_server import RedisServer
from tests.servers.running import started
from tests.unit.trident_py.sinks.iceberg.tables import table_at

DATABASE = "test"


@frozen
class Store:
    """Where the output is.

    Attributes:
        where: as `tests.faults.beside` has it.
        read: what somebody else finds there, by word.
        server: what it runs on; None: it consists of files.
    """

    where: str
    read: Callable[[], Mapping[str, int]]
    server: MariaDBServer | RedisServer | None = None


@contextmanager
def _mysql(case: Case) -> Iterator[Store]:
    server = MariaDBServer(_directory(case) / "data", {"bind_address": "*"})
    with started(server):
        server.run(f"CREATE DATABASE {DATABASE}")
        where = server.url(DATABASE).replace("127.0.0.1", case.world.address)
        query = f"SELECT word, n FROM {TABLE}"  # noqa: S608 - a constant
        yield Store(where, lambda: dict(server.run(query, database=DATABASE)), server)


@contextmanager
def _redis(case: Case) -> Iterator[Store]:
    server = RedisServer(_directory(case))

    def read() -> Mapping[str, int]:
        with closing(server.client()) as client:
            return {json.loads(key)[0]: int(n) for key, n in client.hgetall(TABLE).items()}

    with started(server):
        yield Store(server.url, read, server)


@contextmanager
def _delta(case: Case) -> Iterator[Store]:
    where = _directory(case) / TABLE
    yield Store(str(where), lambda: Counter(DeltaTable(where).to_pyarrow_table()["word"].to_pylist()))


@contextmanager
def _iceberg(case: Case) -> Iterator[Store]:
    where = _directory(case) / TABLE
    yield Store(str(where), lambda: Counter(table_at(where).scan().to_arrow()["word"].to_pylist()))


def _directory(case: Case) -> Path:
    directory = case.world.directory / "beside" / case.topology
    directory.mkdir(parents=True)
    directory.parent.chmod(0o711)  # a server's user has to get through
    directory.chmod(0o711)
    return directory


STORES: dict[str, Callable[[Case], AbstractContextManager[Store]]] = {
    "mysql": _mysql,
    "redis": _redis,
    "delta": _delta,
    "iceberg": _iceberg,
}


def compared(kind: str, case: Case, harm: Callable[[Store], None]) -> None:
    """Whatever ``harm`` does, the store has each word as often as it was read."""
    with STORES[kind](case) as store:
        case.beside = [kind, store.where]
        harm(store)
        case.drain()
        assert dict(store.read()) == dict(words_in(case.feeder.files)), f"in {kind}"


for kind in STORES:
    for point in BESIDE:

        @fault(f"{kind}-crash-{point.partition('_')[0]}-commit")
        def _(case: Case, kind: str = kind, point: str = point) -> None:
            """A2, A3: the leader dies right before the commit there, and right behind it."""
            compared(kind, case, lambda _: crash(point, case))


for kind in ("mysql", "redis"):

    @fault(f"{kind}-restarted")
    def _(case: Case, kind: str = kind) -> None:
        """D2: the server dies right before the commit, and starts again on what it has fsynced."""
        compared(kind, case, partial(_restart, case))


def _restart(case: Case, store: Store) -> None:
    case.session = 60.0  # servers take their time where the disk is busy
    leader, _ = case.pair(before_beside_commit=["hold", 1])
    case.await_fired(leader)
    wait_until("it stands still", leader.is_stopped)
    assert store.server is not None
    store.server.kill()
    store.server.start()
    leader.go_on()
    case.await_commits(2, since=monotonic())
    happened(len(case.events("leads")) == 1, "the leader leads on")
