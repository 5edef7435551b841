"""A ZooKeeper with sessions, stale reads, and three outcomes of every write; and the session that the product sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from attrs import define, evolve, field, frozen

from coordinators.backends.zookeeper.access import ZooKeeperAccess
from coordinators.backends.zookeeper.connecting import ROUNDS_PER_SESSION
from coordinators.backends.zookeeper.session import LEASE_OF_SESSION, Conflict, Unanswered
from coordinators.backends.zookeeper.znodes import ANY_VERSION, Check, Create, Put, Remove, Step, Znode
from coordinators.values.errors import CoordinationLost

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

T = TypeVar("T")

SESSION_SECONDS = 3.0
ROUND_SECONDS = 0.002
RETRY_SECONDS = 0.05
ACCESS = ZooKeeperAccess(login="the:simulation")


@frozen
class Node:
    """One node: what it holds, how often it was written, whose it is if it is ephemeral, and which write made it."""

    data: bytes
    version: int = 0
    owner: int | None = None
    created: int = 0


@define
class Server:
    """The ensemble, as one linearizable log of states; readers may be behind it.

    Attributes:
        nodes: the newest state.
        past: a few states before it, where reads may be stale.
        sessions: when each session that lives was last heard of.
        writes: how many there have been.
        watched: which life of which process is to be told when what is below a node changes.
    """

    nodes: dict[str, Node] = field(factory=dict)
    past: list[dict[str, Node]] = field(factory=list)
    sessions: dict[int, float] = field(factory=dict)
    last_session: int = 0
    keeps_past: bool = False
    writes: int = 0
    watched: set[tuple[str, int, int]] = field(factory=set)

    def names(self, path: str) -> list[str]:
        """The names below ``path`` in the newest state."""
        return _names(self.nodes, path)

    def open(self, now: float) -> int:
        """A new session."""
        self.last_session += 1
        self.sessions[self.last_session] = now
        return self.last_session

    def end(self, session: int) -> None:
        """A session is closed or has expired: its nodes are gone."""
        if self.sessions.pop(session, None) is not None:
            self._replace({path: node for path, node in self.nodes.items() if node.owner != session})

    def apply(self, steps: list[Step], session: int) -> None:
        """All of ``steps`` or none.

        Raises:
            Conflict: none.
        """
        nodes = dict(self.nodes)
        self.writes += 1
        for step in steps:
            self._step(nodes, step, session)
        self._replace(nodes)

    def _step(self, nodes: dict[str, Node], step: Step, session: int) -> None:
        node = nodes.get(step.path)
        if isinstance(step, Create):
            if node is not None:
                raise Conflict(step.path, "NodeExistsError")
            nodes[step.path] = Node(step.data, owner=session if step.ephemeral else None, created=self.writes)
            return
        if node is None:
            raise Conflict(step.path, "NoNodeError")
        if step.version not in (node.version, ANY_VERSION):
            raise Conflict(step.path, "BadVersionError")
        match step:
            case Put(path, data, _):
                nodes[path] = evolve(node, data=data, version=node.version + 1)
            case Remove(path, _):
                del nodes[path]
            case Check():
                pass

    def _replace(self, nodes: dict[str, Node]) -> None:
        self.past = [*self.past[-3:], self.nodes] if self.keeps_past else []
        self.nodes = nodes


@define(eq=False)
class Session:
    """What `leadership` needs of a `ZooKeeperSession`, over a `Server` and a network that loses things."""

    world: World
    process: Process
    id: int
    answered: float
    seconds: float = SESSION_SECONDS
    hosts: str = "simulated"
    chroot: str = ""
    who: str = "the simulation"
    access: ZooKeeperAccess = ACCESS
    ended: str | None = None

    @classmethod
    def connect(cls, world: World, process: Process) -> Session:
        """A new session, unless ``process`` is cut off."""
        world.wait(process, ROUND_SECONDS)
        if process.is_cut:
            raise CoordinationLost(f"{process.name}: no ZooKeeper answered")
        return cls(world, process, world.server.open(world.now), world.now)

    def retry_within_lease(self, operation: Callable[[], T]) -> T:
        """As the real one: again and again until the lease has run out."""
        until = max(self.answered + self.seconds * LEASE_OF_SESSION, self.world.now + self.seconds / ROUNDS_PER_SESSION)
        while True:
            try:
                return operation()
            except Unanswered as error:
                self.world.wait(self.process, RETRY_SECONDS)
                if self.world.now >= until:
                    self.ended = f"no answer in time ({error})"
                    raise self._lost() from error

    def read(self, *paths: str) -> list[Znode | None]:
        """Perhaps of a server that is behind; ``sync`` is no promise that nobody writes meanwhile."""
        nodes = self._round()
        return [_znode(nodes.get(path)) for path in paths]

    def children(self, path: str) -> list[str]:
        """The names below ``path``."""
        return _names(self._round(), path)

    def watch_children(self, path: str, changed: Callable[[object], None]) -> list[str]:
        """The names below ``path``; the process is told when there are others, at once if the answer is old."""
        names = self.children(path)
        if names == self.world.server.names(path):
            self.world.server.watched.add((path, self.process.number, self.process.life))
        else:
            changed(path)
        return names

    def open_to_anyone(self, *_paths: str) -> dict[str, str]:
        """Nobody else can change anything."""
        return {}

    def ensure_path(self, path: str) -> None:
        """Parents are no matter here."""
        self._round()

    def watch(self, path: str, changed: Callable[[object], None]) -> Znode | None:
        """Whoever watches here looks again by itself."""
        return _znode(self._round().get(path))

    def commit(self, steps: list[Step]) -> None:
        """A write: applied and answered, applied and not answered, not applied (or later) and not answered."""
        sent = self._send()
        self.process.may_crash("before a write")
        self.world.land_late_write()
        if self.world.chance.happens("write lost"):
            self.world.later("late write", 1.0, None, steps, self.id)
            raise Unanswered("lost on the way")
        self.world.apply(steps, self.id)
        self.process.may_crash("after a write")
        if self.world.chance.happens("reply lost"):
            raise Unanswered("lost on the way back")
        self.answered = sent

    def ensure_alive(self) -> None:
        """By our own clock."""
        if self.ended is not None:
            raise self._lost()
        if self.process.is_cut:
            raise CoordinationLost("not connected")
        if self.world.now >= self.answered + self.seconds * LEASE_OF_SESSION and self.world.has("own deadline"):
            raise CoordinationLost("no answer for too long")

    def is_round_due(self) -> bool:
        """Whether the lease should be renewed."""
        return self.world.now - self.answered >= self.seconds / ROUNDS_PER_SESSION

    def close(self) -> None:
        """End the session, where the servers can be reached."""
        self.ended = self.ended or "closed"
        if not self.process.is_cut:
            self.world.server.end(self.id)

    def _round(self) -> dict[str, Node]:
        sent = self._send()
        server = self.world.server
        self.answered = sent
        if server.past and self.world.chance.happens("stale read"):
            return self.world.chance.pick("how stale", server.past)
        return server.nodes

    def _send(self) -> float:
        if self.ended is not None:
            raise self._lost()
        sent = self.world.now
        self.world.wait(self.process, ROUND_SECONDS)
        self.process.may_crash("waiting for ZooKeeper")
        if self.process.is_cut:
            raise Unanswered("cut off")
        if self.id not in self.world.server.sessions:
            self.ended = "expired"
            raise self._lost()
        return sent

    def _lost(self) -> CoordinationLost:
        return CoordinationLost(f"{self.process.name}: the session has ended: {self.ended}")


def _znode(node: Node | None) -> Znode | None:
    return Znode(node.data, node.version, created=node.created) if node else None


def _names(nodes: dict[str, Node], path: str) -> list[str]:
    return sorted(name[len(path) + 1 :] for name in nodes if name.startswith(f"{path}/"))
