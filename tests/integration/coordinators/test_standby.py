"""Standing by: any number of drivers may wait for their turn, and exactly one of them gets it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import pytest
from attrs import define, field

from coordinators.backends.zookeeper import session as session_module
from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
from coordinators.backends.zookeeper.leadership import lead, look, stand_by
from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore
from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.record.record import CoordinatorRecord
from coordinators.status.candidate import Candidate
from coordinators.values.errors import CoordinationLost

pytestmark = pytest.mark.zookeeper

PATIENCE_SECONDS = 30.0


@define
class Standbys:
    """Candidates that stand by, each on a thread of its own."""

    pool: ThreadPoolExecutor
    stack: ExitStack
    candidates: list[Candidate] = field(factory=list)

    def add(
        self,
        hosts: str,
        session_timeout: float = 3.0,
        take_over: Callable[[ZooKeeperRecordStore], ZooKeeperRecordStore] = lambda store: store,
    ) -> Future[ZooKeeperRecordStore | None]:
        candidate = Candidate("wordcount")
        self.candidates.append(candidate)
        self.stack.callback(candidate.withdraw)
        return self.pool.submit(stand_by, candidate, take_over, hosts=hosts, session_timeout=session_timeout)

    def await_waiting(self, number: int) -> None:
        """Return when a standby has seen whom it waits for."""
        candidate = self.candidates[number]
        while candidate.rival is None:
            candidate._woken.wait(0.01)


@pytest.fixture
def standbys() -> Iterator[Standbys]:
    with ThreadPoolExecutor(4) as pool, ExitStack() as stack:
        yield Standbys(pool, stack)


def test_of_several_standbys_one_takes_over_and_the_next_follows_it(zookeeper: str, standbys: Standbys) -> None:
    first = lead("wordcount", hosts=zookeeper)
    first.write(CoordinatorRecord(1, seq=7))
    waiting = [standbys.add(zookeeper) for _ in range(3)]
    for number in range(3):
        standbys.await_waiting(number)
    assert not any(future.done() for future in waiting)
    stores = [first]
    while waiting:
        stores[-1].close()
        [store] = [store for store in (_first_of(waiting),) if store]
        assert store.epoch == len(stores) + 1
        record = store.read()
        assert record is not None
        assert record.seq == 7
        stores.append(store)
    stores[-1].close()


def _first_of(waiting: list[Future[ZooKeeperRecordStore | None]]) -> ZooKeeperRecordStore | None:
    """The one that leads now; the others go on waiting."""
    done, _ = wait(waiting, PATIENCE_SECONDS, FIRST_COMPLETED)
    [future] = done
    waiting.remove(future)
    return future.result()


def test_a_standby_keeps_one_watch_however_often_it_looks(zookeeper: str) -> None:
    leader = lead("wordcount", hosts=zookeeper)
    session = ZooKeeperSession.connect(zookeeper, who="the tests", session_timeout=30.0)
    path = f"{session.chroot}/trident/wordcount/leader"
    candidate = Candidate("wordcount")
    for _ in range(3):
        look(candidate, session, path)
    assert [len(watchers) for watchers in session._client._data_watchers.values()] == [1]
    session.close()
    leader.close()


def test_a_standby_that_is_withdrawn_ends_at_once(zookeeper: str, standbys: Standbys) -> None:
    first = lead("wordcount", hosts=zookeeper)
    waiting = standbys.add(zookeeper)
    standbys.await_waiting(0)
    assert str(standbys.candidates[0].rival).startswith("pid ")
    standbys.candidates[0].withdraw()
    assert waiting.result(PATIENCE_SECONDS) is None
    first.write(CoordinatorRecord(1))
    first.close()


def keep_writing(store: ZooKeeperRecordStore) -> None:
    """Its supervisor stops the server a moment after its last user has left."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        store.write(CoordinatorRecord(1))


def test_a_standby_outlives_its_session(tmp_path: Path, standbys: Standbys) -> None:
    with EmbeddedZooKeeper.running(tmp_path / "server") as server:
        first = lead("wordcount", hosts=server.hosts, session_timeout=2.0)
        waiting = standbys.add(server.hosts, session_timeout=1.0)
        standbys.await_waiting(0)
        hosts = server.hosts
    with pytest.raises(CoordinationLost):
        keep_writing(first)
    with EmbeddedZooKeeper.running(tmp_path / "server") as server:
        assert server.hosts == hosts
        store = waiting.result(PATIENCE_SECONDS)
        assert store is not None
        assert store.epoch == 2
        store.close()


def test_a_standby_that_loses_its_leadership_before_it_has_taken_over_stands_by_again(
    zookeeper: str, standbys: Standbys
) -> None:
    elected: list[ZooKeeperRecordStore] = []

    def take_over(store: ZooKeeperRecordStore) -> ZooKeeperRecordStore:
        elected.append(store)
        if store.epoch == 1:
            store.close()
        store.write(CoordinatorRecord(store.epoch))
        return store

    last = standbys.add(zookeeper, take_over=take_over).result(PATIENCE_SECONDS)
    assert [store.epoch for store in elected] == [1, 2]
    assert last is elected[1]
    last.close()


def test_a_standby_without_any_server_says_so(standbys: Standbys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CONNECT_SECONDS_MIN", 1.0)
    with pytest.raises(CoordinationLost, match="no ZooKeeper answered"):
        standbys.add("127.0.0.1:1", session_timeout=1.0).result(PATIENCE_SECONDS)
