"""Leading a topology on three servers that are killed, paused and started again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import monotonic
from uuid import uuid4

import pytest

from coordinators.backends.zookeeper.leadership import lead
from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore, load
from coordinators.backends.zookeeper.session import Conflict, ZooKeeperSession
from coordinators.backends.zookeeper.znodes import (
    ANY_VERSION,
    REQUEST_BYTES_MAX,
    STEP_OVERHEAD_BYTES,
    Create,
    Put,
    Remove,
    Step,
    TopologyPaths,
)
from coordinators.record.record import CoordinatorRecord
from coordinators.values.cursors import Cursors
from coordinators.values.errors import CoordinationLost, MetadataError
from tests.servers.zookeeper import Ensemble

pytestmark = pytest.mark.zookeeper

LONG_SESSION_SECONDS = 45.0
"""Thirty of them without an answer end a leadership; three servers start and elect within that on a busy machine."""

SHORT_SESSION_SECONDS = 3.0
PATIENCE_SECONDS = 20.0
BEHIND = 100
"""So many writes a paused server is behind when it goes on; without a sync, it answers from what it had."""


@pytest.fixture
def servers(ensemble: Ensemble) -> Iterator[Ensemble]:
    """All three, at the beginning and at the end."""
    yield ensemble
    ensemble.start()
    ensemble.await_quorum()


@pytest.fixture
def chroot() -> str:
    return str(uuid4())


@pytest.fixture
def leading() -> Iterator[Callable[..., ZooKeeperRecordStore]]:
    """`lead` for "wordcount", closed at the end."""
    with ExitStack() as stack:

        def start(hosts: str, session_timeout: float = LONG_SESSION_SECONDS) -> ZooKeeperRecordStore:
            store = lead("wordcount", hosts=hosts, session_timeout=session_timeout)
            stack.callback(store.close)
            return store

        yield start


Lead = Callable[..., ZooKeeperRecordStore]


@pytest.fixture
def session_at() -> Iterator[Callable[[str], ZooKeeperSession]]:
    with ExitStack() as stack:

        def connect(hosts: str) -> ZooKeeperSession:
            session = ZooKeeperSession.connect(hosts, who="the tests", session_timeout=LONG_SESSION_SECONDS)
            stack.callback(session.close)
            return session

        yield connect


SessionAt = Callable[[str], ZooKeeperSession]


def _numbered(seq: int) -> CoordinatorRecord:
    """A record with a blob."""
    return CoordinatorRecord(
        1, seq=seq, metadata={seq: {"lines": f"{seq}" * 5_000}}, cursors={"lines": Cursors().updated({"a.txt": seq})}
    )


def _record_at(session: ZooKeeperSession) -> CoordinatorRecord | None:
    stored = session.retry_within_lease(lambda: load(session, TopologyPaths(f"{session.chroot}/trident/wordcount")))
    return None if stored is None else stored.record


def _commit(session: ZooKeeperSession, steps: Sequence[Step]) -> None:
    session.retry_within_lease(lambda: session.commit(list(steps)))


def _await_refusal(store: ZooKeeperRecordStore) -> None:
    """Return when ``store`` says that no commit may start."""
    never = threading.Event()
    until = monotonic() + PATIENCE_SECONDS
    while monotonic() < until:
        try:
            store.ensure_leading()
        except CoordinationLost:
            return
        never.wait(0.01)
    raise AssertionError("it would still let commits start")


def test_a_leader_outlives_the_kill_of_each_server_in_turn_and_nothing_is_lost(
    servers: Ensemble, chroot: str, leading: Lead, session_at: SessionAt
) -> None:
    """One of them is the one it is connected to, and one the leader of the servers."""
    store = leading(f"{servers.hosts}/{chroot}")
    store.write(_numbered(0))
    killed = []
    for victim in (servers.leader(), *servers.followers()):
        killed.append(victim)
        servers.kill(victim)
        store.write(_numbered(len(killed)))
        store.ensure_leading()
        servers.start_one(victim)
        servers.await_quorum()
        assert _record_at(session_at(f"{servers.host(victim)}/{chroot}")) == _numbered(len(killed))
    assert sorted(killed) == [0, 1, 2]
    assert (store.epoch, store.read()) == (1, _numbered(3))


def test_without_a_majority_no_commit_starts_and_with_it_the_same_leadership_goes_on(
    servers: Ensemble, chroot: str, leading: Lead
) -> None:
    store = leading(f"{servers.hosts}/{chroot}")
    store.write(_numbered(1))
    store.ensure_leading()
    lost = [servers.leader(), servers.followers()[0]]
    for index in lost:
        servers.kill(index)
    _await_refusal(store)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(store.write, _numbered(2))
        servers.start()
        writing.result(LONG_SESSION_SECONDS)
    store.ensure_leading()
    assert (store.epoch, store.read()) == (1, _numbered(2))


def test_without_a_majority_a_leader_ends_by_name_at_its_deadline(
    servers: Ensemble, chroot: str, leading: Lead
) -> None:
    store = leading(f"{servers.hosts}/{chroot}", SHORT_SESSION_SECONDS)
    store.write(_numbered(1))
    for index in (servers.leader(), servers.followers()[0]):
        servers.kill(index)
    begun = monotonic()
    with pytest.raises(CoordinationLost, match=r"'wordcount': ZooKeeper at .* has not answered for .* start the topo"):
        store.write(_numbered(2))
    assert monotonic() - begun < SHORT_SESSION_SECONDS + 1
    with pytest.raises(CoordinationLost):
        store.ensure_leading()
    servers.start()
    servers.await_quorum()
    again = leading(f"{servers.hosts}/{chroot}")
    assert again.epoch == 2
    assert again.read() in (_numbered(1), _numbered(2))  # nobody knows of a write that was not answered


def test_what_was_acknowledged_is_there_after_all_servers_were_killed_at_once(
    servers: Ensemble, chroot: str, leading: Lead
) -> None:
    store = leading(f"{servers.hosts}/{chroot}", SHORT_SESSION_SECONDS)
    for seq in range(20):
        store.write(_numbered(seq))
    servers.stop()
    store.close()  # in vain: the next leader waits until the servers give it up
    servers.start()
    servers.await_quorum()
    again = leading(f"{servers.hosts}/{chroot}")
    assert (again.epoch, again.identity, again.read()) == (2, store.identity, _numbered(19))


def test_nothing_is_decided_from_what_a_lagging_server_has(
    servers: Ensemble, chroot: str, leading: Lead, session_at: SessionAt
) -> None:
    lagging = servers.followers()[0]
    rest = ",".join(servers.host(index) for index in range(3) if index != lagging)
    store = leading(f"{rest}/{chroot}")
    session = session_at(f"{servers.host(lagging)}/{chroot}")
    record = TopologyPaths(f"{session.chroot}/trident/wordcount").record
    store.write(_numbered(0))
    with ThreadPoolExecutor(1) as pool:
        for last in range(BEHIND, 3 * BEHIND + 1, BEHIND):
            [seen] = session.retry_within_lease(lambda: session.read(record))
            assert seen is not None
            servers.pause(lagging)
            for seq in range(last - BEHIND + 1, last + 1):
                store.write(_numbered(seq))
            reading = pool.submit(session.retry_within_lease, lambda: session.read(record))
            _await_sent(session)
            servers.resume(lagging)
            [found] = reading.result(PATIENCE_SECONDS)
            assert found is not None
            assert found.version == last
            assert _record_at(session) == _numbered(last)
            with pytest.raises(Conflict):
                _commit(session, [Put(record, b"decided from what is no longer so", seen.version)])
    assert store.read() == _numbered(3 * BEHIND)


def _await_sent(session: ZooKeeperSession) -> None:
    """Return when a request is under way, which is the first thing that a server finds when it goes on."""
    never = threading.Event()
    until = monotonic() + PATIENCE_SECONDS
    while not session._client._pending:
        assert monotonic() < until
        never.wait(0.001)


@pytest.mark.parametrize("nodes", [1, 1_500])
def test_the_largest_request_that_may_be_sent_is_taken_by_every_server(
    servers: Ensemble, chroot: str, session_at: SessionAt, nodes: int
) -> None:
    for index in range(3):
        _commit_the_largest(session_at(f"{servers.host(index)}/{chroot}"), nodes)


def _commit_the_largest(session: ZooKeeperSession, nodes: int) -> None:
    session.retry_within_lease(lambda: session.ensure_path(session.chroot))
    paths = [f"{session.chroot}/{number:05}" for number in range(nodes)]
    rest = REQUEST_BYTES_MAX - sum(len(path) + STEP_OVERHEAD_BYTES for path in paths)
    steps = [Create(path, b"") for path in paths[:-1]]
    with pytest.raises(MetadataError, match="the tests: one write of 1,032,193 bytes is above the 1,032,192"):
        _commit(session, [*steps, Create(paths[-1], b"x" * (rest + 1))])
    _commit(session, [*steps, Create(paths[-1], b"x" * rest)])
    [found] = session.retry_within_lease(lambda: session.read(paths[-1]))
    assert found is not None
    assert len(found.data) == rest
    _commit(session, [Remove(path, ANY_VERSION) for path in paths])
