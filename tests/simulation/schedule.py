"""What may happen next in a world that is explored, whatever the time; and how it comes to its end in peace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordinators.protocol.messages import Failed, FailureKind
from coordinators.record.wishes import Action
from tests.simulation.oracle import BASE, RECORD, record_in
from tests.simulation.process import Process
from tests.simulation.scope import Scope, choices_of
from tests.simulation.wishes import ACTIONS
from tests.simulation.world import Event, World

QUIET_STEPS = 5000


def enabled(world: World, scope: Scope) -> list[Event]:
    """What is under way and may arrive now, and what may go wrong."""
    live = [entry for entry in sorted(world.pending, key=lambda entry: entry[1]) if matters(world, entry[2])]
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


def matters(world: World, event: Event) -> bool:
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
    budgets = choices_of(world).budgets
    living = {process.session.id for process in world.processes if process.is_alive and process.session}
    for session in sorted(set(world.server.sessions) - living):
        yield Event("expire", None, 0, (session,), "")
    if budgets.get("roll out", 0) and world.may_roll_out() and not any(map(_has_rows, world.processes)):
        yield Event("roll out", None, 0, (), "")
    if budgets.get("back up", 0) and any(
        process.driver and process.driver.machine.active for process in world.processes
    ):
        yield Event("back up", None, 0, (), "")
    if budgets.get("old ZooKeeper", 0) and _may_go_on_from_backup(world):
        yield Event("damage", None, 0, ("ZooKeeper restored from the past",), "")
    if budgets.get("old store", 0) and world.backup is not None:
        yield Event("damage", None, 0, ("a store restored from the past",), "")
    yield from _wishes(world, budgets)
    yield from _mishaps_of_leaders(world, budgets)


def _wishes(world: World, budgets: Mapping[str, int]) -> Iterator[Event]:
    if budgets.get("wish", 0):
        yield from (Event("wish", None, 0, (action,), "") for action in ACTIONS)
    if budgets.get(Action.PARK, 0) and world.oracle.record is not None:
        yield Event("wish", None, 0, (Action.PARK, world.oracle.committed + 1), "")
    if budgets.get(Action.LETTERS, 0) and any(
        each.letters(name).total() for each in world.stores.values() for name in world.stores
    ):
        yield Event("wish", None, 0, (Action.LETTERS,), "")
    for action in (Action.RELEASE, Action.SKIP, Action.BISECT, Action.RETRY):
        if budgets.get(action, 0) and world.oracle.record and world.oracle.record.parked.entries:
            yield Event("mend", None, 0, (action,), "")


def _may_go_on_from_backup(world: World) -> bool:
    """Whether a store is ahead of the record that would come back, as far as commits of ours can leave it."""
    if world.backup is None or RECORD not in world.backup[0]:
        return False
    old = record_in(world.backup[0])
    tokens = [store.fence.token for store in world.stores.values() if store.remembers]
    ahead = [token for token in tokens if token and token.txid >= old.current_txid]
    fits = all(token.epoch <= old.epoch and token.attempt_id <= old.attempt_ids.get(token.txid, -1) for token in ahead)
    return bool(ahead) and fits


def _has_rows(process: Process) -> bool:
    """Whether a batch is on its way, after which another version would find no more than after a crash."""
    return process.driver is not None and any(each.has_rows for each in process.plane.machine._executors.values())


def _mishaps_of_leaders(world: World, budgets: Mapping[str, int]) -> Iterator[Event]:
    for process in world.processes:
        if not process.is_alive or process.driver is None or process.session is None:
            continue
        asked = (kind for kind in ("ask", "own pause") if budgets.get(kind, 0))
        yield from (Event(kind, None, 0, (process.number,), "") for kind in asked)
        if budgets.get("kill", 0) and not budgets.get("old ZooKeeper", 0):
            yield Event("kill", None, 0, (process.number,), "")
        if budgets.get("expiry", 0) and process.session.id in world.server.sessions:
            yield Event("cut off", None, 0, (process.session.id,), "")
        if budgets.get("timeout", 0):
            for entry in process.driver.machine.active.values():
                yield Event("silence", None, 0, (process.number, entry.attempt), "")


def settle(world: World) -> None:
    """What nobody can tell from happening at once: turns that are due, and the first attempt to lead."""
    while urgent := [event for _, _, event in world.pending if event.kind == "turn" and matters(world, event)]:
        _remove(world, urgent[0])
        world.happen(urgent[0])


def take(world: World, event: Event) -> None:
    """``event`` happens, and the turn that it leads to, unless turns come when they come."""
    _happen(world, event)
    if not choices_of(world).gathers:
        settle(world)


def _happen(world: World, event: Event) -> None:
    budgets = choices_of(world).budgets
    match event.kind:
        case "wish" | "mend" if event.arguments[0] not in ACTIONS:
            budgets[event.arguments[0]] -= 1
            world.happen(event)
        case "ask" | "back up" | "kill" | "own pause" | "roll out" | "wish":
            budgets[event.kind] -= 1
            world.happen(event)
        case "damage":
            budgets["old ZooKeeper" if event.arguments[0].startswith("ZooKeeper") else "old store"] -= 1
            world.happen(event)
        case "expire":
            world.server.end(event.arguments[0])
        case "cut off":
            budgets["expiry"] -= 1
            world.server.end(event.arguments[0])
        case "silence":
            budgets["timeout"] -= 1
            number, attempt = event.arguments
            world.processes[number].deliver(Failed(attempt, TimeoutError("silence"), FailureKind.INTERRUPTED))
        case _:
            _remove(world, event)
            world.happen(event)


def _remove(world: World, event: Event) -> None:
    number = next(n for n, (_, _, pending) in enumerate(world.pending) if pending == event)
    del world.pending[number]


def finish(world: World) -> None:
    """Peace: everything arrives in order, whoever is silent times out, and somebody leads. All must come to its end."""
    peace = Scope("peace", {}, lives=10**9)
    choices_of(world).budgets = {}
    if world.wished:
        world.on_wish(Action.RESUME)
    world.end_own_pauses()
    world.is_mended = world.parks_poison
    for _ in range(QUIET_STEPS):
        if world.oracle.is_done():
            return
        events = enabled(world, peace)
        if events:
            take(world, events[0])
            continue
        if world.release_all():
            continue
        if not _all_fall_silent(world):
            break
    world.oracle.at_the_end()


def _all_fall_silent(world: World) -> bool:
    is_anybody_busy = False
    for process in world.processes:
        driver = process.driver
        if not process.is_alive or driver is None:
            continue
        for entry in list(driver.machine.active.values())[:1]:
            process.deliver(Failed(entry.attempt, TimeoutError("silence"), FailureKind.INTERRUPTED))
            is_anybody_busy = True
    return is_anybody_busy
