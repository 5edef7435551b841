"""Sessions with ZooKeeper: the only module that talks to the servers. A session never claims more than it knows.

Only this module imports kazoo. `ZooKeeperSession` is one session, and `Lease` tells how long it is surely
alive. The library kazoo leaves five problems to its users; each is solved in one place here:

- A failed transaction returns its errors instead of raising them: `ZooKeeperSession.commit` raises.
- A request without an answer may have been carried out or not: `Unanswered`. Every user of `retry_within_lease` reads
  the state before it sends the request again.
- Requests made while disconnected are queued, and sent whenever the network recovers. Here no request is sent while
  disconnected; one that is sent late anyway carries the versions of the epoch and the record.
- A client without connection never learns that its session expired. The check `ZooKeeperSession.ensure_alive` uses
  the local clock: two thirds of the session after the last answered request was sent.
- An expired session is silently replaced by a new one. Here its end is final, and the topology is started again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

from attrs import define, field
from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import ANYONE_ID_UNSAFE, CREATOR_ALL_ACL, Permissions
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from coordinators.backends.zookeeper.access import ANONYMOUS, ZooKeeperAccess, ZooKeeperTLS
from coordinators.backends.zookeeper.connecting import (
    ROUNDS_PER_SESSION,
    Tries,
    ensure_resolvable,
    quiet_kazoo,
    servers_of,
)
from coordinators.backends.zookeeper.znodes import Step, Znode, ensure_fits
from coordinators.values.errors import ConfigError, CoordinationLost

log = logging.getLogger(__name__)


LEASE_OF_SESSION = 2 / 3


@define
class Lease:
    """A lease that begins when the last answered request was sent. All moments are of one monotonic clock, in seconds.

    Attributes:
        seconds: how long the session lives on the servers without a request.
        answered: when the last answered request was sent.
    """

    seconds: float
    answered: float

    @property
    def ends_at(self) -> float:
        """The moment from which another leader may exist."""
        return self.answered + self.seconds * LEASE_OF_SESSION

    def silence(self, now: float) -> float:
        """Return how long no request was answered."""
        return now - self.answered

    def patience(self, now: float) -> float:
        """Return how long to wait for an answer: until the lease ends, but at least for one round."""
        return max(self.ends_at - now, self.seconds / ROUNDS_PER_SESSION)

    def is_round_due(self, now: float) -> bool:
        """Return true if a round should be sent, so that the lease doesn't end while nothing is written."""
        return self.silence(now) >= self.seconds / ROUNDS_PER_SESSION


T = TypeVar("T")

CONNECT_SECONDS_MIN = 5.0
CLOSE_SECONDS_MAX = 3.0


RIGHTS = {"c": Permissions.CREATE, "d": Permissions.DELETE, "w": Permissions.WRITE, "a": Permissions.ADMIN}
"""The rights to change a node or its children, with ZooKeeper's letters for them."""


class Unanswered(Exception):
    """The connection failed before the answer arrived: the request was carried out, will be later, or never."""


class Conflict(Exception):
    """An atomic write was refused, and changed nothing, because ``path`` is not as one of its steps expects."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


UNANSWERED_RETRY = Retrying(
    retry=retry_if_exception_type(Unanswered),
    wait=wait_random_exponential(multiplier=0.02, max=0.2),
    stop=stop_after_delay(10),
    reraise=True,
)
"""The retry of unanswered requests; `ZooKeeperSession.retry_within_lease` stops it with the lease instead."""

RECONNECT_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.4, "max_delay": 0.5}
"""Unlimited, because the lease is the limit: a thread that waits for the connection stops waiting then."""


# large: one session: all requests share its lease, its end and its errors
@define(eq=False)
class ZooKeeperSession:
    """One session with the servers, from `connect` to its end; never renewed under another id.

    Used by one thread, inside `retry_within_lease`, which limits every wait. Any thread may call `ensure_alive`.

    Attributes:
        who: the user of the session, for messages: "topology 'wordcount'".
        hosts: the servers as the user named them.
        access: credentials and TLS.
    """

    who: str
    hosts: str
    access: ZooKeeperAccess
    _client: Any
    _pid: int = field(factory=os.getpid)
    _lease: Lease = field(factory=lambda: Lease(0.0, monotonic()))
    _patience_ends: float = 0.0
    _ended: str | None = None
    _has_written: bool = False
    _closing: threading.Thread | None = None

    @classmethod
    def connect(
        cls,
        hosts: str,
        *,
        who: str,
        session_timeout: float,
        access: ZooKeeperAccess = ANONYMOUS,
        patience: float | None = None,
    ) -> ZooKeeperSession:
        """Open a session at ``hosts`` (``"host:port,…/chroot"``), within ``patience`` seconds.

        None: ``session_timeout`` seconds, but at least 5.

        Raises:
            ConfigError: ``hosts`` is no connection string, or a server could not prove its identity.
            CoordinationLost: no server answered; or no host has an address, which is raised at once.
        """
        quiet_kazoo()
        client = _client(hosts, session_timeout, access)
        ensure_resolvable(client, who, hosts)
        session = cls(who=who, hosts=hosts, access=access, client=client)
        client.add_listener(session._on_state)
        tries = Tries.of(client)
        client.start_async()
        try:
            seconds = tries.granted(who, hosts, patience or max(session_timeout, CONNECT_SECONDS_MIN))
        except BaseException:
            session._begin_to_close()  # without a session, no caller waits for its end
            raise
        if seconds != session_timeout:
            log.info("%s: asked for a session of %g s, was granted %g s", who, session_timeout, seconds)
        session._lease = Lease(seconds, monotonic())
        return session

    @property
    def seconds(self) -> float:
        """The session timeout that the server granted."""
        return self._lease.seconds

    def another(self, patience: float) -> ZooKeeperSession:
        """Open a new session with the same servers, within ``patience`` seconds.

        Raises:
            CoordinationLost: none of them answers.
        """
        return self.connect(
            self.hosts, who=self.who, session_timeout=self.seconds, access=self.access, patience=patience
        )

    @property
    def chroot(self) -> str:
        """The path above all nodes of this project; kazoo's own chroot can't create itself."""
        path = self.hosts.partition("/")[2].strip("/")
        return f"/{path}" if path else ""

    def retry_within_lease(self, operation: Callable[[], T]) -> T:
        """Return the result of ``operation``.

        It is called again when the connection fails, until the lease has ended. An earlier call may have been carried
        out already, so it must read before it writes.

        Raises:
            CoordinationLost: no answer in time. The session is closed then.
        """
        now = monotonic()
        patience = self._lease.patience(now)
        self._patience_ends = now + patience
        try:
            return UNANSWERED_RETRY.copy(stop=stop_after_delay(patience))(operation)
        except Unanswered as error:
            self._ended = f"{self.who}: ZooKeeper at {self.hosts} has not answered for {self._silence:.1f} s ({error})"
            self._begin_to_close()  # or the session would continue, and hold its nodes, when the servers are back
            raise self._lost() from error

    def read(self, *paths: str) -> list[Znode | None]:
        """Return the current contents of these nodes, None for a missing node; one round."""
        client = self._client
        asked = [(path, lambda path=path: client.get_async(path)) for path in paths]
        answers = self._round((paths[0], lambda: client.sync_async(paths[0])), *asked)
        return [answer and _znode(*answer) for answer in answers[1:]]

    def children(self, path: str) -> list[str]:
        """Return the names of the nodes below ``path``, sorted; none if there is no such node."""
        client = self._client
        sync, ask = (lambda: client.sync_async(path)), (lambda: client.get_children_async(path))
        return sorted(self._round((path, sync), (path, ask))[1] or [])

    def watch_children(self, path: str, changed: Callable[[object], None]) -> list[str]:
        """Return the names of the nodes below ``path``, as `children`; ``changed`` is called as by `watch`."""
        client = self._client
        sync, ask = (lambda: client.sync_async(path)), (lambda: client.get_children_async(path, watch=changed))
        return sorted(self._round((path, sync), (path, ask))[1] or [])

    def open_to_anyone(self, *paths: str) -> dict[str, str]:
        """Return the nodes that anyone at all may change, each with the rights that everyone has, of ``cdwa``."""
        client = self._client
        asked = [(path, lambda path=path: client.get_acls_async(path)) for path in paths]
        answers = self._round((paths[0], lambda: client.sync_async(paths[0])), *asked)
        rights = {path: _rights_of_anyone(answer[0]) for path, answer in zip(paths, answers[1:], strict=True) if answer}
        return {path: letters for path, letters in rights.items() if letters}

    def close_to_others(self, *paths: str) -> None:
        """Restrict these nodes to this identity."""
        self._round(*((path, lambda path=path: self._client.set_acls_async(path, CREATOR_ALL_ACL)) for path in paths))

    def ensure_path(self, path: str) -> None:
        """Create ``path`` and its parents, if missing."""
        self._round((path, lambda: self._client.ensure_path_async(path)))

    def watch(self, path: str, changed: Callable[[object], None]) -> Znode | None:
        """Return the contents of a node, and call ``changed`` once, on another thread, when it may have changed.

        The same ``changed`` may be passed again and again: it is registered once per node.
        """
        [answer] = self._round((path, lambda: self._client.get_async(path, watch=changed)))
        return answer and _znode(*answer)

    def commit(self, steps: list[Step]) -> None:
        """Carry out all of ``steps``, or none.

        Raises:
            Conflict: none was carried out.
            MetadataError: the request is larger than the server accepts; none was sent.
            Unanswered: unknown whether they were carried out; read before sending them again.
        """
        ensure_fits(self.who, steps, self.access.acl_bytes)
        request = self._client.transaction()
        for step in steps:
            step.add_to(request)
        [results] = self._round((steps[0].path, request.commit_async))
        errors = [
            (isinstance(result, RolledBackError | RuntimeInconsistency), step.path, result)
            for step, result in zip(steps, results, strict=True)
            if isinstance(result, Exception)
        ]
        if not errors:
            self._has_written = True
            return
        # the steps before the refused one are marked as rolled back, those after it as not looked at
        _, path, error = min(errors, key=lambda found: found[0])
        if isinstance(error, BadVersionError | NoNodeError | NodeExistsError):
            raise Conflict(path, type(error).__name__)
        raise self._refused(error, path)

    def ensure_alive(self) -> None:
        """Return if, by the local clock, the session can't have ended, and it is connected. No I/O; for any thread.

        Raises:
            CoordinationLost: it may have ended. It is not certain: the next request that ZooKeeper answers proves that
                the session is still alive.
        """
        self._ensure_usable()
        if self._client.state != KazooState.CONNECTED:
            raise CoordinationLost(f"{self.who}: not connected to ZooKeeper at {self.hosts} at the moment")
        if monotonic() >= self._lease.ends_at:
            raise CoordinationLost(
                f"{self.who}: ZooKeeper at {self.hosts} has not answered for {self._silence:.1f} s; "
                f"with a session of {self.seconds:g} s another leader may exist"
            )

    def is_round_due(self) -> bool:
        """Return true if the lease should be renewed, so that it doesn't end while nothing is written."""
        return self._lease.is_round_due(monotonic())

    def close(self) -> None:
        """End the session, and with it every ephemeral node. Never raises, and waits a few seconds at most."""
        if self._pid != os.getpid():
            return
        self._ended = self._ended or f"{self.who}: the ZooKeeper session at {self.hosts} was closed"
        self._begin_to_close().join(CLOSE_SECONDS_MAX)

    @property
    def _silence(self) -> float:
        return self._lease.silence(monotonic())

    def _round(self, *requests: tuple[str, Callable[[], Any]]) -> list[Any]:
        """Send these requests, each with its node, in one round; return their answers, None for a missing node."""
        self._ensure_usable()
        if self._client.state != KazooState.CONNECTED:
            raise Unanswered("not connected")
        sent = monotonic()
        answers = [self._answer(path, pending) for path, pending in [(path, send()) for path, send in requests]]
        self._lease.answered = sent
        return answers

    def _answer(self, path: str, pending: Any) -> Any:
        try:
            return pending.get(timeout=max(0.0, self._patience_ends - monotonic()))
        except NoNodeError:
            return None
        except (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, KazooTimeoutError, RuntimeError) as error:
            # RuntimeError is kazoo's error for answers out of order, after which it drops the connection
            raise Unanswered(type(error).__name__) from error
        except SessionExpiredError as error:
            self._on_state(KazooState.LOST)
            raise self._lost() from error
        except KazooException as error:
            raise self._refused(error, path) from error

    def _ensure_usable(self) -> None:
        if self._pid != os.getpid():
            raise CoordinationLost(
                f"{self.who}: process {os.getpid()} was forked from the leading process {self._pid}; "
                f"only that one may use its ZooKeeper session"
            )
        if self._ended is not None:
            raise self._lost()

    def _lost(self) -> CoordinationLost:
        return CoordinationLost(
            f"{self._ended}; committed transactions are safe. To fix this: start the topology again"
        )

    def _refused(self, error: Exception, path: str) -> ConfigError | CoordinationLost:
        refusal = f"{self.who}: ZooKeeper at {self.hosts} refused {path}: {type(error).__name__} {error}"
        if not isinstance(error, NoAuthError | InvalidACLError | AuthFailedError):
            return CoordinationLost(f"{refusal}. To fix this: check its log and its quotas")
        if self._has_written:  # so we were let in, and it is the node that has changed
            return CoordinationLost(f"{refusal}; its access control list was changed. To fix this: grant access again")
        if self.access.is_own_server:
            return ConfigError(
                f"{refusal}; it belongs to another login. To fix this: put the file `login` back next to its data"
            )
        given = "the given login or certificate doesn't allow it" if self.access.has_identity else "no login was given"
        return ConfigError(
            f"{refusal}; {given}. To fix this: check `zookeeper_auth` (TRIDENT_ZOOKEEPER_AUTH), `zookeeper_tls` and "
            f"the output of `getAcl {path}`"
        )

    def _on_state(self, state: str) -> None:
        # kazoo calls this on its own thread: nothing here may wait for anything
        if state == KazooState.LOST and self._ended is None:
            self._ended = f"{self.who}: the ZooKeeper session at {self.hosts} has expired"

    def _begin_to_close(self) -> threading.Thread:
        # on its own thread, because kazoo waits as long as the session for a server that doesn't answer
        if self._closing is None:
            self._closing = threading.Thread(target=self._close_client, name="zookeeper-close", daemon=True)
            self._closing.start()
        return self._closing

    def _close_client(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception:  # the session ends by itself, and its owner is done with it
            log.info("%s: the ZooKeeper client did not close cleanly", self.who, exc_info=True)


class _ProtectingHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Connects by TLS. kazoo's own handler trusts the system's authorities, and leaks a socket on failure."""

    def __init__(self, tls: ZooKeeperTLS) -> None:
        super().__init__()
        self._tls = tls

    def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **_: Any) -> Any:
        return self._tls.connect(address, hostname, timeout)


def _client(hosts: str, session_timeout: float, access: ZooKeeperAccess) -> Any:
    options: dict[str, Any] = {}
    if access.tls is not None:
        access.tls.ensure_usable()
        options = {"handler": _ProtectingHandler(access.tls), "use_ssl": True}
    if access.login is not None:
        options["auth_data"] = [("digest", access.login.reveal())]
    if access.has_identity:
        # A server that has not accepted this identity refuses such a list. So every created node proves that it has.
        options["default_acl"] = CREATOR_ALL_ACL
    try:
        return KazooClient(
            servers_of(hosts, session_timeout),
            timeout=session_timeout,
            connection_retry=KazooRetry(**RECONNECT_RETRY),
            **options,
        )
    except ValueError as error:
        raise ConfigError(f"{hosts!r} is no ZooKeeper address ({error}); write 'host:port,host:port/path'") from error


def _znode(data: bytes, stat: Any) -> Znode:
    return Znode(data, stat.version, stat.mtime, stat.czxid)


def _rights_of_anyone(acls: list[Any]) -> str:
    granted = [acl.perms for acl in acls if acl.id == ANYONE_ID_UNSAFE]
    return "".join(letter for letter, right in RIGHTS.items() if any(perms & right for perms in granted))
