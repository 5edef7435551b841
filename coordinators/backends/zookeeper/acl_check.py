"""Whether the nodes of a topology are guarded against everyone else, looked at before it is led."""

from __future__ import annotations

import logging

from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.backends.zookeeper.znodes import TopologyPaths
from coordinators.values.errors import ConfigError

log = logging.getLogger(__name__)

SHOWN = 5


def ensure_guarded(session: ZooKeeperSession, paths: TopologyPaths) -> None:
    """Return if nobody but us may change the nodes at ``paths``; warn where we have no identity to guard them with.

    What is above the root may be open: a node that has children can't be removed, and nothing of ours is stored there.
    At our own server nothing is open once `guard` has run.

    Raises:
        ConfigError: we have one, and some of the nodes that are there are open to anyone.
    """
    if session.access.is_own_server:
        return
    if not session.access.has_identity:
        log.warning(
            "%s: whoever reaches ZooKeeper at %s can change or remove the topology's position; give `zookeeper_auth` "
            "(TRIDENT_ZOOKEEPER_AUTH) or a certificate to close it, docs/how-to/zookeeper.md tells how",
            session.who,
            session.hosts,
        )
        return
    is_open = session.retry_within_lease(lambda: session.open_to_anyone(*_nodes(session, paths)))
    if is_open:
        found = ", ".join(f"{path} ({rights})" for path, rights in [*is_open.items()][:SHOWN])
        raise ConfigError(
            f"{session.who}: at ZooKeeper {session.hosts} anyone may change {len(is_open)} of its nodes: {found}. They "
            f"were created without a login; stop everything that uses them, then in zkCli.sh, with the same login "
            f"(`addauth digest …`), `setAcl -R {_topmost(is_open)} auth::cdrwa`"
        )


def guard(session: ZooKeeperSession, paths: TopologyPaths) -> None:
    """Close to others what they may change, as what was made when the embedded server had no login.

    Called by whoever leads the topology, so that no earlier leader without a login is locked out while it runs.
    """
    session.retry_within_lease(lambda: session.close_to_others(*session.open_to_anyone(*_nodes(session, paths))))


def _nodes(session: ZooKeeperSession, paths: TopologyPaths) -> list[str]:
    root = paths.base.rpartition("/")[0]
    blobs = [f"{paths.blobs}/{name}" for name in session.children(paths.blobs)]
    wishes = [paths.wish(name) for name in session.children(paths.wishes)]
    return [root, paths.base, paths.identity, paths.epoch, paths.record, paths.blobs, *blobs, paths.wishes, *wishes]


def _topmost(paths: dict[str, str]) -> str:
    return min(paths, key=len)
