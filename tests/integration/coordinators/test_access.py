"""Logins, certificates and access control lists, against servers that know them."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic
from uuid import uuid4

import pytest
from attrs import frozen
from kazoo.security import ANYONE_ID_UNSAFE, make_acl

from coordinators.backends.zookeeper.access import ANONYMOUS, ZooKeeperAccess, ZooKeeperTLS
from coordinators.backends.zookeeper.administration import describe, list_topologies, reset
from coordinators.backends.zookeeper.leadership import lead
from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore
from coordinators.backends.zookeeper.session import CONNECT_SECONDS_MIN, ZooKeeperSession
from coordinators.backends.zookeeper.znodes import REQUEST_BYTES_MAX, STEP_OVERHEAD_BYTES, Create, Step, TopologyPaths
from coordinators.record.record import CoordinatorRecord, encode
from coordinators.values.errors import ConfigError, CoordinationLost, MetadataError
from tests.servers.certificates import Authority
from tests.servers.zookeeper import Ensemble, ServerTLS
from trident_py.cli import main
from trident_py.interfaces.config import TridentConfig

pytestmark = pytest.mark.zookeeper

PASSWORD = "c4nary-of-the-login"  # noqa: S105
KEY_PASSWORD = "c4nary-of-the-key"  # noqa: S105
ANNA = ZooKeeperAccess(login=f"anna:{PASSWORD}")
RECORD = CoordinatorRecord(1, seq=1, metadata={1: {"lines": "x" * 5_000}})
[BLOB] = (TopologyPaths("").blob(name).rpartition("/")[2] for name in encode(RECORD).blobs)


@frozen
class Secured:
    """Three servers that are also addressed by TLS, and what it takes to do so."""

    servers: Ensemble
    authority: Authority
    tls: ZooKeeperTLS
    tls_with_certificate: ZooKeeperTLS


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority.named("authority", directory)
    ca_file = authority.own.cert
    client = authority.vouch("client", password=KEY_PASSWORD)
    server = authority.vouch("server", alternative="IP:127.0.0.1")
    tls = ServerTLS(key_store=server.key_store, trust_store=ca_file, client_auth="want")
    servers = Ensemble.of(directory / "zookeeper", tls=tls)
    try:
        servers.start()
        servers.await_quorum()
        yield Secured(
            servers,
            authority,
            ZooKeeperTLS(ca_file=ca_file),
            ZooKeeperTLS(ca_file=ca_file, cert_file=client.cert, key_file=client.key, key_password=KEY_PASSWORD),
        )
    finally:
        servers.stop()


@pytest.fixture
def chroot() -> str:
    return str(uuid4())


@pytest.fixture
def hosts(secured: Secured, chroot: str) -> str:
    return f"{secured.servers.hosts}/{chroot}"


@pytest.fixture
def secure_hosts(secured: Secured, chroot: str) -> str:
    return f"{secured.servers.secure_hosts}/{chroot}"


@pytest.fixture
def leading() -> Iterator[Callable[..., ZooKeeperRecordStore]]:
    """`lead` for "wordcount", closed at the end."""
    with ExitStack() as stack:

        def start(hosts: str, access: ZooKeeperAccess, session_timeout: float = 10.0) -> ZooKeeperRecordStore:
            store = lead("wordcount", hosts=hosts, access=access, session_timeout=session_timeout)
            stack.callback(store.close)
            return store

        yield start


Lead = Callable[..., ZooKeeperRecordStore]


@pytest.fixture
def session(secured: Secured, chroot: str) -> Iterator[ZooKeeperSession]:
    """Anna's, below the chroot of this test.

    At the servers' leader, which holds a change of an access control list against a write only once it has carried it
    out itself; a follower may have answered by then.
    """
    hosts = f"{secured.servers.host(secured.servers.leader())}/{chroot}"
    session = ZooKeeperSession.connect(hosts, who="the tests", session_timeout=30.0, access=ANNA)
    yield session
    session.close()


def _nodes(session: ZooKeeperSession, path: str) -> Iterator[str]:
    yield path
    for name in session._client.get_children(path):
        yield from _nodes(session, f"{path}/{name}")


# --- who may do what --------------------------------------------------------------------------------------------------


def test_with_a_login_every_node_is_its_users_alone(session: ZooKeeperSession, hosts: str, leading: Lead) -> None:
    store = leading(hosts, ANNA)
    store.write(RECORD)
    nodes = list(_nodes(session, session.chroot))
    assert {path.rpartition("/")[2] for path in nodes} >= {"trident", "leader", "record", "blobs", BLOB}
    for path in nodes:
        [acl] = session._client.get_acls(path)[0]
        assert (acl.acl_list, acl.id.scheme, acl.id.id.partition(":")[0]) == (["ALL"], "digest", "anna"), path


def test_a_certificate_is_an_identity_too(secured: Secured, secure_hosts: str, hosts: str, leading: Lead) -> None:
    access = ZooKeeperAccess(tls=secured.tls_with_certificate)
    leading(secure_hosts, access).write(RECORD)
    assert describe("wordcount", hosts=secure_hosts, access=access).record == RECORD
    for stranger in (ANONYMOUS, ANNA):
        with pytest.raises(ConfigError, match="NoAuthError"):
            describe("wordcount", hosts=hosts, access=stranger)


def test_a_login_over_tls_leads(secured: Secured, secure_hosts: str, hosts: str, leading: Lead) -> None:
    leading(secure_hosts, ZooKeeperAccess(login=ANNA.login, tls=secured.tls)).write(RECORD)
    assert describe("wordcount", hosts=hosts, access=ANNA).record == RECORD


@pytest.mark.parametrize(
    ("access", "whose"),
    [
        (ZooKeeperAccess(login="anna:another"), "the given login or certificate doesn't allow it"),
        (ZooKeeperAccess(login=f"ben:{PASSWORD}"), "the given login or certificate doesn't allow it"),
        (ANONYMOUS, "no login was given"),
    ],
)
def test_who_is_not_let_in_is_told_at_the_start(hosts: str, leading: Lead, access: ZooKeeperAccess, whose: str) -> None:
    leading(hosts, ANNA).close()
    uses: list[Callable[[], object]] = [
        lambda: lead("wordcount", hosts=hosts, access=access),
        lambda: lead("another", hosts=hosts, access=access),
        lambda: describe("wordcount", hosts=hosts, access=access),
        lambda: reset("wordcount", hosts=hosts, access=access),
        lambda: list_topologies(hosts=hosts, access=access),
    ]
    for use in uses:
        with pytest.raises(ConfigError, match=rf"refused /.*/trident.*NoAuthError.*{whose}.* To fix this: check"):
            use()
    assert describe("wordcount", hosts=hosts, access=ANNA).record is None


def test_nodes_that_anyone_may_change_are_refused_with_the_way_out(
    session: ZooKeeperSession, hosts: str, leading: Lead, chroot: str
) -> None:
    before = leading(hosts, ANONYMOUS)
    before.write(RECORD)
    before.close()
    with pytest.raises(ConfigError) as refused:
        leading(hosts, ANNA)
    assert f"anyone may change 8 of its nodes: /{chroot}/trident (cdwa), " in str(refused.value)
    assert f"`setAcl -R /{chroot}/trident auth::cdrwa`" in str(refused.value)
    for path in _nodes(session, f"/{chroot}/trident"):
        session._client.set_acls(path, [make_acl("auth", "", all=True)])
    assert leading(hosts, ANNA).read() == RECORD


@pytest.mark.parametrize("right", ["create", "delete", "write", "admin"])
@pytest.mark.parametrize(
    "node", ["", "/wordcount", "/wordcount/epoch", "/wordcount/wishes", f"/wordcount/blobs/{BLOB}"]
)
def test_each_right_of_anyone_on_each_node_is_one_too_many(
    session: ZooKeeperSession, hosts: str, leading: Lead, node: str, right: str
) -> None:
    store = leading(hosts, ANNA)
    store.write(RECORD)
    store.close()
    path = f"{session.chroot}/trident{node}"
    world = make_acl(ANYONE_ID_UNSAFE.scheme, ANYONE_ID_UNSAFE.id, **{right: True})
    session._client.set_acls(path, [make_acl("auth", "", all=True), world])
    with pytest.raises(ConfigError, match=rf"anyone may change 1 of its nodes: {path} \({right[0]}\)\. "):
        leading(hosts, ANNA)


def test_that_anyone_may_read_is_no_hindrance(session: ZooKeeperSession, hosts: str, leading: Lead) -> None:
    store = leading(hosts, ANNA)
    store.close()
    world = make_acl(ANYONE_ID_UNSAFE.scheme, ANYONE_ID_UNSAFE.id, read=True)
    session._client.set_acls(f"{session.chroot}/trident/wordcount", [make_acl("auth", "", all=True), world])
    leading(hosts, ANNA).write(RECORD)


@pytest.mark.parametrize("node", ["record", "epoch", "blobs"])
def test_a_write_that_is_denied_in_mid_run_ends_it_by_name_and_changes_nothing(
    session: ZooKeeperSession, hosts: str, leading: Lead, node: str
) -> None:
    store = leading(hosts, ANNA)
    store.write(RECORD)
    before = {path: session._client.get(path)[0] for path in _nodes(session, session.chroot)}
    path = f"{session.chroot}/trident/wordcount/{node}"
    rights = {"admin": True} if node == "epoch" else {"admin": True, "read": True}
    session._client.set_acls(path, [make_acl("auth", "", **rights)])
    with pytest.raises(CoordinationLost, match=rf"'wordcount': ZooKeeper at .* refused {path}.*: NoAuthError"):
        store.write(CoordinatorRecord(1, seq=2, metadata={2: {"lines": "y" * 5_000}}))
    session._client.set_acls(path, [make_acl("auth", "", all=True)])
    assert {path: session._client.get(path)[0] for path in _nodes(session, session.chroot)} == before


def test_the_largest_request_is_taken_with_its_access_control_lists(secured: Secured, chroot: str) -> None:
    """The servers keep the user's name in the list of each node."""
    access = ZooKeeperAccess(login=f"{'anna' * 50}:{PASSWORD}")
    for index in range(3):
        hosts = f"{secured.servers.host(index)}/{chroot}"
        session = ZooKeeperSession.connect(hosts, who="the tests", session_timeout=30.0, access=access)
        try:
            _commit_the_largest(session, str(index))
        finally:
            session.close()


def _commit_the_largest(session: ZooKeeperSession, name: str) -> None:
    base = f"{session.chroot}/{name}"
    session.retry_within_lease(lambda: session.ensure_path(base))
    paths = [f"{base}/{number:05}" for number in range(1_000)]
    per_node = STEP_OVERHEAD_BYTES + session.access.acl_bytes
    rest = REQUEST_BYTES_MAX - sum(len(path) + per_node for path in paths)
    steps: list[Step] = [Create(path, b"") for path in paths[:-1]]
    with pytest.raises(MetadataError, match="is above the"):
        session.retry_within_lease(lambda: session.commit([*steps, Create(paths[-1], b"x" * (rest + 1))]))
    session.retry_within_lease(lambda: session.commit([*steps, Create(paths[-1], b"x" * rest)]))
    assert len(session.retry_within_lease(lambda: session.children(base))) == 1_000


# --- connections ------------------------------------------------------------------------------------------------------


def _refusal(hosts: str, access: ZooKeeperAccess) -> str:
    """Why there is no connection, which is told before the patience for a silent server ends."""
    begun = monotonic()
    with pytest.raises(ConfigError, match="no TLS with ZooKeeper at") as refused:
        lead("wordcount", hosts=hosts, access=access)
    assert monotonic() - begun < CONNECT_SECONDS_MIN
    return str(refused.value)


@pytest.mark.filterwarnings(
    "ignore:.*unclosed.*SSLSocket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_servers_that_cannot_prove_who_they_are_are_told_at_once(
    secured: Secured, secure_hosts: str, hosts: str
) -> None:
    others = ZooKeeperTLS(ca_file=Authority.named("others", secured.authority.directory).own.cert)
    assert "unable to get local issuer certificate" in _refusal(secure_hosts, ZooKeeperAccess(tls=others))
    by_name = secure_hosts.replace("127.0.0.1", "localhost")
    assert "Hostname mismatch" in _refusal(by_name, ZooKeeperAccess(tls=secured.tls))
    assert "check that this is the servers' TLS port" in _refusal(hosts, ZooKeeperAccess(tls=secured.tls))


def test_one_server_that_does_not_answer_is_no_hindrance(secured: Secured, chroot: str, leading: Lead) -> None:
    servers, access = secured.servers, ZooKeeperAccess(login=ANNA.login, tls=secured.tls)
    down = servers.followers()[0]
    servers.kill(down)
    try:
        leading(f"{servers.secure_hosts}/{chroot}", access).write(RECORD)
    finally:
        servers.start()
        servers.await_quorum()


def test_a_certificate_that_the_servers_do_not_trust_is_told_at_once(secured: Secured, secure_hosts: str) -> None:
    stranger = Authority.named("strangers", secured.authority.directory).vouch("stranger")
    tls = ZooKeeperTLS(ca_file=secured.tls.ca_file, cert_file=stranger.cert, key_file=stranger.key)
    assert "accept this process's certificate" in _refusal(secure_hosts, ZooKeeperAccess(tls=tls))


# --- what is said, and what is not ------------------------------------------------------------------------------------


def test_without_a_login_there_is_one_warning(hosts: str, leading: Lead, caplog: pytest.LogCaptureFixture) -> None:
    leading(hosts, ANONYMOUS).close()
    [warning] = [record.getMessage() for record in caplog.records if record.name.startswith("coordinators")]
    assert warning.startswith(f"topology 'wordcount': anyone who can reach ZooKeeper at {hosts} can change or remove")
    assert "docs/how-to/zookeeper.md" in warning


def test_no_password_is_in_any_log_node_error_or_repr(
    secured: Secured,
    secure_hosts: str,
    hosts: str,
    session: ZooKeeperSession,
    leading: Lead,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = TridentConfig(
        zookeeper=secure_hosts, zookeeper_auth=f"anna:{PASSWORD}", zookeeper_tls=secured.tls_with_certificate
    )
    said = [repr(config), str(config), repr(config.zookeeper_access), f"{config.zookeeper_auth}"]
    with caplog.at_level(logging.DEBUG), caplog.at_level(5, "kazoo"), caplog.at_level(5, "kazoo.client"):
        store = leading(secure_hosts, config.zookeeper_access)
        logging.getLogger("kazoo").setLevel(5)  # who turns it on again afterwards
        store.write(RECORD)
        store._session._client._connection._socket.shutdown(socket.SHUT_RDWR)  # so that it logs in once more
        store.write(CoordinatorRecord(1, seq=2))
        said += [repr(store._session), str(describe("wordcount", hosts=hosts, access=ANNA))]
        with pytest.raises(ConfigError) as refused:
            lead("wordcount", hosts=hosts, access=ZooKeeperAccess(login=f"ben:{PASSWORD}"))
    said += [str(refused.value), repr(refused.value), caplog.text]
    said += [f"{path} {session._client.get(path)[0]!r}" for path in _nodes(session, session.chroot)]
    said += [str(session._client.get_acls(path)) for path in _nodes(session, session.chroot)]
    assert "leads with epoch 1" in caplog.text
    for password in (PASSWORD, KEY_PASSWORD):
        assert [text for text in said if password in text] == []


# --- the command line -------------------------------------------------------------------------------------------------


def test_the_commands_take_the_same_settings(
    secured: Secured,
    secure_hosts: str,
    leading: Lead,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tls = secured.tls_with_certificate
    leading(secure_hosts, ZooKeeperAccess(login=ANNA.login, tls=tls)).close()
    where = ["--zookeeper", secure_hosts, "--zookeeper-ca", str(tls.ca_file)]
    assert main(["status", *where]) == 1
    assert "NoAuthError" in capsys.readouterr().err
    monkeypatch.setenv("TRIDENT_ZOOKEEPER_AUTH", f"anna:{PASSWORD}")
    assert main(["status", "wordcount", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "wordcount"
    monkeypatch.delenv("TRIDENT_ZOOKEEPER_AUTH")
    where += ["--zookeeper-cert", str(tls.cert_file), "--zookeeper-key", str(tls.key_file)]
    assert main(["status", *where]) == 1
    assert "an encrypted key needs its password" in capsys.readouterr().err
    monkeypatch.setenv("TRIDENT_ZOOKEEPER_KEY_PASSWORD", KEY_PASSWORD)
    assert main(["reset", "wordcount", "--yes", *where]) == 0
    assert "starts over, as incarnation 2" in capsys.readouterr().out
    main(["doctor", *where])
    assert f"{secure_hosts} answers and knows 1 topologies" in capsys.readouterr().out
