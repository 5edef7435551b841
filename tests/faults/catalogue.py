"""What a fault is, and how one is done."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from time import monotonic
from typing import TypeAlias

from attrs import define, field, frozen

from tests.faults.case import Case
from tests.faults.check import RULES, Violation
from tests.faults.network import missing
from tests.faults.world import World

LOG_SHOWN = 3_000


class NotFired(AssertionError):
    """The fault did not happen, so that nothing was shown."""


Lack: TypeAlias = Callable[[World], str | None]


def _nothing(_: World) -> None:
    pass


@frozen
class Fault:
    """A fault by name.

    Attributes:
        run: does it to a case, and asserts that it happened; what follows is looked after by `do`.
        fast: whether it is one of those for every run of the tests.
        lack: why it can't be done here; None where it can.
    """

    name: str
    run: Callable[[Case], object]
    fast: bool = False
    lack: Lack = _nothing


@define
class Result:
    """How it went."""

    fault: str
    fired: bool = False
    skipped: str | None = None
    checked: int = 0
    broken: list[Violation] = field(factory=list)
    error: str | None = None
    seconds: float = 0.0
    takeover: float | None = None
    recovery: float | None = None

    @property
    def is_good(self) -> bool:
        """Whether it was skipped, or happened and broke nothing."""
        return self.skipped is not None or (self.fired and self.checked > 0 and not self.broken and not self.error)


def no_network(world: World) -> str | None:
    """Why drivers have no network of their own here."""
    return None if world.network else missing()


FAULTS: dict[str, Fault] = {}


def fault(name: str, *, fast: bool = False, lack: Lack = _nothing) -> Callable[[Callable[[Case], object]], None]:
    """Enter a function into the catalogue."""

    def enter(run: Callable[[Case], object]) -> None:
        assert name not in FAULTS, name
        FAULTS[name] = Fault(name, run, fast, lack)

    return enter


def happened(condition: object, what: str) -> None:
    """Insist that the fault was there."""
    if not condition:
        raise NotFired(what)


def do(world: World, fault: Fault) -> Result:
    """Do a fault, let the topology finish, and check it."""
    result = Result(fault.name, skipped=fault.lack(world))
    if result.skipped:
        return result
    began, logs = monotonic(), list[str]()
    try:
        with Case.of(world, fault.name) as case:
            try:
                fault.run(case)
                result.fired = True
                result.broken = case.finish()
                result.checked = len(RULES)
            finally:
                result.takeover, result.recovery = case.takeover, case.recovery
                logs = [f"--- {driver.name}\n{driver.log[-LOG_SHOWN:]}" for driver in case.drivers]
    except Exception:  # noqa: BLE001 - a table is to be shown in any case
        result.error = "\n".join([traceback.format_exc(), *logs])
    result.seconds = monotonic() - began
    return result
