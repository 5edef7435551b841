"""One world of a seed: a phase with faults, then a quiet one in which everything has to come to its end."""

from __future__ import annotations

import hashlib
import logging
import random

from attrs import define

from coordinators.record.wishes import Action
from tests.simulation.chance import Dice
from tests.simulation.oracle import DAMAGES
from tests.simulation.process import RESTART_SECONDS, Process
from tests.simulation.rules import Rules
from tests.simulation.sources import BATCH_ROWS, Source
from tests.simulation.stores import Store, StoreKind
from tests.simulation.windows import Windows
from tests.simulation.wishes import plan_wishes
from tests.simulation.world import World
from tests.simulation.zookeeper import SESSION_SECONDS

FAULTY_SECONDS = 20.0
LEADER_SECONDS = SESSION_SECONDS + RESTART_SECONDS + 5.0
"""By then somebody leads: the session of the last leader, the time it takes to start a process again, and 5 s."""

QUIET_SECONDS = 60.0
"""Longer than a session, the longest back-off, a message timeout and a half, and all batches together."""


@define
class Outcome:
    """What became of one seed."""

    seed: int
    violation: AssertionError | None
    log: list[str]
    steps: int
    committed: int
    takeovers: int

    @property
    def hash(self) -> str:
        """The same for the same world."""
        return hashlib.sha256("\n".join(self.log).encode()).hexdigest()


def branch_out(world: World, seed: int) -> None:
    """Have branches read different sources, and new values go into one more store, in some worlds."""
    chance = random.Random(f"{seed} branches")
    stores = list(world.stores.values())
    if chance.random() < 0.4:
        first, *others = sorted(world.sources)
        for store in stores:
            store.reads = frozenset(chance.choice([[first], others or [first], world.sources]))
        read = frozenset[str]().union(*(store.reads for store in stores))
        stores[-1].reads |= world.sources.keys() - read
        world.leaves = ""
        if world.added is not None and chance.random() < 0.5:
            stores[0].reads = frozenset()
        elif world.added is not None:
            world.added = None
    feeding = [store for store in stores if store.kind is not StoreKind.COMPARE]
    if feeding and chance.random() < 0.3:
        world.leaves = ""
        downstream = chance.choice(feeding).name
        locks = chance.random() < 0.5
        is_sink = all(source.exact for source in world.sources.values()) and chance.random() < 0.4
        kind = StoreKind.COMPARE if is_sink else StoreKind.UNDO
        world.stores["fed"] = Store("fed", kind, world.rules, True, locks, fed_by=downstream)


def share_a_database(world: World, seed: int) -> None:
    """Have all stores in one database, which none leaves and none is added to, in some worlds."""
    may = not world.leaves and all(store.kind is not StoreKind.UNFENCED for store in world.stores.values())
    world.together = may and len(world.stores) > 1 and random.Random(f"{seed} database").random() < 0.4


def park(world: World, seed: int) -> None:
    """Have a batch fail until it is mended, and be parked for that, in some worlds."""
    chance = random.Random(f"{seed} parks")
    may = all(source.exact and not source.learns for source in world.sources.values())
    if may and chance.random() < 0.3:
        world.parks_poison, world.poison, world.attempts = True, chance.randrange(1, 6), 3


def collect(world: World, seed: int) -> bool:
    """Have rows raise, and end in a store of their own, in some worlds; whether they do in this one."""
    chance = random.Random(f"{seed} collects")
    is_plain = not (world.leaves or world.parks_poison or any(store.reads for store in world.stores.values()))
    if not is_plain or chance.random() < 0.4:
        return False
    world.added = None
    for store in world.stores.values():
        store.leaves_out = not store.fed_by
    exact = all(source.exact for source in world.sources.values())
    kind = chance.choice([StoreKind.UNDO, *([StoreKind.COMPARE] if exact else [])])
    locks = chance.random() < 0.5
    world.stores["letters"] = Store("letters", kind, world.rules, chance.random() < 0.5, locks, collects=True)
    return True


def change_by_tasks(world: World, seed: int) -> None:
    """Have tasks make the values of some states; what they emit feeds others."""
    chance = random.Random(f"{seed} tasked")
    for store in world.stores.values():
        may = store.kind is StoreKind.UNDO and store.inline and not store.fed_by
        store.tasked = may and chance.random() < 0.4


def world_of(dice: Dice, rules: Rules) -> World:
    """A world whose size, kinds and faults are drawn from a seed."""
    chance = dice.random
    exact = [chance.random() < 0.6 for _ in range(chance.choice([1, 1, 2]))]
    learns = [random.Random(f"{dice.seed} {number}").random() < 0.3 for number in range(len(exact))]
    kinds = [StoreKind.UNDO, StoreKind.UNFENCED, *([StoreKind.COMPARE] if all(exact) or chance.random() < 0.2 else [])]
    count = chance.choice([1, 2, 2])
    stores = [store_of(f"store{n}", chance.choice(kinds), rules, chance) for n in range(count)]
    world = World(
        chance=dice,
        rules=rules,
        stores={store.name: store for store in stores},
        sources={
            f"spout{n}": Source(f"spout{n}", is_exact, chance.randrange(8), learns=learning)
            for n, (is_exact, learning) in enumerate(zip(exact, learns, strict=True))
        },
        max_spout_pending=chance.choice([1, 2, 3, 4]),
        pins=not all(exact) or any(learns) or any(store.kind is StoreKind.UNFENCED for store in stores),
        shares=random.Random(f"{dice.seed} shares").random() < 0.5,
        splits=random.Random(f"{dice.seed} splits").random() < 0.3,
        large_rows=random.Random(f"{dice.seed} large").choice([1, 2, BATCH_ROWS, 10**9]),
        added=Source("added", True, 5) if random.Random(f"{dice.seed} added").random() < 0.3 else None,
        corrects=random.Random(f"{dice.seed} corrects").random() < 0.3,
        reads_are_stale=dice.rates["stale read"] > 0,
    )
    windows = random.Random(f"{dice.seed} windows")
    if windows.random() < 0.5:
        world.window = Windows(windows.choice([0.5, 2.0, 5.0]))
    leaving = [store.name for store in stores if _may_leave(store, world)]
    leaves = random.Random(f"{dice.seed} leaves")
    if leaving and count > 1 and leaves.random() < 0.6:
        world.leaves, world.added = leaves.choice(leaving), None
    branch_out(world, dice.seed)
    share_a_database(world, dice.seed)
    park(world, dice.seed)
    if collect(world, dice.seed):
        dice.rates = {**dice.rates, "a row raises": max(0.15, dice.rates["a row raises"])}
    change_by_tasks(world, dice.seed)
    residents = random.Random(f"{dice.seed} residents")
    world.residents = residents.choice([0, 1, 1, 2]) if world.shares else 0
    world.processes = [Process(world, number) for number in range(chance.choice([1, 2, 2, 3]))]
    return world


def _may_leave(store: Store, world: World) -> bool:
    """Whether it can tell what it has when it comes back, and roll back what may be another batch by then."""
    return store.kind is StoreKind.UNDO if world.pins else store.remembers


def store_of(name: str, kind: StoreKind, rules: Rules, chance: random.Random) -> Store:
    """A store of a kind; a user's state has neither staging nor locks."""
    fenced = kind is not StoreKind.UNFENCED
    return Store(name, kind, rules, inline=chance.random() < 0.5, locks=fenced and chance.random() < 0.5)


def plan_faults(world: World, dice: Dice) -> None:
    """The nemesis: which of the big faults exist, and when each strikes."""
    chance = dice.random

    def moments(average: float) -> list[float]:
        if chance.random() < 0.5:
            return []
        return [chance.random() * FAULTY_SECONDS for _ in range(1 + int(chance.expovariate(1 / average)))]

    for kind in ("kill", "pause", "cut"):
        for moment in moments(2.5):
            seconds = [min(chance.choice([0.5, 2.0, 6.0, 10.0]), FAULTY_SECONDS - moment)] if kind != "kill" else []
            world.nemesis(kind, moment, chance.randrange(len(world.processes)), *seconds)
    parks = plan_parking(world, random.Random(f"{dice.seed} parking"))
    if chance.random() < 0.1 and not parks and all(store.remembers for store in world.stores.values()):
        moment = chance.random() * FAULTY_SECONDS
        world.nemesis("back up", moment * chance.uniform(0.5, 1.0))
        world.nemesis("damage", moment, chance.choice(list(DAMAGES)[:4]))
    if world.leaves:
        versions = random.Random(f"{dice.seed} versions")
        for _ in range(4):
            world.nemesis("roll out", versions.uniform(0.0, FAULTY_SECONDS))
    plan_wishes(world, dice.seed, FAULTY_SECONDS)
    plan_reads(world, dice)
    plan_loss(world, dice)
    plan_growth(world, dice)


def plan_parking(world: World, chance: random.Random) -> bool:
    """When an operator parks something, and mends it; whether one does."""
    has_letters = "letters" in world.stores
    for _ in range(chance.choice([0, 3, 6]) if has_letters else 0):
        world.nemesis("letters", chance.uniform(FAULTY_SECONDS / 3, FAULTY_SECONDS))
    if chance.random() < 0.6:
        return has_letters
    for _ in range(chance.choice([1, 2, 4])):
        world.nemesis("park", chance.uniform(0.0, FAULTY_SECONDS), chance.choice([0, 0, 1, 3]))
    for _ in range(chance.choice([0, 1, 3])):
        action = chance.choice(
            [Action.RELEASE, Action.RELEASE, Action.SKIP, Action.RETRY, Action.ROWS, Action.BISECT, Action.BISECT]
        )
        world.nemesis("mend", chance.uniform(0.0, FAULTY_SECONDS), action)
    return True


def plan_loss(world: World, dice: Dice) -> None:
    """Whether the server of a store loses commits, and when."""
    chance = random.Random(f"{dice.seed} loses")
    if chance.random() < 0.03:
        world.nemesis("back up", chance.uniform(0.0, FAULTY_SECONDS / 2))
        world.nemesis("damage", chance.uniform(FAULTY_SECONDS / 2, FAULTY_SECONDS), "a store loses commits")


def plan_reads(world: World, dice: Dice) -> None:
    """When somebody asks for the states."""
    reads = random.Random(f"{dice.seed} reads")
    for _ in range(reads.choice([0, 0, 3, 12])):
        world.nemesis("ask", reads.uniform(0.0, FAULTY_SECONDS), reads.randrange(len(world.processes)))


def plan_growth(world: World, dice: Dice) -> None:
    """When there is more input."""
    chance = dice.random
    for name in world.sources:
        for _ in range(chance.randrange(12)):
            world.nemesis("grow", chance.random() * FAULTY_SECONDS, name, 1 + chance.randrange(4))


def simulate(seed: int, rules: Rules | None = None, damage: str | None = None, *, logs: bool = True) -> Outcome:
    """The whole life of the world of ``seed``; ``damage`` strikes whether it is drawn or not."""
    dice = Dice(seed)
    world = world_of(dice, rules or Rules())
    world.log = [] if logs else None
    violation = None
    try:
        for process in world.processes:
            process.start()
        plan_faults(world, dice)
        if damage:
            world.nemesis("back up", FAULTY_SECONDS / 4)
            world.nemesis("damage", FAULTY_SECONDS / 2, damage)
        run_until(world, FAULTY_SECONDS)
        dice.quiet = True
        end_faults(world)
        if world.wished:
            world.on_wish(Action.RESUME)
        world.end_own_pauses()
        run_until(world, world.now + LEADER_SECONDS)
        world.oracle.somebody_leads()
        while world.now < FAULTY_SECONDS + QUIET_SECONDS and not world.oracle.is_done():
            world.release_all()
            run_until(world, world.now + 1.0)
        world.oracle.at_the_end()
    except AssertionError as found:  # a `Violation`, or what the product asserts by itself
        violation = found
    return Outcome(seed, violation, world.log or [], world.steps, world.oracle.committed, world.oracle.takeovers)


def judged(seed: int) -> Outcome:
    """One seed, in a worker process, without a log: whoever wants to see one runs it again."""
    logging.disable(logging.CRITICAL)
    return simulate(seed, logs=False)


def run_until(world: World, moment: float) -> None:
    """Events, as they are due."""
    while world.pending and world.pending[0][0] <= moment:
        world.run_next()
    world.pass_time(moment)


def end_faults(world: World) -> None:
    """Whatever is cut or paused goes on."""
    for process in world.processes:
        world.on_heal(process.number)
        world.on_go_on(process.number, process.life)
