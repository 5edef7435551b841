"""Leading a topology on a real server: what only happens with connections, sessions and processes that fail."""

from __future__ import annotations

import logging
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from time import monotonic
from typing import ClassVar

import pytest
from attrs import evolve

from coordinators.backends.zookeeper import record_store
from coordinators.backends.zookeeper import session as session_module
from coordinators.backends.zookeeper.administration import _reset_steps, describe, list_topologies, reset
from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
from coordinators.backends.zookeeper.leadership import lead
from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore, load
from coordinators.backends.zookeeper.session import Conflict, ZooKeeperSession
from coordinators.backends.zookeeper.znodes import (
    ANY_VERSION,
    REQUEST_BYTES_MAX,
    Check,
    Create,
    Put,
    Remove,
    Step,
    TopologyPaths,
)
from coordinators.record.record import CoordinatorRecord, EncodedRecord, encode
from coordinators.record.store import TopologyIdentity
from coordinators.values.cursors import Cursors
from coordinators.values.errors import ConfigError, CoordinationLost, FencedError, MetadataError
from tests.servers.zookeeper_proxy import CuttingProxy

pytestmark = pytest.mark.zookeeper

PATIENCE_SECONDS = 20.0
SHORT_SESSION_SECONDS = 3.0
"""Two seconds without an answer end a leadership: long enough for a busy machine, short enough to wait for."""


@pytest.fixture
def proxy(zookeeper_server: EmbeddedZooKeeper) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(zookeeper_server.port)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    yield proxy
    proxy.close()
    thread.join(PATIENCE_SECONDS)


@pytest.fixture
def leading() -> Iterator[Callable[..., ZooKeeperRecordStore]]:
    """`lead` for "wordcount", closed at the end."""
    with ExitStack() as stack:

        def start(hosts: str, *, session_timeout: float = 30.0, wait: float | None = None) -> ZooKeeperRecordStore:
            store = lead("wordcount", hosts=hosts, session_timeout=session_timeout, wait=wait)
            stack.callback(store.close)
            return store

        yield start


Lead = Callable[..., ZooKeeperRecordStore]


@contextmanager
def _admin(hosts: str) -> Iterator[tuple[ZooKeeperSession, TopologyPaths]]:
    session = ZooKeeperSession.connect(hosts, who="the tests", session_timeout=30.0)
    try:
        yield session, TopologyPaths(f"{session.chroot}/trident/wordcount")
    finally:
        session.close()


def _via(proxy: CuttingProxy, hosts: str) -> str:
    return f"127.0.0.1:{proxy.port}/{hosts.partition('/')[2]}"


def _record_version(hosts: str) -> int:
    with _admin(hosts) as (session, paths):
        [node] = session.retry_within_lease(lambda: session.read(paths.record))
        assert node is not None
        return node.version


def _await_end_of_leader(hosts: str) -> None:
    """Return when the servers have given up the leader's session."""
    with _admin(hosts) as (session, paths):
        until = monotonic() + PATIENCE_SECONDS
        changed = threading.Event()
        while True:
            changed.clear()
            node = session.retry_within_lease(lambda: session.watch(paths.leader, lambda _: changed.set()))
            if node is None:
                return
            assert changed.wait(until - monotonic()), "the leader's session did not expire"


def _stopped_leading(store: ZooKeeperRecordStore, *, within: float) -> CoordinationLost:
    """The error by which ``store`` says so, by its own clock."""
    never = threading.Event()
    until = monotonic() + within
    while monotonic() < until:
        try:
            store.ensure_leading()
        except CoordinationLost as error:
            return error
        never.wait(0.01)
    raise AssertionError(f"it still leads after {within} s")


# --- one leader at a time ---------------------------------------------------------------------------------------------


def test_a_second_leader_is_refused_by_name_while_the_first_lives(zookeeper: str, leading: Lead) -> None:
    first = leading(zookeeper)
    with pytest.raises(FencedError) as refused:
        leading(zookeeper, wait=0.2)
    assert "'wordcount' is led by" in str(refused.value)
    assert f"pid {os.getpid()} on host {socket.gethostname()}" in str(refused.value)
    assert "stop that process" in str(refused.value)
    first.write(CoordinatorRecord(1))


def test_a_second_leader_waits_and_takes_over_when_the_first_closes(
    zookeeper: str, leading: Lead, caplog: pytest.LogCaptureFixture
) -> None:
    first = leading(zookeeper)
    first.write(CoordinatorRecord(1, seq=1))
    is_waiting = threading.Event()

    class Announced(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            is_waiting.set()

    handler = Announced(logging.WARNING)
    logging.getLogger("coordinators.status.candidate").addHandler(handler)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(leading, zookeeper, wait=PATIENCE_SECONDS)
        assert is_waiting.wait(PATIENCE_SECONDS)
        first.close()
        store = second.result(PATIENCE_SECONDS)
    logging.getLogger("coordinators.status.candidate").removeHandler(handler)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([warning for warning in warnings if "waiting" in warning]) == 1
    assert f"pid {os.getpid()} on host" in next(warning for warning in warnings if "waiting" in warning)
    assert (store.epoch, store.read()) == (2, CoordinatorRecord(1, seq=1))


def test_leaders_that_start_at_once_lead_one_after_the_other(zookeeper: str) -> None:
    def lead_shortly(_: int) -> tuple[int, str, bool]:
        store = lead("wordcount", hosts=zookeeper, session_timeout=30.0)
        try:
            before = store.read()
            store.write(CoordinatorRecord(store.epoch, seq=store.epoch))
            return store.epoch, store.identity.uuid, before is None or before.seq == store.epoch - 1
        finally:
            store.close()

    with ThreadPoolExecutor(4) as pool:
        led = list(pool.map(lead_shortly, range(4)))
    assert sorted(epoch for epoch, _, _ in led) == [1, 2, 3, 4]
    assert len({uuid for _, uuid, _ in led}) == 1
    assert all(went_on for _, _, went_on in led)


def test_topologies_of_other_names_and_roots_do_not_meet(zookeeper: str) -> None:
    with ExitStack() as stack:
        stores = [
            lead(name, hosts=zookeeper, root=root)
            for name, root in (("a", "/one"), ("b", "/one"), ("a", "/two/deeper"))
        ]
        for store in stores:
            stack.callback(store.close)
        assert [store.epoch for store in stores] == [1, 1, 1]
        assert len({store.identity.uuid for store in stores}) == 3


def test_a_chroot_that_does_not_exist_is_made(zookeeper: str, leading: Lead) -> None:
    leading(f"{zookeeper}/team/apps").write(CoordinatorRecord(1))
    assert list_topologies(hosts=f"{zookeeper}/team/apps") == ["wordcount"]


def test_a_heartbeat_finds_a_newer_leader_without_a_write(zookeeper: str, leading: Lead) -> None:
    older = leading(zookeeper, session_timeout=SHORT_SESSION_SECONDS)
    with _admin(zookeeper) as (session, paths):
        session.retry_within_lease(lambda: session.commit([Remove(paths.leader, ANY_VERSION)]))
    leading(zookeeper)
    with pytest.raises(FencedError, match="epoch 2"):
        _beat_until_it_raises(older)


def _beat_until_it_raises(store: ZooKeeperRecordStore) -> None:
    until = monotonic() + PATIENCE_SECONDS
    while monotonic() < until:
        store.heartbeat()


def _write_until_it_raises(store: ZooKeeperRecordStore) -> None:
    for seq in count():
        store.write(CoordinatorRecord(store.epoch, seq=seq))


# --- what the session itself guards -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", [Check("/node", 0), Put("/node", b"", 0), Remove("/node", 0), Create("/node", b""), Check("/nothing", 0)]
)
def test_a_condition_that_does_not_hold_is_raised_and_undoes_the_rest(zookeeper: str, step: Step) -> None:
    with _admin(zookeeper) as (session, _):
        root = session.chroot
        step = evolve(step, path=root + step.path)
        session.retry_within_lease(lambda: session.commit([Create(f"{root}/node", b"first")]))
        session.retry_within_lease(lambda: session.commit([Put(f"{root}/node", b"second", 0)]))
        with pytest.raises(Conflict) as conflict:
            session.retry_within_lease(lambda: session.commit([Create(f"{root}/other", b""), step]))
        assert conflict.value.path == step.path
        node, other = session.retry_within_lease(lambda: session.read(f"{root}/node", f"{root}/other"))
        assert (node and node.data, other) == (b"second", None)


def test_an_address_that_is_none_is_refused() -> None:
    for hosts in ("", "host:port", "host:99999999"):
        with pytest.raises(ConfigError, match="is no ZooKeeper address"):
            lead("wordcount", hosts=hosts)


def test_a_server_out_of_reach_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CONNECT_SECONDS_MIN", 1.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]}"
        started = monotonic()
        with pytest.raises(CoordinationLost, match=f"'wordcount': no ZooKeeper answered at {hosts} within 1.5 s"):
            lead("wordcount", hosts=hosts, session_timeout=1.0)
        assert monotonic() - started < 15


def test_a_session_shorter_than_asked_for_is_what_counts(zookeeper_server: EmbeddedZooKeeper) -> None:
    for asked, granted in ((0.5, 1.0), (7.0, 7.0), (1_000.0, 300.0)):
        session = ZooKeeperSession.connect(zookeeper_server.hosts, who="the tests", session_timeout=asked)
        session.close()
        assert session.seconds == pytest.approx(granted)


def test_kazoo_never_logs_below_info_even_if_everything_else_does(zookeeper: str) -> None:
    root = logging.getLogger()
    before, kazoo_before = root.level, logging.getLogger("kazoo").level
    root.setLevel(logging.DEBUG)
    logging.getLogger("kazoo").setLevel(logging.NOTSET)
    try:
        with _admin(zookeeper):
            assert not logging.getLogger("kazoo.client").isEnabledFor(logging.DEBUG)
    finally:
        root.setLevel(before)
        logging.getLogger("kazoo").setLevel(kazoo_before)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_may_not_use_the_leadership(zookeeper: str, leading: Lead) -> None:
    store = leading(zookeeper)
    child = os.fork()
    if child == 0:
        refused = 0
        for use in (store.ensure_leading, store.read, lambda: store.write(CoordinatorRecord(1))):
            try:
                use()
            except CoordinationLost as error:
                refused += "was forked" in str(error)
        store.close()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    store.write(CoordinatorRecord(1))


# --- answers that don't come ------------------------------------------------------------------------------------------


def test_a_write_whose_reply_is_lost_is_found_and_not_written_twice(
    zookeeper: str, proxy: CuttingProxy, leading: Lead
) -> None:
    store = leading(_via(proxy, zookeeper))
    store.write(CoordinatorRecord(1, seq=1))
    proxy.lose_reply = 0
    store.write(CoordinatorRecord(1, seq=2))
    assert (proxy.lost, store.writes) == (1, 2)
    assert _record_version(zookeeper) == 1
    store.write(CoordinatorRecord(1, seq=3))
    assert store.read() == CoordinatorRecord(1, seq=3)


def test_a_write_that_was_lost_on_the_way_is_written_again(zookeeper: str, proxy: CuttingProxy, leading: Lead) -> None:
    store = leading(_via(proxy, zookeeper))
    store.write(CoordinatorRecord(1, seq=1))
    proxy.lose_request = True
    store.write(CoordinatorRecord(1, seq=2))
    assert (proxy.lost, store.writes) == (1, 3)
    assert _record_version(zookeeper) == 1
    assert store.read() == CoordinatorRecord(1, seq=2)


def test_any_reply_on_the_road_to_leadership_may_be_lost(zookeeper: str, proxy: CuttingProxy) -> None:
    lead("unharmed", hosts=_via(proxy, zookeeper)).close()
    replies = proxy.replies
    assert replies > 10
    for number in range(replies - 1):  # the last one answers the end of the session
        proxy.lose_reply = number
        store = lead(f"topology-{number}", hosts=_via(proxy, zookeeper), wait=5.0)
        store.write(CoordinatorRecord(1))
        described = describe(f"topology-{number}", hosts=zookeeper)
        store.close()
        assert (proxy.lost, store.epoch) == (number + 1, 1)
        assert (described.identity, described.record) == (store.identity, CoordinatorRecord(1))


def test_any_atomic_write_on_the_road_to_leadership_may_be_lost_on_its_way(
    zookeeper: str, proxy: CuttingProxy, leading: Lead
) -> None:
    for epoch in (1, 2):  # the identity's at first, then the claim's
        proxy.lose_request = True
        store = leading(_via(proxy, zookeeper), wait=5.0)
        store.close()
        assert (proxy.lost, store.epoch) == (epoch, epoch)


def test_a_connection_that_is_cut_and_comes_back_is_not_the_end(
    zookeeper: str, proxy: CuttingProxy, leading: Lead
) -> None:
    store = leading(_via(proxy, zookeeper))
    for seq in range(5):
        proxy.cut()
        store.write(CoordinatorRecord(1, seq=seq))
    store.ensure_leading()
    assert store.read() == CoordinatorRecord(1, seq=4)


def test_a_server_that_takes_a_connection_and_never_answers_it_is_soon_tried_again(
    zookeeper: str, proxy: CuttingProxy, leading: Lead
) -> None:
    store = leading(_via(proxy, zookeeper), session_timeout=12.0)
    store.write(CoordinatorRecord(1, seq=1))
    proxy.swallow_connections = 2  # as a server that is just starting may do
    proxy.cut()
    store.write(CoordinatorRecord(1, seq=2))
    assert proxy.swallow_connections == 0
    assert store.read() == CoordinatorRecord(1, seq=2)


def test_a_leader_cut_off_stops_by_its_own_clock_before_another_can_lead(
    zookeeper: str, proxy: CuttingProxy, leading: Lead
) -> None:
    older = leading(_via(proxy, zookeeper), session_timeout=SHORT_SESSION_SECONDS)
    older.write(CoordinatorRecord(1, seq=1))
    proxy.muted.set()
    _stopped_leading(older, within=SHORT_SESSION_SECONDS)
    _await_end_of_leader(zookeeper)
    newer = leading(zookeeper)
    proxy.muted.clear()
    proxy.cut()
    with pytest.raises((CoordinationLost, FencedError)) as ended:
        older.write(CoordinatorRecord(1, seq=2))
    if isinstance(ended.value, CoordinationLost):
        verdict = older.explain_loss(ended.value)
        assert isinstance(verdict, FencedError)
        assert "epoch 2 (pid" in str(verdict)
    with pytest.raises((CoordinationLost, FencedError)):
        older.ensure_leading()
    assert newer.read() == CoordinatorRecord(1, seq=1)
    newer.write(CoordinatorRecord(2, seq=2))


def test_a_session_that_is_lost_while_nobody_else_leads_stays_what_it_is(
    zookeeper: str, proxy: CuttingProxy, leading: Lead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "CLOSE_SECONDS_MAX", 0.5)
    monkeypatch.setattr(record_store, "JUDGE_SECONDS", 1.0)
    store = leading(_via(proxy, zookeeper), session_timeout=SHORT_SESSION_SECONDS)
    lost = CoordinationLost("lost")
    assert store.explain_loss(lost) is lost
    proxy.muted.set()
    assert store.explain_loss(lost) is lost


def test_an_expired_session_is_lost_for_good_although_the_client_gets_another(
    zookeeper: str, proxy: CuttingProxy, leading: Lead
) -> None:
    store = leading(_via(proxy, zookeeper), session_timeout=6.0)
    client = store._session._client
    states: queue.SimpleQueue[str] = queue.SimpleQueue()
    client.add_listener(states.put)
    # Whoever knows the id and password of a session may take it over and end it, while its owner looks for a server.
    proxy.swallow_connections = 1
    twin = type(client)(zookeeper.partition("/")[0], client_id=client.client_id)
    twin.start(PATIENCE_SECONDS)
    twin.stop()
    twin.close()
    seen = [states.get(timeout=PATIENCE_SECONDS)]
    while seen[-2:] != ["LOST", "CONNECTED"]:
        seen.append(states.get(timeout=PATIENCE_SECONDS))
    uses: list[Callable[[], object]] = [store.ensure_leading, store.read, lambda: store.write(CoordinatorRecord(1))]
    for use in uses:
        with pytest.raises(CoordinationLost, match=r"has expired; .* start the topology again"):
            use()


# --- servers that stop, die and come back -----------------------------------------------------------------------------


def test_a_server_that_stands_still_ends_leadership_in_bounded_time(
    zookeeper_server: EmbeddedZooKeeper, zookeeper: str, leading: Lead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "CLOSE_SECONDS_MAX", 0.5)
    store = leading(zookeeper, session_timeout=SHORT_SESSION_SECONDS)
    os.kill(zookeeper_server.pid, signal.SIGSTOP)
    try:
        started = monotonic()
        with pytest.raises(CoordinationLost, match=r"'wordcount': ZooKeeper at .* has not answered"):
            _write_until_it_raises(store)  # the server's threads stop one after the other, and may answer once more
        with pytest.raises(CoordinationLost):
            store.ensure_leading()
        assert monotonic() - started < SHORT_SESSION_SECONDS
        store.close()
        assert monotonic() - started < 15
    finally:
        os.kill(zookeeper_server.pid, signal.SIGCONT)
    found = leading(zookeeper).read()
    assert found is None or found.seq in (store.writes - 2, store.writes - 1)  # nobody knows of the last one sent


@pytest.mark.long
def test_a_server_killed_for_good_ends_leadership_and_nothing_is_lost(
    tmp_path: Path, leading: Lead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "CLOSE_SECONDS_MAX", 0.5)
    record = CoordinatorRecord(1, seq=1, cursors={"lines": Cursors().updated({"a.txt": 7})})
    with EmbeddedZooKeeper.running(tmp_path) as server:
        store = leading(server.hosts, session_timeout=SHORT_SESSION_SECONDS)
        store.write(record)
        identity = store.identity
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(CoordinationLost):
            store.write(evolve(record, seq=2))
    with EmbeddedZooKeeper.running(tmp_path) as server:
        again = leading(server.hosts)
        assert (again.epoch, again.identity, again.read()) == (2, identity, record)


# --- limits and damage ------------------------------------------------------------------------------------------------


def test_a_record_above_the_limit_is_refused_before_it_is_sent(zookeeper: str, leading: Lead) -> None:
    store = leading(zookeeper)
    store.write(CoordinatorRecord(1, seq=1))
    large = {7: {"lines": "x" * REQUEST_BYTES_MAX, "words": "short"}}
    with pytest.raises(MetadataError, match=r"'wordcount'.*largest are metadata\.lines\.7 \(1,0\d\d,\d\d\d bytes\)"):
        store.write(CoordinatorRecord(1, seq=2, metadata=large))
    store.ensure_leading()
    assert store.read() == CoordinatorRecord(1, seq=1)
    store.write(CoordinatorRecord(1, seq=2))


def test_a_record_just_below_the_limit_is_taken(zookeeper: str, leading: Lead) -> None:
    store = leading(zookeeper)
    record = CoordinatorRecord(1, metadata={7: {"lines": "x" * (REQUEST_BYTES_MAX - 2_000)}})
    store.write(record)
    assert store.read() == record


def test_many_cursors_cost_a_write_only_what_moved(zookeeper: str, leading: Lead) -> None:
    store = leading(zookeeper)
    cursors = Cursors().updated({f"{number:05}": "x" * 40 for number in range(6_000)})
    more = cursors.updated({f"{number:05}": "y" * 40 for number in range(6_000, 24_000)})
    store.write(CoordinatorRecord(1, cursors={"lines": cursors}))
    store.write(CoordinatorRecord(1, seq=1, cursors={"lines": more}))
    moved = more.updated({"00001": "z"})
    store.write(CoordinatorRecord(1, seq=2, cursors={"lines": moved}))  # 1.4 MB in all, of which 64 KiB moved
    assert store.read() == CoordinatorRecord(1, seq=2, cursors={"lines": moved})


def test_blobs_that_a_write_left_which_did_not_come_to_its_end_are_removed_by_the_next_leader(
    zookeeper: str, leading: Lead
) -> None:
    record = CoordinatorRecord(1, metadata={1: {"lines": "x" * 5_000}})
    first = leading(zookeeper)
    first.write(record)
    first.close()
    with _admin(zookeeper) as (session, paths):
        blobs = session.retry_within_lease(lambda: session.children(paths.blobs))
        session.retry_within_lease(lambda: session.commit([Create(paths.blob("metadata.lines.2=0"), b"left")]))
        assert leading(zookeeper).read() == record
        assert session.retry_within_lease(lambda: session.children(paths.blobs)) == blobs


def test_a_blob_that_is_there_already_is_as_good_as_a_new_one(zookeeper: str, leading: Lead) -> None:
    store = leading(zookeeper)
    store.write(CoordinatorRecord(1))
    record = CoordinatorRecord(1, seq=1, metadata={1: {"lines": "x" * 5_000, "words": "y" * 5_000}})
    with _admin(zookeeper) as (session, paths):
        left = [Create(paths.blob(name), text.encode()) for name, text in encode(record).blobs.items()]
        session.retry_within_lease(lambda: session.commit([*left]))
    store.write(record)
    assert store.read() == record


class OrphansGoLate(ZooKeeperRecordStore):
    """Has what removes orphans land when this store has seen that a blob is there, once for each."""

    __slots__ = ()
    gone: ClassVar[set[str]] = set()

    def _replace(self, encoded: EncodedRecord, steps: Sequence[Step]) -> None:
        seen = {step.path for step in steps if isinstance(step, Check) and step.path.startswith(self._paths.blobs)}
        if late := [Remove(path, ANY_VERSION) for path in seen - self.gone]:
            self.gone.update(seen)
            self._session.retry_within_lease(lambda: self._session.commit([*late]))
        super()._replace(encoded, steps)


@pytest.mark.parametrize("size", [5_000, REQUEST_BYTES_MAX // 2], ids=["with the head", "ahead of it"])
def test_a_blob_that_is_removed_between_being_seen_and_being_named_is_stored_again(
    zookeeper: str, leading: Lead, size: int
) -> None:
    store = leading(zookeeper)
    store.write(CoordinatorRecord(1))
    record = CoordinatorRecord(1, seq=1, metadata={1: {name: name * size for name in "abc"}})
    with _admin(zookeeper) as (session, paths):
        name, text = next(iter(encode(record).blobs.items()))
        session.retry_within_lease(lambda: session.commit([Create(paths.blob(name), text.encode())]))
    store.__class__ = OrphansGoLate
    OrphansGoLate.gone.clear()
    store.write(record)
    assert OrphansGoLate.gone
    assert store.read() == record


@pytest.mark.parametrize("node", ["identity", "epoch"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"\xff", b'{"uuid": 1, "incarnation": 1}'])
def test_a_small_node_that_cannot_be_read_stops_the_start(
    zookeeper: str, leading: Lead, node: str, damage: bytes
) -> None:
    leading(zookeeper).close()
    with _admin(zookeeper) as (session, paths):
        path = f"{paths.base}/{node}"
        session.retry_within_lease(lambda: session.commit([Put(path, damage, ANY_VERSION)]))
        with pytest.raises(MetadataError, match=f"{node} cannot be read"):
            leading(zookeeper)


def test_an_identity_that_is_gone_is_not_made_anew(zookeeper: str, leading: Lead) -> None:
    leading(zookeeper).close()
    with _admin(zookeeper) as (session, paths):
        session.retry_within_lease(lambda: session.commit([Remove(paths.identity, ANY_VERSION)]))
    with pytest.raises(MetadataError, match="identity is gone"):
        leading(zookeeper)


def test_a_blob_that_is_gone_or_damaged_is_found(zookeeper: str, leading: Lead) -> None:
    store = leading(zookeeper)
    store.write(CoordinatorRecord(1, metadata={1: {"lines": "x" * 5_000}}))
    with _admin(zookeeper) as (session, paths):
        [blob] = [f"{paths.blobs}/{name}" for name in session.retry_within_lease(lambda: session.children(paths.blobs))]
        session.retry_within_lease(lambda: session.commit([Put(blob, b"y", ANY_VERSION)]))
        with pytest.raises(MetadataError, match=r"'metadata\.lines\.1=\w+' is damaged"):
            store.read()
        session.retry_within_lease(lambda: session.commit([Remove(blob, ANY_VERSION)]))
        with pytest.raises(MetadataError, match=r"'metadata\.lines\.1=\w+' is missing"):
            store.read()


def test_a_record_changed_by_hand_is_not_written_over(zookeeper: str, leading: Lead) -> None:
    store = leading(zookeeper)
    store.write(CoordinatorRecord(1, seq=1))
    with _admin(zookeeper) as (session, paths):
        session.retry_within_lease(lambda: session.commit([Put(paths.record, b"mine", ANY_VERSION)]))
    for _ in range(2):
        with pytest.raises(FencedError, match="record was changed from outside"):
            store.write(CoordinatorRecord(1, seq=2))


def test_a_record_that_cannot_be_read_is_not_written_over(zookeeper: str, leading: Lead) -> None:
    leading(zookeeper).close()
    with _admin(zookeeper) as (session, paths):
        session.retry_within_lease(lambda: session.commit([Create(paths.record, b"not a record")]))
    with pytest.raises(MetadataError, match="cannot be read"):
        leading(zookeeper).write(CoordinatorRecord(2))


# --- operators --------------------------------------------------------------------------------------------------------


def test_a_topology_is_described_while_it_runs_and_afterwards(zookeeper: str, leading: Lead) -> None:
    store = leading(zookeeper)
    fresh = describe("wordcount", hosts=zookeeper)
    assert (fresh.identity, fresh.record) == (store.identity, None)
    assert fresh.leader is not None
    assert (fresh.epoch, fresh.leader.pid) == (1, os.getpid())
    store.write(CoordinatorRecord(1, seq=5))
    store.close()
    after = describe("wordcount", hosts=zookeeper)
    assert (after.epoch, after.leader, after.record) == (1, None, CoordinatorRecord(1, seq=5))


def test_a_record_is_read_whole_while_its_leader_writes_one_after_the_other(zookeeper: str, leading: Lead) -> None:
    store = leading(zookeeper)
    store.write(_numbered(0))

    def read_ten() -> dict[int, CoordinatorRecord]:
        found: dict[int, CoordinatorRecord] = {}
        with _admin(zookeeper) as (session, paths):
            while len(found) < 10:
                stored = session.retry_within_lease(lambda: load(session, paths))
                assert stored is not None
                found[stored.record.seq] = stored.record
        return found

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read_ten)
        until = monotonic() + PATIENCE_SECONDS
        while not reader.done() and monotonic() < until:
            store.write(_numbered(store.writes))
        assert reader.result(PATIENCE_SECONDS) == {seq: _numbered(seq) for seq in reader.result()}


def _numbered(seq: int) -> CoordinatorRecord:
    """A record of two blobs that differ from those of any other number; one of them comes and goes."""
    metadata = {seq: {"lines": f"{seq}" * 5_000}} if seq % 2 else {}
    return CoordinatorRecord(1, seq=seq, metadata=metadata, cursors={"lines": Cursors().updated({"a": seq})})


def test_a_topology_that_does_not_exist_is_told_from_those_that_do(zookeeper: str, leading: Lead) -> None:
    with pytest.raises(ConfigError, match=r"no topology 'wordcoutn' under /trident .* there is none at all"):
        describe("wordcoutn", hosts=zookeeper)
    leading(zookeeper)
    for ask in (describe, reset):
        with pytest.raises(ConfigError, match=r"no topology 'wordcoutn' under /trident .* there is wordcount"):
            ask("wordcoutn", hosts=zookeeper)
    assert list_topologies(hosts=zookeeper) == ["wordcount"]
    assert list_topologies(hosts=zookeeper, root="/elsewhere") == []


def test_a_reset_makes_a_new_incarnation_of_the_same_topology(zookeeper: str, leading: Lead) -> None:
    before = leading(zookeeper)
    before.write(CoordinatorRecord(1, metadata={1: {"lines": "x" * 5_000}}))
    before.close()
    identity = reset("wordcount", hosts=zookeeper)
    assert identity == evolve(before.identity, incarnation=2)
    described = describe("wordcount", hosts=zookeeper)
    assert (described.identity, described.record) == (identity, None)
    after = leading(zookeeper)
    assert (after.identity, after.epoch, after.read()) == (identity, 2, None)
    after.write(CoordinatorRecord(2, metadata={1: {"lines": "y" * 5_000}}))


def test_a_topology_that_is_led_is_not_reset(zookeeper: str, leading: Lead) -> None:
    store = leading(zookeeper)
    store.write(CoordinatorRecord(1, seq=1))
    with pytest.raises(FencedError, match=f"was not reset: pid {os.getpid()} .* leads it"):
        reset("wordcount", hosts=zookeeper)
    assert store.read() == CoordinatorRecord(1, seq=1)
    assert describe("wordcount", hosts=zookeeper).identity == store.identity


@pytest.mark.parametrize("was_led_before", [True, False])
def test_a_reset_is_refused_where_somebody_led_and_ended_since_it_looked(
    zookeeper: str, leading: Lead, was_led_before: bool
) -> None:
    with _admin(zookeeper) as (session, paths):
        if was_led_before:
            leading(zookeeper).close()
        after = TopologyIdentity("wordcount", "the same", 2)
        steps = session.retry_within_lease(lambda: _reset_steps(session, paths, after))
        short = leading(zookeeper)
        short.write(CoordinatorRecord(short.epoch))
        short.close()
        with pytest.raises(Conflict):
            session.retry_within_lease(lambda: session.commit(steps))
        assert leading(zookeeper).read() == CoordinatorRecord(short.epoch)


def test_a_record_that_cannot_be_read_can_be_reset(zookeeper: str, leading: Lead) -> None:
    leading(zookeeper).close()
    with _admin(zookeeper) as (session, paths):
        session.retry_within_lease(lambda: session.commit([Create(paths.record, b"damage")]))
    assert reset("wordcount", hosts=zookeeper).incarnation == 2
    assert leading(zookeeper).read() is None


def test_nothing_that_was_sent_before_a_reset_lands_after_it(zookeeper: str, leading: Lead) -> None:
    older = leading(zookeeper)
    with _admin(zookeeper) as (session, paths):
        session.retry_within_lease(lambda: session.commit([Remove(paths.leader, ANY_VERSION)]))
    reset("wordcount", hosts=zookeeper)
    with pytest.raises(FencedError, match="epoch 1 is over"):
        older.write(CoordinatorRecord(1, seq=1))
    assert describe("wordcount", hosts=zookeeper).record is None


def test_a_reset_whose_reply_is_lost_takes_nothing_from_who_leads_meanwhile(
    zookeeper: str, proxy: CuttingProxy, leading: Lead
) -> None:
    def lead_meanwhile() -> None:
        store = leading(zookeeper)
        store.write(CoordinatorRecord(store.epoch))
        store.close()
        led.append(store.identity.incarnation)

    leading(zookeeper).close()
    assert reset("wordcount", hosts=_via(proxy, zookeeper)).incarnation == 2
    proxy.on_lost = lead_meanwhile
    incarnations_led = []
    for number in range(proxy.replies - 1):  # the last one answers the end of the session
        led: list[int] = []
        proxy.lose_reply = number
        assert reset("wordcount", hosts=_via(proxy, zookeeper)).incarnation == 3 + number
        described = describe("wordcount", hosts=zookeeper)
        assert described.identity.incarnation == 3 + number
        assert (described.record is not None) == (led == [3 + number])
        incarnations_led.append(led[0] - number)
    assert set(incarnations_led) == {2, 3}  # some led before the reset was carried out, some after it
