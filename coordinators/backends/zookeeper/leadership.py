"""Leading a topology: how a process claims an epoch, and with it the right to write the record.

A leader takes two things in one atomic step: the ephemeral ``leader`` node, and the next number in the ``epoch`` node.
The first keeps two drivers from competing and names the process to wait for. Only the second is a proof: every write
checks the version of the epoch's node. So late writes of an earlier leader are always refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar
from uuid import uuid4

from coordinators.backends.zookeeper.access import ANONYMOUS, ZooKeeperAccess
from coordinators.backends.zookeeper.acl_check import ensure_guarded, guard
from coordinators.backends.zookeeper.connecting import ROUNDS_PER_SESSION
from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore
from coordinators.backends.zookeeper.session import CONNECT_SECONDS_MIN, Conflict, ZooKeeperSession
from coordinators.backends.zookeeper.znodes import (
    Create,
    EpochClaim,
    Put,
    StoredIdentity,
    TopologyPaths,
    parse,
    to_bytes,
)
from coordinators.record.store import TopologyIdentity
from coordinators.status.candidate import Candidate, Leader, Withdrawn
from coordinators.values.errors import CoordinationLost, MetadataError, located

log = logging.getLogger(__name__)

T = TypeVar("T")

WAIT_BEYOND_SESSION_SECONDS = 5.0
STANDBY_RETRY_SECONDS = 1.0


def lead(
    topology: str,
    *,
    hosts: str,
    root: str = "/trident",
    session_timeout: float = 10.0,
    wait: float | None = None,
    access: ZooKeeperAccess = ANONYMOUS,
    address: str = "",
) -> ZooKeeperRecordStore:
    """Lead ``topology`` from now on; every earlier leadership is fenced.

    Args:
        topology: its name.
        hosts: ``"host:port,…/chroot"``; a chroot that does not exist is created.
        root: the node under which every topology has its own.
        session_timeout: seconds after which the servers end the session of a silent leader.
        wait: seconds for an earlier leader to end; None: ``session_timeout`` and 5 more, after which a killed one is
            gone.
        access: credentials and TLS.
        address: the URL of this process's HTTP server; stored in the leader's node.

    Raises:
        FencedError: another process leads, and did not end.
        CoordinationLost: no server answers.
        ConfigError: ``hosts`` is no connection string, access is denied, or anyone may change nodes of the topology.
        MetadataError: the topology's stored data cannot be read.
    """
    patience = session_timeout + WAIT_BEYOND_SESSION_SECONDS if wait is None else wait
    who = f"topology {topology!r}"
    with located(topology=topology):
        session = ZooKeeperSession.connect(hosts, who=who, session_timeout=session_timeout, access=access)
        return _elected(Candidate(topology, patience, address=address), session, root)


def ensure_answering(topology: str, hosts: str, session_timeout: float, access: ZooKeeperAccess) -> None:
    """Return if a server of ``hosts`` answers and grants access; called before long operations.

    Raises:
        CoordinationLost: none answers.
        ConfigError: as `lead`.
    """
    who = f"topology {topology!r}"
    with located(topology=topology):
        ZooKeeperSession.connect(
            hosts, who=who, session_timeout=session_timeout, access=access, patience=CONNECT_SECONDS_MIN
        ).close()


def stand_by(
    candidate: Candidate,
    take_over: Callable[[ZooKeeperRecordStore], T],
    *,
    hosts: str,
    root: str = "/trident",
    session_timeout: float = 10.0,
    access: ZooKeeperAccess = ANONYMOUS,
) -> T | None:
    """Lead as soon as no other process does, without time limit; return None if ``candidate`` was withdrawn before.

    If ZooKeeper can't be reached for a while, a standby loses nothing: it continues to wait in a new session. It does
    the same if it was elected and loses its leadership before ``take_over`` has returned. Then ``take_over`` is called
    again with another store; it closes the first one. Its result is returned.

    Raises:
        CoordinationLost: no server answered the first time.
        ConfigError, MetadataError: as `lead`.
    """
    who = f"topology {candidate.topology!r}"
    connect = partial(ZooKeeperSession.connect, hosts, who=who, session_timeout=session_timeout, access=access)
    session = connect()
    with suppress(Withdrawn):
        while True:
            try:
                return take_over(_elected(candidate, session, root))
            except CoordinationLost as error:
                log.warning("topology %s: standing by, but: %s", candidate.topology, error)
            session = _reconnected(candidate, connect)
    return None


def _reconnected(candidate: Candidate, connect: Callable[[], ZooKeeperSession]) -> ZooKeeperSession:
    while True:
        candidate.wait(STANDBY_RETRY_SECONDS)
        try:
            return connect()
        except CoordinationLost as error:
            log.warning("topology %s: standing by, but: %s", candidate.topology, error)


def _elected(candidate: Candidate, session: ZooKeeperSession, root: str) -> ZooKeeperRecordStore:
    topology = candidate.topology
    paths = TopologyPaths(f"{session.chroot}{root}/{topology}")
    try:
        session.retry_within_lease(lambda: _ensure_identity(session, paths))
        ensure_guarded(session, paths)
        claim, version = _take_over(session, paths, candidate)
        if session.access.is_own_server:
            guard(session, paths)
        # Read only now: an operator can reset a topology until a process leads it.
        identity = session.retry_within_lease(lambda: _existing_identity(session, paths, topology))
        [claimed] = session.retry_within_lease(lambda: session.read(paths.epoch))
    except BaseException:
        session.close()
        raise
    log.info("topology %s: pid %d leads with epoch %d", topology, claim.pid, claim.epoch)
    return ZooKeeperRecordStore(
        identity,
        claim.epoch,
        epoch_version=version,
        session=session,
        paths=paths,
        claimed_at=claimed.modified if claimed else 0,
    )


def read_identity(session: ZooKeeperSession, paths: TopologyPaths, topology: str) -> TopologyIdentity | None:
    """Return the identity of the topology of this name; None if it was never started."""
    [node] = session.read(paths.identity)
    if node is None:
        return None
    stored = parse(StoredIdentity, node.text, paths.identity)
    return TopologyIdentity(topology, stored.uuid, stored.incarnation)


def _ensure_identity(session: ZooKeeperSession, paths: TopologyPaths) -> None:
    session.ensure_path(paths.blobs)
    session.ensure_path(paths.wishes)
    identity, epoch = session.read(paths.identity, paths.epoch)
    if identity is not None:
        return
    if epoch is not None:
        raise _identity_is_gone(paths)
    try:
        session.commit([Create(paths.identity, to_bytes(StoredIdentity(str(uuid4()), 1)))])
    except Conflict:
        log.debug("%s was created by another process at the same moment", paths.identity)


def _existing_identity(session: ZooKeeperSession, paths: TopologyPaths, topology: str) -> TopologyIdentity:
    identity = read_identity(session, paths, topology)
    if identity is None:
        raise _identity_is_gone(paths)
    return identity


def _identity_is_gone(paths: TopologyPaths) -> MetadataError:
    return MetadataError(
        f"{paths.identity} is gone, although the topology was led before; without it the topology's states can't be "
        f"distinguished from those of another. To fix this: restore it from a backup, or give the topology a new name"
    )


def _take_over(session: ZooKeeperSession, paths: TopologyPaths, candidate: Candidate) -> tuple[EpochClaim, int]:
    """Return the new epoch claim and the version of its node, once no earlier leader is left."""
    leader = Leader(address=candidate.address)
    owner = str(uuid4())
    while True:
        claimed = session.retry_within_lease(lambda: _claim(session, paths, leader, owner))
        if claimed is not None:
            return claimed
        look(candidate, session, paths.leader)
        # Wait with a limit, so that a session which waits for days regularly proves that it lives.
        candidate.wait(session.seconds / ROUNDS_PER_SESSION)


def look(candidate: Candidate, session: ZooKeeperSession, path: str) -> None:
    """Show ``candidate`` the current leader, and wake it when the leader changes."""
    node = session.retry_within_lease(lambda: session.watch(path, candidate.wake))
    if node is None:  # it was there a moment ago
        candidate.wake()
    else:
        candidate.saw(parse(Leader, node.text, path))


def _claim(
    session: ZooKeeperSession, paths: TopologyPaths, leader: Leader, owner: str
) -> tuple[EpochClaim, int] | None:
    """Become the leader and take the next epoch, in one step; return None if another process leads."""
    [node] = session.read(paths.epoch)
    last = parse(EpochClaim, node.text, paths.epoch) if node else None
    if node and last and last.owner == owner:  # an earlier try came through, its answer was lost
        return last, node.version
    claim = EpochClaim(last.epoch + 1 if last else 1, owner, leader.host, leader.pid)
    data = to_bytes(claim)
    take_epoch = Put(paths.epoch, data, node.version) if node else Create(paths.epoch, data)
    try:
        session.commit([Create(paths.leader, to_bytes(leader), ephemeral=True), take_epoch])
    except Conflict:
        return None
    return claim, node.version + 1 if node else 0
