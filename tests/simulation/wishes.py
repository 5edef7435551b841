"""An operator in a simulated world: what is wished and when, what must come of it, and leaders that get it wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore
from coordinators.backends.zookeeper.znodes import ANY_VERSION, Remove
from coordinators.driver.driver import CoordinatorDriver
from coordinators.protocol.master import MasterBatchCoordinator
from coordinators.record.record import CoordinatorRecord
from coordinators.record.wishes import LASTING, NOTHING_STANDS, Action, Hold, Outcome, Rate, Standing, Wish
from tests.simulation.rules import Rules

if TYPE_CHECKING:
    from tests.simulation.world import World
    from tests.simulation.zookeeper import Node

PARENT = "/trident/simulated/wishes"
ACTIONS = [Action.PAUSE, Action.DRAIN, Action.RATE, Action.RESUME]


def wish_of(number: int, action: Action, txids: tuple[int, ...] = ()) -> Wish:
    """The wish of this number; a rate lets one transaction be under way, and a few begin in a second."""
    rate = Rate(batches_per_second=4.0, pending=1) if action is Action.RATE else Rate()
    return Wish(f"wish{number}", action, rate, txids=txids)


def plan_wishes(world: World, seed: int, faulty_secs: float) -> None:
    """When an operator wishes something; most of all to go on, and at the end at the latest."""
    chance = random.Random(f"{seed} wishes")
    for _ in range(chance.choice([0, 0, 1, 3, 6])):
        world.nemesis("wish", chance.uniform(0.0, faulty_secs), chance.choice([*ACTIONS, Action.RESUME]))
    for _ in range(chance.choice([0, 0, 0, 2])):
        world.nemesis("own pause", chance.uniform(0.0, faulty_secs), chance.randrange(len(world.processes)))


def pending(nodes: Mapping[str, Node]) -> list[str]:
    """The ids of the wishes that are there, in the order in which they came."""
    found = [(node.created, path) for path, node in nodes.items() if path.startswith(f"{PARENT}/")]
    return [path.rpartition("/")[2] for _, path in sorted(found)]


# --- what must hold ---------------------------------------------------------------------------------------------------


@define
class WishRules:
    """S19, S20: wishes are carried out once, in turn, with a write that stores it; what stands then, stands.

    Attributes:
        require: raises unless the condition holds.
        made: every wish that was ever left.
        waiting: the ids of those that were there after the last write.
    """

    require: Callable[[bool, str, str], None]
    made: dict[str, Wish] = field(factory=dict)
    waiting: list[str] = field(factory=list)

    def written(self, nodes: Mapping[str, Node], before: CoordinatorRecord | None, after: CoordinatorRecord) -> None:
        """After every write that has come to the servers."""
        found = pending(nodes)
        gone = [wish for wish in self.waiting if wish not in found]
        there = [wish for wish in self.waiting if wish in gone or self.made[wish].action not in LASTING]
        oldest = there[: len(gone)]
        known = before.outcomes if before else ()
        told = [outcome for outcome in after.outcomes if outcome not in known]
        ids = [outcome.wish for outcome in told]
        kept = [outcome.wish for outcome in after.outcomes]
        self.require(len(kept) == len(set(kept)), "S19", f"one of {kept} is carried out twice")
        self.require(
            sorted(gone) == sorted(ids) and gone == oldest,
            "S19",
            f"of {self.waiting} are gone {gone}, and {ids} carried out",
        )
        self.waiting = found
        self._check_standing(before.standing if before else NOTHING_STANDS, after, told)
        paused_by = after.standing.paused_by
        self.require(paused_by in (0, after.epoch), "S21", f"the pause of epoch {paused_by} stands in {after.epoch}")
        if before is not None and after.epoch == before.epoch:  # a takeover closes, and starts nothing
            self._check_held(before, after)

    def _check_standing(self, stood: Standing, after: CoordinatorRecord, told: Sequence[Outcome]) -> None:
        stood = stood.led_by(0)  # without a process's own pause, which S21 is about
        for outcome in told:
            stood, carried_out = _standing_after(stood, self.made[outcome.wish]), outcome.standing.led_by(0)
            self.require(carried_out in (stood, _drained(stood)), "S20", f"{stood} is due after {outcome}")
            stood = carried_out
        is_over = not any(txid >= after.current_txid for txid in after.attempt_ids)
        allowed = [stood, *([_drained(stood)] if is_over else [])]
        self.require(after.standing.led_by(0) in allowed, "S20", f"{after.standing} stands, and it was {stood}")
        is_due = is_over and after.standing.hold is Hold.DRAINING and bool(told)
        self.require(not is_due, "S20", "a drain is over, and no pause")

    def _check_held(self, before: CoordinatorRecord, after: CoordinatorRecord) -> None:
        begun = {txid: a for txid, a in after.attempt_ids.items() if txid >= after.current_txid}
        fresh = [txid for txid in begun if txid not in before.attempt_ids]
        tried = [txid for txid, attempt_id in begun.items() if attempt_id != before.attempt_ids.get(txid)]
        stands = after.standing
        self.require(not (fresh and not stands.takes_new), "S20", f"{fresh} start, with {stands}")
        self.require(not (tried and stands.is_paused), "S20", f"{tried} are tried again in a pause")

    def at_the_end(self, record: CoordinatorRecord | None) -> None:
        """L6: no wish waits for ever, and what is lifted stands no more."""
        self.require(not self.waiting, "L6", f"{self.waiting} are not carried out")
        is_lifted = record is None or record.standing == NOTHING_STANDS
        self.require(is_lifted, "L6", f"{record and record.standing} stands after the last wish")


def _standing_after(stood: Standing, wish: Wish) -> Standing:
    match wish.action:
        case Action.PAUSE:
            return Standing(Hold.PAUSED, stood.rate)
        case Action.DRAIN:
            return Standing(Hold.DRAINING, stood.rate)
        case Action.RATE:
            return Standing(stood.hold, wish.rate)
        case Action.RESUME:
            return NOTHING_STANDS
    return stood


def _drained(stood: Standing) -> Standing:
    return evolve(stood, hold=Hold.PAUSED) if stood.hold is Hold.DRAINING else stood


# --- leaders that get it wrong ----------------------------------------------------------------------------------------


class RemovingLater(ZooKeeperRecordStore):
    """Stores what came of a wish, and then removes it."""

    __slots__ = ()

    def write(self, record: CoordinatorRecord) -> None:
        carried_out = self._carried_out(record)
        super().write(record)
        if carried_out:
            steps = [Remove(self._paths.wish(wish), ANY_VERSION) for wish in carried_out]
            self._session.retry_within_lease(lambda: self._session.commit([self._fence_step, *steps]))

    def _requests(self, encoded: Any, carried_out: Sequence[str]) -> Any:
        return super()._requests(encoded, ())


class Repeating(ZooKeeperRecordStore):
    """Carries out whatever wish a server shows, however old it is."""

    __slots__ = ()

    def wishes(self, changed: Callable[[object], None]) -> Sequence[Wish]:
        stored, self._stored = self._stored, None
        try:
            return super().wishes(changed)
        finally:
            self._stored = stored


class _Unchecked(MasterBatchCoordinator):
    """Leaves it to the simulation to see it."""

    __slots__ = ()

    def _check(self, *_: Any, **__: Any) -> None:
        """Nothing."""


class Replaying(_Unchecked):
    """Replays while an operator's pause stands."""

    __slots__ = ()

    @property
    def admissible(self) -> range:
        return self.window if self.takes_new else self.window[: len(self.attempt_ids)]


class Beginning(_Unchecked):
    """Begins new transactions in a drain."""

    __slots__ = ()

    @property
    def takes_new(self) -> bool:
        return not self.is_paused


class Draining(_Unchecked):
    """Drains for ever."""

    __slots__ = ()

    def _end_drain(self) -> bool:
        return False


MACHINES: dict[str, type[MasterBatchCoordinator]] = {
    "paused by operators": Replaying,
    "drains begin nothing": Beginning,
    "drained, then paused": Draining,
}


def weaken_wishes(driver: CoordinatorDriver, rules: Rules, before: CoordinatorRecord | None) -> None:
    """Take from ``driver`` the rules about wishes that are off; ``before`` is the record before its takeover."""
    for rule, machine in MACHINES.items():
        if not rules.has(rule):
            driver.machine.__class__ = machine
    if not rules.has("lasting wishes"):
        driver.machine.standing = NOTHING_STANDS
        driver.machine._last_store = driver.machine._store()
    if not rules.has("own pause ends") and before is not None:
        driver.machine.standing = evolve(driver.machine.standing, paused_by=before.standing.paused_by)
        driver.machine._last_store = driver.machine._store()
    if not rules.has("wishes that wait"):
        driver.wishes.is_due = False
    if not rules.has("wishes with their write"):
        driver.store.__class__ = RemovingLater
    if not rules.has("carried out once"):
        driver.store.__class__ = Repeating
