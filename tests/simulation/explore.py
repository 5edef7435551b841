"""Every world at small scope: the same simulated world, under a breadth-first scheduler instead of time and dice.

A world is copied (pickled), one thing happens in the copy, and what comes out is a new world or one that was seen. What
is left open while something happens (is this write lost? is this the step at which the process is killed?) is tried
both ways, as long as the world's budget for it lasts. Time stands still: time-outs and the end of a session are things
that may happen, at any moment, as often as their budget allows.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from attrs import asdict, define, field, frozen

from coordinators.notices import Acked, Defined, DefinitionFailed, Failed, Notice, NotReady
from coordinators.spout_coordinator import Ask
from tests.simulation.oracle import BASE
from tests.simulation.process import Process
from tests.simulation.rules import Rules, Violation
from tests.simulation.sources import Source
from tests.simulation.stores import Store, StoreKind
from tests.simulation.world import Event, World

T = TypeVar("T")

QUIET_STEPS = 5000


@frozen
class Scope:
    """How far to go.

    Attributes:
        budgets: how often each fault may happen in one history.
        exact: whether the source gives every transaction again as it was.
        lives: how often processes may be started, all in all.
    """

    name: str
    budgets: Mapping[str, int]
    max_spout_pending: int = 2
    rows: int = 2
    stores: tuple[StoreKind, ...] = (StoreKind.UNDO,)
    exact: bool = True
    processes: int = 2
    lives: int = 2


@define
class Choices:
    """`Chance` for the explorer: follows a list of choices, and notes where there was one to make.

    Attributes:
        budgets: how often each fault may still happen.
        planned: what to choose, in order; 0 where the list ends.
        made: how many options there were at each choice.
    """

    budgets: dict[str, int]
    exact: bool
    planned: list[int] = field(factory=list)
    made: list[int] = field(factory=list)

    def happens(self, fault: str) -> bool:
        """Both, as long as the budget lasts."""
        if self.budgets.get(fault, 0) <= 0:
            return False
        happens = bool(self._choose(2))
        self.budgets[fault] -= happens
        return happens

    def pick(self, what: str, options: Sequence[T]) -> T:
        """Every batch size of an opaque source; otherwise the smallest."""
        if what == "batch size" and not self.exact:
            return options[self._choose(len(options))]
        return options[0]

    def delay(self, mean: float) -> float:
        """No time passes."""
        return 0.0

    def _choose(self, count: int) -> int:
        number = len(self.made)
        self.made.append(count)
        return self.planned[number] if number < len(self.planned) else 0


@define
class Explorer:
    """Breadth first, from a world in which the first process is about to start.

    Attributes:
        finish_every: of so many new worlds, one is brought to its end in peace, to see that nothing is stuck.
        limit: of worlds; beyond it the explorer gives up and says so.
    """

    scope: Scope
    rules: Rules = field(factory=Rules)
    finish_every: int = 50
    limit: int = 10**6
    seen: set[int] = field(factory=set)
    steps: int = 0
    is_complete: bool = False

    def run(self) -> Violation | None:
        """The first violation that is found, with the shortest history."""
        queue = deque([self._start()])
        while queue:
            if len(self.seen) >= self.limit:
                return None
            snapshot, story = queue.popleft()
            try:
                for world, what in self._successors(snapshot):
                    found = key_of(world)
                    if hash(found) in self.seen:
                        continue
                    self.seen.add(hash(found))
                    copy = pickle.dumps(world)
                    queue.append((copy, (what, story)))
                    if len(self.seen) % self.finish_every == 0:
                        finish(pickle.loads(copy))
            except Violation as violation:
                violation.add_note("after " + ", ".join(reversed(_unrolled(story))))
                return violation
        self.is_complete = True
        return None

    def _start(self) -> tuple[bytes, Any]:
        scope = self.scope
        world = World(
            chance=Choices(dict(scope.budgets), scope.exact),
            rules=self.rules,
            stores={f"store{n}": Store(f"store{n}", kind, self.rules) for n, kind in enumerate(scope.stores)},
            sources={"spout": Source("spout", scope.exact, scope.rows)},
            max_spout_pending=scope.max_spout_pending,
            backoff=0.0,
            pins=not scope.exact,
            real_time=False,
        )
        world.processes = [Process(world, number) for number in range(scope.processes)]
        for process in world.processes:
            process.start()
        first = world.pending[0][2]
        take(world, first)
        world.chance.made = []  # type: ignore[attr-defined]
        return pickle.dumps(world), None

    def _successors(self, snapshot: bytes) -> Iterator[tuple[World, str]]:
        for number in range(len(enabled(pickle.loads(snapshot), self.scope))):
            planned: list[int] | None = []
            while planned is not None:
                world = pickle.loads(snapshot)
                event = enabled(world, self.scope)[number]
                chance = world.chance
                chance.planned, chance.made = planned, []
                self.steps += 1
                try:
                    take(world, event)
                except Violation as violation:
                    violation.add_note(f"in {_shown(event)} {planned}")
                    raise
                planned = _next(planned, chance.made)
                chance.planned, chance.made = [], []
                yield world, _shown(event)


def _next(planned: list[int], made: list[int]) -> list[int] | None:
    """The next list of choices, as an odometer counts."""
    taken = [*planned, *[0] * (len(made) - len(planned))]
    while taken and taken[-1] + 1 >= made[len(taken) - 1]:
        taken.pop()
    if not taken:
        return None
    taken[-1] += 1
    return taken


def _shown(event: Event) -> str:
    who = "" if event.process is None else f"driver {event.process}: "
    return f"{who}{event.kind} {' '.join(map(str, event.arguments))}".strip()


def _unrolled(story: Any) -> list[str]:
    lines = []
    while story is not None:
        what, story = story
        lines.append(what)
    return lines


# --- what may happen next ---------------------------------------------------------------------------------------------


def enabled(world: World, scope: Scope) -> list[Event]:
    """What is under way and may arrive now, and what may go wrong."""
    live = [entry for entry in sorted(world.pending, key=lambda entry: entry[1]) if _matters(world, entry[2])]
    world.pending = live
    lanes: set[tuple[int | None, str]] = set()
    events: list[Event] = []
    for _, _, event in live:
        lane = (event.process, event.lane or {"job": "jobs"}.get(event.kind, ""))
        if lane[1] and lane in lanes:
            continue
        lanes.add(lane)
        if event not in events and _may(world, event, scope):
            events.append(event)
    return [*events, *_mishaps(world)]


def _matters(world: World, event: Event) -> bool:
    if event.process is None:
        return True
    process = world.processes[event.process]
    if process.life != event.life or not process.is_alive:
        return False
    return event.kind != "turn" or event.arguments == (process.turns,)


def _may(world: World, event: Event, scope: Scope) -> bool:
    if event.kind == "lead":
        return f"{BASE}/leader" not in world.server.nodes
    if event.kind == "start":
        return sum(process.life for process in world.processes) < scope.lives
    return True


def _mishaps(world: World) -> Iterator[Event]:
    budgets = world.chance.budgets  # type: ignore[attr-defined]
    living = {process.session.id for process in world.processes if process.is_alive and process.session}
    for session in sorted(set(world.server.sessions) - living):
        yield Event("expire", None, 0, (session,), "")
    for process in world.processes:
        if not process.is_alive or process.driver is None or process.session is None:
            continue
        if budgets.get("kill", 0):
            yield Event("kill", None, 0, (process.number,), "")
        if budgets.get("expiry", 0) and process.session.id in world.server.sessions:
            yield Event("cut off", None, 0, (process.session.id,), "")
        if budgets.get("timeout", 0):
            for entry in process.driver.machine.active.values():
                yield Event("silence", None, 0, (process.number, entry.attempt), "")


def settle(world: World) -> None:
    """What nobody can tell from happening at once: turns that are due, and the first attempt to lead."""
    while urgent := [event for _, _, event in world.pending if event.kind == "turn" and _matters(world, event)]:
        _remove(world, urgent[0])
        world.happen(urgent[0])


def take(world: World, event: Event) -> None:
    """``event`` happens, and the turn that it leads to."""
    _happen(world, event)
    settle(world)


def _happen(world: World, event: Event) -> None:
    budgets = world.chance.budgets  # type: ignore[attr-defined]
    match event.kind:
        case "kill":
            budgets["kill"] -= 1
            world.happen(event)
        case "expire":
            world.server.end(event.arguments[0])
        case "cut off":
            budgets["expiry"] -= 1
            world.server.end(event.arguments[0])
        case "silence":
            budgets["timeout"] -= 1
            number, attempt = event.arguments
            world.processes[number].deliver(Failed(attempt, TimeoutError("silence"), counts=False))
        case _:
            _remove(world, event)
            world.happen(event)


def _remove(world: World, event: Event) -> None:
    number = next(n for n, (_, _, pending) in enumerate(world.pending) if pending == event)
    del world.pending[number]


def finish(world: World) -> None:
    """Peace: everything arrives in order, whoever is silent times out, and somebody leads. All must come to its end."""
    peace = Scope("peace", {}, lives=10**9)
    world.chance.budgets = {}  # type: ignore[attr-defined]
    for _ in range(QUIET_STEPS):
        if world.oracle.is_done():
            return
        events = enabled(world, peace)
        if events:
            take(world, events[0])
            continue
        leaders = [process for process in world.processes if process.is_alive and process.driver is not None]
        silent = [
            (p, entry.attempt) for p in leaders for entry in list(p.driver.machine.active.values())[:1] if p.driver
        ]
        if not silent:
            break
        for process, attempt in silent:
            process.deliver(Failed(attempt, TimeoutError("silence"), counts=False))
    world.oracle.at_the_end()


# --- worlds as values -------------------------------------------------------------------------------------------------


def key_of(world: World) -> Any:
    """All that matters about a world, without what only counts steps."""
    oracle = world.oracle
    return (
        tuple(sorted(world.chance.budgets.items())),  # type: ignore[attr-defined]
        _server(world),
        tuple(_store(store) for store in world.stores.values()),
        tuple((s.available, s.succeeded, tuple(map(str, s.extents.items()))) for s in world.sources.values()),
        tuple(_process(world, process) for process in world.processes),
        tuple(sorted(_event(world, event) for _, _, event in world.pending if _matters(world, event))),
        tuple(sorted(oracle.highest_attempt.items())),
    )


def _server(world: World) -> Any:
    nodes = world.server.nodes
    leader = nodes.get(f"{BASE}/leader")
    owner = next((p.number for p in world.processes if leader and p.session and p.session.id == leader.owner), None)
    return (world.oracle.epoch, leader is not None, owner, _record(world.oracle.record))


def _record(record: Any) -> Any:
    if record is None:
        return None
    return (
        record.epoch,
        record.current_txid,
        tuple(sorted(record.attempt_ids.items())),
        str(sorted(record.metadata.items())),
        str(record.committing),
        record.success_upto,
    )


def _store(store: Store) -> Any:
    fence = store.state._fence
    return (tuple(store.ledger), fence and (fence.epoch, fence.token), tuple(sorted(store.staged)), store.highest_epoch)


def _process(world: World, process: Process) -> Any:
    session = process.session
    lives = session is not None and session.id in world.server.sessions
    if not process.is_alive:
        return (False, process.life, lives)
    return (True, process.life, lives, session and session.ended, _driver(world, process), _plane(process))


def _driver(world: World, process: Process) -> Any:
    driver, store = process.driver, process.record_store
    if driver is None or store is None:
        return None
    head = world.server.nodes.get(f"{BASE}/record")
    behind = head.version - store._stored.version if head and store._stored else None
    machine, asked = driver.machine, driver.definitions._numbers
    return (
        store.epoch,
        behind,
        _record(driver.record),
        tuple((t, e.attempt.attempt_id, e.status) for t, e in machine.active.items()),
        tuple(sorted(machine.attempt_ids.items())),
        str(machine.committing),
        _definitions(driver.definitions),
        tuple(
            (str(root), ledger.value, ledger.outstanding, ledger.initialised, len(ledger.heard))
            for bucket in driver.acker._buckets
            for root, ledger in sorted(bucket.items(), key=str)
        ),
        tuple(sorted(driver._owed.items())),
        driver._success_upto,
        str(driver._followups),
        tuple(_notice(notice, asked) for notice in process.inbox),
        tuple(c.coordinator.handed_out for c in process.coordinators.values()),  # type: ignore[attr-defined]
    )


def _definitions(definitions: Any) -> Any:
    asked = definitions._numbers
    return (
        definitions.frontier,
        definitions.moved_upto,
        str(sorted(definitions.known.items())),
        str([(txid, sorted(_notice(d, asked) for d in book.values())) for txid, book in definitions._defined.items()]),
        str([(txid, sorted(_notice(d, asked) for d in book.values())) for txid, book in definitions._ahead.items()]),
        str(
            [
                (
                    i.asked and _ask(i.asked, asked),
                    i.answer and _notice(i.answer, asked),
                    i.refused and i.refused - asked,
                    i.backing_off,
                    i.is_stale,
                )
                for i in definitions._inquiries.values()
            ]
        ),
    )


def _ask(ask: Ask, asked: int) -> str:
    return str({**asdict(ask), "number": ask.number - asked})


def _notice(notice: Notice, asked: int) -> str:
    match notice:
        case Defined(spout, ask, txid, metadata, _):
            return f"defined {spout} {ask - asked} {txid} {metadata}"
        case NotReady(spout, ask, txid) | DefinitionFailed(spout, ask, txid, _):
            return f"{type(notice).__name__} {spout} {ask - asked} {txid}"
        case Failed(attempt, cause, _):
            return f"failed {attempt} {type(cause).__name__}"
        case Acked(attempt, stream, took, made, _):
            return f"acked {attempt} {stream} {took} {made}"
        case _:
            return str(notice)


def _plane(process: Process) -> Any:
    plane = process.plane
    return (
        tuple(
            sorted((str(a), str(sorted(w.rows)), w.running, str(sorted(w.prepared))) for a, w in plane.works.items())
        ),
        tuple((str(c.work.attempt), c.work.cancelled, tuple(c.edges), tuple(c.stores)) for c in plane.commits),
    )


def _event(world: World, event: Event) -> str:
    asked = 0
    if event.process is not None:
        driver = world.processes[event.process].driver
        asked = driver.definitions._numbers if driver else 0
    shown = [
        _ask(a, asked) if isinstance(a, Ask) else "" if event.kind == "turn" else _argument(a, asked)
        for a in event.arguments
    ]
    return f"{event.kind} {event.process} {shown} {event.lane}"


def _argument(argument: Any, asked: int) -> str:
    if isinstance(argument, Acked | Failed):
        return _notice(argument, asked)
    if hasattr(argument, "prepared"):
        return f"{argument.attempt} {argument.cancelled}"
    if isinstance(argument, list):  # the steps of a late write
        return "late"
    return str(argument)
