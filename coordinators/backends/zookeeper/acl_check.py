"""The check of access control lists, before a topology is led: whether other users may change its nodes."""

from __future__ import annotations

import logging

from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.backends.zookeeper.znodes import TopologyPaths
from coordinators.values.errors import ConfigError

log = logging.getLogger(__name__)

SHOWN = 5


def ensure_guarded(session: ZooKeeperSession, paths: TopologyPaths) -> None:
    """Return if only this process's identity may change the nodes at ``paths``; if it has none, log a warning.

    Nodes above the root may be open: a node with children can't be removed, and no data are stored there. At the
    embedded server no node is open after `guard` has run.

    Raises:
        ConfigError: this process has an identity, and some of the existing nodes are open to anyone.
    """
    if session.access.is_own_server:
        return
    if not session.access.has_identity:
        log.warning(
            "%s: anyone who can reach ZooKeeper at %s can change or remove the topology's position. To fix this: set "
            "`zookeeper_auth` (TRIDENT_ZOOKEEPER_AUTH) or a certificate, see docs/how-to/zookeeper.md",
            session.who,
            session.hosts,
        )
        return
    is_open = session.retry_within_lease(lambda: session.open_to_anyone(*_nodes(session, paths)))
    if is_open:
        found = ", ".join(f"{path} ({rights})" for path, rights in [*is_open.items()][:SHOWN])
        raise ConfigError(
            f"{session.who}: at ZooKeeper {session.hosts} anyone may change {len(is_open)} of its nodes: {found}. They "
            f"were created without a login. To fix this: stop all processes that use them, then run in zkCli.sh, with "
            f"the same login (`addauth digest …`): `setAcl -R {_topmost(is_open)} auth::cdrwa`"
        )


def guard(session: ZooKeeperSession, paths: TopologyPaths) -> None:
    """Close nodes that others may change, such as those created when the embedded server had no login.

    Called by the leader of the topology, so that no earlier leader without a login is locked out while it runs.
    """
    session.retry_within_lease(lambda: session.close_to_others(*session.open_to_anyone(*_nodes(session, paths))))


def _nodes(session: ZooKeeperSession, paths: TopologyPaths) -> list[str]:
    root = paths.base.rpartition("/")[0]
    blobs = [f"{paths.blobs}/{name}" for name in session.children(paths.blobs)]
    wishes = [paths.wish(name) for name in session.children(paths.wishes)]
    return [root, paths.base, paths.identity, paths.epoch, paths.record, paths.blobs, *blobs, paths.wishes, *wishes]


def _topmost(paths: dict[str, str]) -> str:
    return min(paths, key=len)
