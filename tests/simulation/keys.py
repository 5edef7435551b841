"""Worlds as values: two with the same key have the same future."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import asdict, evolve, fields

from coordinators.backends.zookeeper.znodes import Create, Put, Step
from coordinators.batches.definitions import SpoutPart
from coordinators.batches.failures import Failures
from coordinators.batches.spout_coordinator import Ask
from coordinators.driver.bisect_desk import _Bisecting
from coordinators.protocol.messages import Acked, Defined, DefinitionFailed, Failed, Message, NotReady
from coordinators.record.parking import ParkedList
from tests.simulation.oracle import BASE, RECORD
from tests.simulation.process import Process
from tests.simulation.schedule import matters
from tests.simulation.scope import choices_of
from tests.simulation.stores import Store
from tests.simulation.wishes import pending
from tests.simulation.world import Event, World
from trident_py.engine.plane.bolt_executor import TridentBoltExecutor
from trident_py.engine.plane.commit_lane import CommitGroup
from trident_py.engine.resident.pool import ResidentPool


def key_of(world: World) -> Any:
    """All that matters about a world, without what only counts steps."""
    oracle = world.oracle
    return (
        tuple(sorted(choices_of(world).budgets.items())),
        _server(world),
        tuple(_store(store) for store in world.stores.values()),
        world.added is None,
        world.version,
        tuple((s.available, s.succeeded, tuple(map(str, s.splits.items()))) for s in world.sources.values()),
        tuple(_process(world, process) for process in world.processes),
        tuple(sorted(_event(world, event) for _, _, event in world.pending if matters(world, event))),
        tuple(sorted(oracle.highest_attempt.items())),
        oracle.gave_up,
        (tuple(sorted(world.parked.skipped)), str(sorted(world.parked.released.items())), str(world.parked.able)),
        oracle.stopped,
        _wishes(world),
        _backup(world),
    )


def _backup(world: World) -> Any:
    """What ZooKeeper, or a store, would be restored to."""
    budgets = choices_of(world).budgets
    if world.backup is not None and budgets.get("old store"):
        return tuple((name, *_store(store)) for name, store in world.backup[1].items())
    if world.backup is None or not budgets.get("old ZooKeeper"):
        return world.oracle.damaged
    return tuple(sorted((path, node.data) for path, node in world.backup[0].items() if node.owner is None))


def _wishes(world: World) -> Any:
    """Which of what is wished waits, in turn; and who is told of the next wish."""
    made = [world.oracle.wishes.made[wish] for wish in pending(world.server.nodes)]
    waiting = [(wish.action, wish.txids) for wish in made]
    lives = {(process.number, process.life) for process in world.processes}
    watched = sorted(number for _, number, life in world.server.watched if (number, life) in lives)
    return (tuple(waiting), tuple(watched) if world.wished or choices_of(world).budgets.get("wish") else ())


def _server(world: World) -> Any:
    nodes = world.server.nodes
    leader = nodes.get(f"{BASE}/leader")
    owner = next((p.number for p in world.processes if leader and p.session and p.session.id == leader.owner), None)
    pasts = world.server.past if choices_of(world).budgets.get("stale read") else ()
    past = tuple(tuple(sorted((path, node.data) for path, node in before.items())) for before in pasts)
    return (world.oracle.epoch, leader is not None, owner, _record(world.oracle.record), past)


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
        str(sorted(record.times.items())),
        tuple((t, f.count, f.spout) for t, f in sorted(record.failures.items()) if f.count or f.spout),
        str(record.bindings),
        str(record.standing),
        _parked(record.parked),
        str(record.declared and (sorted(record.states.items()), record.declared, record.accepted, record.gaps)),
        str([(name, list(cursors.items())) for name, cursors in record.cursors.items()]),
        str(record.bad_rows),
    )


def _parked(parked: ParkedList) -> str:
    """Without the moments."""
    entries = [evolve(each, since=0.0, error="") for each in parked.entries]
    parking = parked.parking and (parked.parking.txid, parked.parking.first_attempt_id, parked.parking.entry.txid)
    return f"{parking} {entries}"


def _search(running: _Bisecting) -> str:
    """What a search knows."""
    wish, listed, entry, *known = (getattr(running, each.name) for each in fields(_Bisecting))
    return f"{wish.id} {_parked(ParkedList(None, (listed, entry)))} {known}"


def _store(store: Store) -> Any:
    fence = store.state._fence
    return (
        tuple(store.ledger),
        fence and (fence.epoch, fence.token, fence.group_first),
        tuple(sorted(store.staged)),
        tuple(sorted((token, tuple(sorted(values.items()))) for token, values in store.worked.items())),
        str(store.holder),
        store.highest_epoch,
        store.lags,
    )


def _process(world: World, process: Process) -> Any:
    session = process.session
    lives = session is not None and session.id in world.server.sessions
    if not process.is_alive:
        return (False, process.life, lives)
    leads = (session and session.ended, process.leaves_out, process.has_paused, _driver(world, process))
    return (True, process.life, lives, leads, _plane(process))


def _driver(world: World, process: Process) -> Any:
    driver, store = process.driver, process.record_store
    if driver is None or store is None:
        return None
    head = world.server.nodes.get(f"{BASE}/record")
    behind = head.version - store._stored.version if head and store._stored else None
    machine, asked = driver.machine, driver.definitions.inquiries.asked
    return (
        store.epoch,
        behind,
        _record(driver.record),
        tuple((t, e.attempt.attempt_id, e.status) for t, e in machine.active.items()),
        tuple(sorted(machine.attempt_ids.items())),
        str(machine.committing),
        (machine.asked, machine.storing, _parked(machine.parked), str(driver.parking._undecided)),
        str(driver.bisecting._running and _search(driver.bisecting._running)),
        str(driver.letters._reading and driver.letters._reading.id),
        tuple(wish.id for wish in driver.wishes.waiting),
        _definitions(driver.definitions),
        str(driver.bindings),
        str(sorted((str(attempt), found) for attempt, found in driver.admission.bad_rows._found.items() if found)),
        driver.admission.bad_rows._last_bad,
        tuple(
            (str(root), ledger.value, ledger.outstanding, ledger.initialised, len(ledger.heard))
            for bucket in driver.phases.acker._buckets
            for root, ledger in sorted(bucket.items(), key=str)
        ),
        tuple(sorted(driver.owed.attempt_ids.items())),
        driver.owed.upto,
        _failures(driver.failures),
        driver.wishes.is_due,
        str(driver._followups),
        tuple(_message(message, asked) for message in process.inbox),
        tuple(getattr(c.coordinator, "handed_out", None) for c in process.coordinators.values()),
        tuple(str((e._positions, e._upto, sorted(e._splits.items()))) for e in process.emitters.values()),
    )


def _failures(failures: Failures) -> Any:
    return (
        tuple(sorted((txid, failure.count) for txid, failure in failures.retries.known.items() if failure.count)),
        tuple(sorted(failures._verdicts)),
        tuple(sorted((spout, wait.txid, wait.is_asking) for spout, wait in failures.patience.waits.items())),
    )


def _definitions(definitions: Any) -> Any:
    asked = definitions.inquiries.asked
    return (
        definitions.frontier,
        str(
            [
                (txid, each.stage, [(spout, _part(part)) for spout, part in sorted(each.parts.items())])
                for txid, each in sorted(definitions.known.items())
            ]
        ),
        str(
            [
                (i.asked and _ask(i.asked, asked), i.refused and i.refused - asked, i.backing_off, i.is_stale)
                for i in definitions.inquiries.by_spout.values()
            ]
        ),
    )


def _part(part: SpoutPart) -> Any:
    return part.metadata, part.stands, part.was_attempted, part.resolved


def _ask(ask: Ask, asked: int) -> str:
    return str({**asdict(ask), "number": ask.number - asked})


def _message(message: Message, asked: int) -> str:
    match message:
        case Defined(spout, ask, txid, metadata, _, more):
            return f"defined {spout} {ask - asked} {txid} {metadata} {more}"
        case NotReady(spout, ask, txid) | DefinitionFailed(spout, ask, txid, _):
            return f"{type(message).__name__} {spout} {ask - asked} {txid}"
        case Failed(attempt, cause, _):
            return f"failed {attempt} {type(cause).__name__}"
        case Acked(attempt, stream, took, made, _):
            return f"acked {attempt} {stream} {took} {made}"
        case _:
            return str(message)


def _plane(process: Process) -> Any:
    plane = process.plane
    if process.driver is None:
        return None
    machine = plane.machine
    return (
        tuple(map(_executor, machine._executors.values())),
        str(sorted((branch, waiting) for branch, waiting in machine._batcher._waiting.items() if waiting)),
        str(sorted((branch, list(groups)) for branch, groups in machine._batcher._again.items() if groups)),
        machine._lane.partial_commit_txid,
        len(machine._lane._postponed),
        tuple(_used(item) for item in (machine._lane._current, *machine._lane._queue)),
        str(sorted((txid, len(untold)) for txid, untold in machine._untold.items())),
        str([stimulus for stimulus in plane.reports]),
        str(sorted(map(str, plane.cancelled & {job for each in machine._executors.values() for job in each.jobs}))),
        _pool(plane.residents.pool),
    )


def _pool(pool: ResidentPool) -> str:
    awaited = [(link, each.number, each.request.key) for link, each in pool._awaited.items()]
    return f"{pool._tasks} {awaited} {[each.key for each in pool._waiting]}"


def _executor(executor: TridentBoltExecutor) -> Any:
    return (
        f"{executor.attempt} {executor.batch.parks} {executor.batch.stores} {executor.batch.sieves}",
        f"{executor.batch.stored} {executor.batch.letters_of} {executor.batch.bad_rows} {executor.batch.sifts}",
        tuple(sorted(executor.emitting)),
        tuple(sorted(executor.waiting)),
        str(sorted(map(str, executor.jobs))),
        executor.is_cancelled,
        str(sorted(executor._receipts.items())),
        str([(spout, each.batch, each.sifted) for spout, each in sorted(executor._emitted.items())]),
    )


def _used(item: Any) -> str:
    if isinstance(item, TridentBoltExecutor):
        return str(item.attempt)
    if not isinstance(item, CommitGroup):
        return str(item)
    members, waiting = ([f"{m.executor.attempt} {m.edges}" for m in each] for each in (item.members, item.waiting))
    return f"{item.first} {members} {waiting} {item.output}"


def _event(world: World, event: Event) -> str:
    if event.kind == "late write":
        return f"{event.kind} {_lateness(world, event.arguments[0])}"
    asked = 0
    if event.process is not None:
        driver = world.processes[event.process].driver
        asked = driver.definitions.inquiries.asked if driver else 0
    shown = "" if event.kind == "turn" else [_argument(argument, asked) for argument in event.arguments]
    return f"{event.kind} {event.process} {shown} {event.lane}"


def _lateness(world: World, steps: Sequence[Step]) -> tuple[str, int]:
    """What a late write would write, and how many writes it is behind."""
    now = world.oracle.record.seq if world.oracle.record else 0
    heads = [json.loads(step.data) for step in steps if isinstance(step, Put | Create) and step.path == RECORD]
    return str([step.path for step in steps]), now - heads[0]["seq"] if heads else 0


def _argument(argument: Any, asked: int) -> str:
    if isinstance(argument, Acked | Failed):
        return _message(argument, asked)
    return str(argument)
