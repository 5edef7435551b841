"""Operators' queries and changes of topologies, from outside the leading process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from attrs import evolve

from coordinators.backends.zookeeper.access import ANONYMOUS, ZooKeeperAccess
from coordinators.backends.zookeeper.leadership import read_identity
from coordinators.backends.zookeeper.record_store import load, wishes_of
from coordinators.backends.zookeeper.session import Conflict, ZooKeeperSession
from coordinators.backends.zookeeper.znodes import (
    ANY_VERSION,
    Create,
    EpochClaim,
    Put,
    Remove,
    Step,
    StoredIdentity,
    TopologyPaths,
    parse,
    to_bytes,
)
from coordinators.record.store import TopologyIdentity
from coordinators.record.wishes import Wish
from coordinators.status.candidate import Leader
from coordinators.status.description import TopologyDescription
from coordinators.values.errors import ConfigError, FencedError, located

SESSION_SECONDS = 10.0


def list_topologies(*, hosts: str, root: str = "/trident", access: ZooKeeperAccess = ANONYMOUS) -> list[str]:
    """Return the names of all topologies that were ever started under ``root``, sorted.

    Raises:
        CoordinationLost: no server answers.
        ConfigError: ``hosts`` is no connection string, or access is denied.
    """
    with _session(hosts, access, f"topologies under {root}") as session:
        return session.retry_within_lease(lambda: _names(session, root))


def describe(
    topology: str, *, hosts: str, root: str = "/trident", access: ZooKeeperAccess = ANONYMOUS
) -> TopologyDescription:
    """Return the stored data of ``topology``, also while it runs.

    Raises:
        ConfigError: there is no such topology; names the existing ones.
        MetadataError: some of the data cannot be read.
        CoordinationLost: no server answers.
    """
    with located(topology=topology), _session(hosts, access, f"topology {topology!r}") as session:
        return session.retry_within_lease(lambda: _describe(session, topology, root))


def reset(
    topology: str, *, hosts: str, root: str = "/trident", access: ZooKeeperAccess = ANONYMOUS
) -> TopologyIdentity:
    """Delete the record of ``topology``, so that its next start begins a new incarnation; return its new identity.

    The record need not be readable. The epoch's number stays, so tokens in sinks stay in order. Its node is written, so
    late writes of an earlier leader are refused.

    Raises:
        FencedError: a process leads the topology.
        ConfigError: there is no such topology.
        MetadataError: its identity or epoch cannot be read.
        CoordinationLost: no server answers.
    """
    with located(topology=topology), _session(hosts, access, f"topology {topology!r}") as session:
        paths = _paths(session, topology, root)
        before = session.retry_within_lease(lambda: _known_identity(session, topology, root))
        after = evolve(before, incarnation=before.incarnation + 1)

        def reset_once() -> None:
            if _known_identity(session, topology, root) != after:
                session.commit(_reset_steps(session, paths, after))

        try:
            session.retry_within_lease(reset_once)
        except Conflict as conflict:
            [node] = session.retry_within_lease(lambda: session.read(paths.leader))
            who = f"{parse(Leader, node.text, paths.leader)} leads it" if node else f"{conflict.path} has just changed"
            raise FencedError(
                f"topology {topology!r} was not reset: {who}. To fix this: stop it first, then try again"
            ) from conflict
        return after


def leave_wish(
    topology: str, wish: Wish, *, hosts: str, root: str = "/trident", access: ZooKeeperAccess = ANONYMOUS
) -> None:
    """Store ``wish`` for the current or next leader of ``topology``.

    Raises:
        ConfigError: there is no such topology.
        CoordinationLost: no server answers.
    """
    with located(topology=topology), _session(hosts, access, f"topology {topology!r}") as session:
        paths = _paths(session, topology, root)
        session.retry_within_lease(lambda: _known_identity(session, topology, root))
        session.retry_within_lease(lambda: session.ensure_path(paths.wishes))
        tried: list[Wish] = []

        def leave() -> None:
            if tried and _came_through(session, paths, wish):
                return
            tried.append(wish)
            session.commit([Create(paths.wish(wish.id), wish.text.encode())])

        try:
            session.retry_within_lease(leave)
        except Conflict as conflict:  # sent twice, and the first request was carried out late
            if conflict.path != paths.wish(wish.id):
                raise


def _came_through(session: ZooKeeperSession, paths: TopologyPaths, wish: Wish) -> bool:
    if session.read(paths.wish(wish.id)) != [None]:
        return True
    stored = load(session, paths)
    return stored is not None and any(outcome.wish == wish.id for outcome in stored.record.outcomes)


@contextmanager
def _session(hosts: str, access: ZooKeeperAccess, who: str) -> Iterator[ZooKeeperSession]:
    session = ZooKeeperSession.connect(hosts, who=who, session_timeout=SESSION_SECONDS, access=access)
    try:
        yield session
    finally:
        session.close()


def _paths(session: ZooKeeperSession, topology: str, root: str) -> TopologyPaths:
    return TopologyPaths(f"{session.chroot}{root}/{topology}")


def _names(session: ZooKeeperSession, root: str) -> list[str]:
    names = session.children(f"{session.chroot}{root}")
    nodes = session.read(*(_paths(session, name, root).identity for name in names)) if names else []
    return [name for name, node in zip(names, nodes, strict=True) if node]


def _known_identity(session: ZooKeeperSession, topology: str, root: str) -> TopologyIdentity:
    identity = read_identity(session, _paths(session, topology, root), topology)
    if identity is None:
        known = ", ".join(_names(session, root)) or "none at all"
        raise ConfigError(f"there is no topology {topology!r} under {root} at {session.hosts}; there is {known}")
    return identity


def _describe(session: ZooKeeperSession, topology: str, root: str) -> TopologyDescription:
    paths = _paths(session, topology, root)
    identity = _known_identity(session, topology, root)
    claim, leader = session.read(paths.epoch, paths.leader)
    wishes = wishes_of(session, paths, session.children(paths.wishes))  # before the record, which has outcomes
    stored = load(session, paths)
    return TopologyDescription(
        identity=identity,
        epoch=parse(EpochClaim, claim.text, paths.epoch).epoch if claim else 0,
        leader=parse(Leader, leader.text, paths.leader) if leader else None,
        record=stored.record if stored else None,
        wishes=tuple(wishes),
    )


def _reset_steps(session: ZooKeeperSession, paths: TopologyPaths, after: TopologyIdentity) -> list[Step]:
    identity, epoch, record = session.read(paths.identity, paths.epoch, paths.record)
    us = Leader()
    steps: list[Step] = [
        Create(paths.leader, to_bytes(us), ephemeral=True),  # refused if a process leads
        Remove(paths.leader, ANY_VERSION),
    ]
    if identity:
        steps.append(Put(paths.identity, to_bytes(StoredIdentity(after.uuid, after.incarnation)), identity.version))
    if epoch:
        last = parse(EpochClaim, epoch.text, paths.epoch)
        claim = EpochClaim(last.epoch, str(uuid4()), us.host, us.pid)
        steps.append(Put(paths.epoch, to_bytes(claim), epoch.version))
    else:
        steps += _still_absent(paths.epoch)
    steps += [Remove(paths.record, record.version)] if record else _still_absent(paths.record)
    steps.extend(Remove(f"{paths.blobs}/{name}", ANY_VERSION) for name in session.children(paths.blobs))
    steps.extend(Remove(paths.wish(wish), ANY_VERSION) for wish in session.children(paths.wishes))
    return steps


def _still_absent(path: str) -> list[Step]:
    """Return steps that are refused if a process has led meanwhile, even briefly, and so created the missing node."""
    return [Create(path, b""), Remove(path, ANY_VERSION)]
