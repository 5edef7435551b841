"""Each row that was answered counts once, wherever leaders are killed, paused or cut off; and each rule is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice, product
from typing import Any

import pytest

from tests.unit.trident_py.spouts.spool.worlds import Beside, Killed, Leader, World
from trident_py.errors import FailedException, FencedError, SpoutError
from trident_py.spouts.spool import spool as spools
from trident_py.spouts.spool.log import Position, SpoolRange
from trident_py.spouts.spool.records import Header, Received, read_header
from trident_py.spouts.spool.spool import Spool, SpoolClosedError
from trident_py.spouts.spool.window import DedupWindow, Seen

EXPECTED = FencedError | Killed | OSError | FailedException | SpoutError
"""A leader that was replaced may also miss files, which the next one has removed."""

Make = Callable[..., Spool]
Histories = Iterator[tuple[str, World]]


def length(make: Make, before: int = 0) -> int:
    """The number of steps of a leader after ``before`` others."""
    world = World()
    return len([Leader(world, make=make).run() for _ in range(before + 1)][-1].steps)


def finished(world: World, make: Make, *others: Leader) -> World:
    """Let two more leaders run: the second finds only what is stored. Note errors that no leader may end with."""
    last = [Leader(world, make=make).run() for _ in range(2)]
    unexpected = [each for each in others if not isinstance(each.error, EXPECTED | None)]
    world.errors += [repr(each.error) for each in (*last, *unexpected) if each.error is not None]
    return world


def killed(world: World, place: int, make: Make, kept: float = 0.5) -> Leader:
    """Run a leader that is killed before a step."""
    leader = Leader(world, place, make=make)
    leader.interrupt = lambda: leader.die(kept)
    return leader.run()


def one_crash(make: Make, kept: float) -> Histories:
    """Kill a leader before each step."""
    for place in range(1, length(make) + 1):
        first = killed(world := World(), place, make, kept)
        yield f"killed before step {place}: {first.steps[-1]}", finished(world, make, first)


def one_error(make: Make) -> Histories:
    """Let a file operation fail at each step; the leader continues."""
    for place in range(1, length(make) + 1):
        first = Leader(world := World(), failing=place, make=make).run()
        yield f"an error in step {place}: {first.steps[place - 1]}", finished(world, make, first)


def one_pause(make: Make) -> Histories:
    """Pause a leader before each step, and let it continue after the next one has ended."""
    for place in range(1, length(make) + 1):
        first = Leader(World(), place, make=make)
        first.interrupt = partial(meanwhile, first.world, None, make)
        first.run()
        yield f"paused before step {place}: {first.steps[place - 1]}", finished(first.world, make, first)


def meanwhile(world: World, place: int | None, make: Make) -> None:
    """Let another leader run, to its end or until it is killed."""
    if place is None:
        Leader(world, make=make).run()
    else:
        killed(world, place, make)


def two_crashes(make: Make, stride: int) -> Histories:
    """Kill a leader, and the next one."""
    for place, other in pairs(make, stride):
        two = [killed(world := World(), place, make), killed(world, other, make)]
        yield f"killed before steps {place} and {other}", finished(world, make, *two)


def pause_and_crash(make: Make, stride: int) -> Histories:
    """Pause a leader while the next one lives and is killed."""
    for place, other in pairs(make, stride):
        first = Leader(World(), place, make=make)
        first.interrupt = partial(meanwhile, first.world, other, make)
        first.run()
        yield f"paused before step {place}, the next killed before {other}", finished(first.world, make, first)


def two_pauses(make: Make, stride: int) -> Histories:
    """Pause a leader; pause the next one while the first continues to its end."""
    for place, other in pairs(make, stride):
        world, beside = World(), list[Beside]()

        def interrupt(world: World = world, beside: list[Beside] = beside, other: int = other) -> None:
            beside.append(Beside(Leader(world, other, make=make)))
            beside[0].start()

        first = Leader(world, place, interrupt, make=make).run()
        for each in beside:
            each.finish()
        yield f"paused before {place} and {other}", finished(world, make, first, *(each.leader for each in beside))


def pairs(make: Make, stride: int) -> Iterator[tuple[int, int]]:
    """Where two leaders stop, one after the other."""
    both = product(range(1, length(make) + 1), range(1, length(make, before=1) + 1))
    return islice(both, 0, None, stride)


def violation(histories: Histories) -> str:
    """The first history that breaks the promise; empty: none does."""
    return next((f"{what}: {found}" for what, world in histories if (found := world.violations())), "")


def every(make: Make, stride: int) -> Histories:
    """All kinds of histories, the short ones first."""
    yield from one_crash(make, 0.5)
    yield from one_error(make)
    yield from one_pause(make)
    yield from two_crashes(make, stride)
    yield from pause_and_crash(make, stride)
    yield from two_pauses(make, stride)


def test_each_answered_row_counts_once_wherever_one_leader_stops() -> None:
    assert not violation(one_crash(Spool, 0.0))
    assert not violation(one_crash(Spool, 0.5))
    assert not violation(one_crash(Spool, 1.0))
    assert not violation(one_error(Spool))
    assert not violation(one_pause(Spool))


@pytest.mark.slow
def test_each_answered_row_counts_once_wherever_two_leaders_stop() -> None:
    assert not violation(every(Spool, stride=1))


def three_leaders(make: Make) -> Histories:
    """Let the first append after the second has read, and the second begin its file after the third was killed."""
    for place in range(1, length(make, before=1) + 1):
        world, two = World(), list[Beside]()
        for step in ("append to 0000000001-000001.spool", "make 0000000002-000001.spool"):
            two.append(Beside(Leader(world, step, make=make)))
            two[-1].start()
        two[0].finish()
        third = killed(world, place, make)
        two[1].finish()
        yield f"the third killed before {place}", finished(world, make, *(each.leader for each in two), third)


def test_each_answered_row_counts_once_if_three_leaders_overlap() -> None:
    assert not violation(three_leaders(Spool))


# --- each rule is needed ----------------------------------------------------------------------------------------------


class IgnoresNewerLeaders(Spool):
    """Answers without a look for the fence of a newer leader."""

    def _ensure_leading(self) -> None:
        pass


class FencesAfterReading(Spool):
    """Makes the fence of its epoch after it has read the files."""

    def open(self, token: str | None, position: Position) -> str:
        records, keys = Spool._records(self), Spool._kept_keys(self)
        self._before = records, keys
        return super().open(token, position)

    def _records(self) -> dict[str, Any]:
        return self._before[0]

    def _kept_keys(self) -> dict[str, Any]:
        return self._before[1]


class ReadsKeysFirst(Spool):
    """Reads the kept keys before the files."""

    def _records(self) -> dict[str, Any]:
        self._before = super()._kept_keys()
        return super()._records()

    def _kept_keys(self) -> dict[str, Any]:
        return self._before


class ForgetsEnds(Spool):
    """Doesn't say where older files end."""

    def _roll(self) -> None:
        with patched(spools, Header=lambda mark, ends: Header(mark=mark, ends={})):
            super()._roll()


class BelievesOlderLeaders(Spool):
    """If two headers name the end of a file, the older one counts."""

    def _records(self) -> dict[str, Any]:
        def read(name: str, data: bytes) -> tuple[Header, int]:
            header, end = read_header(name, data)
            first = {file: ends.setdefault(file, at) for file, at in header.ends.items()}
            return Header(mark=header.mark, ends=first), end

        ends: dict[str, int] = {}
        with patched(spools, read_header=read):
            return super()._records()


class ForgetsKeys(Spool):
    """A new leader knows no keys."""

    def _load(self, position: Position) -> None:
        super()._load(position)
        self._window = DedupWindow(1.0)


class RemovesKeysWithTheFile(Spool):
    """Doesn't keep the keys of a file that it removes."""

    def _keep_keys(self, name: str, end: int) -> None:
        pass


class RemovesWhatIsDefined(Spool):
    """Doesn't wait for the success of a batch."""

    def take(self, txid: int, bytes_max: int, rows_max: int | None) -> list[SpoolRange]:
        taken = super().take(txid, bytes_max, rows_max)
        self.succeed(txid)
        return taken


class AnswersInAnyCase(Spool):
    """Answers although the write has failed."""

    def offer(self, *received: Received) -> None:
        with suppress(SpoolClosedError):
            super().offer(*received)


class ContinuesTheFile(Spool):
    """Appends to a file of which a write has failed."""

    @property
    def _must_roll(self) -> bool:
        return False

    @_must_roll.setter
    def _must_roll(self, value: bool) -> None:
        pass


class RemembersFailedKeys(Spool):
    """Answers the second request of a key although the write of the first has failed."""

    def _settle(self, group: Any, error: BaseException | None) -> None:
        super()._settle(group, error)
        self._window.add({each.received.key: Seen("", 1, 0.0) for each in group if each.received.key})


NEEDED: list[tuple[Make, Callable[[Make], Histories]]] = [
    (ForgetsKeys, partial(one_crash, kept=1.0)),
    (RemovesKeysWithTheFile, partial(one_crash, kept=1.0)),
    (RemovesWhatIsDefined, partial(one_crash, kept=1.0)),
    (AnswersInAnyCase, one_error),
    (ContinuesTheFile, one_error),
    (RemembersFailedKeys, one_error),
    (IgnoresNewerLeaders, one_pause),
    (ForgetsEnds, partial(pause_and_crash, stride=5)),
    (FencesAfterReading, partial(two_pauses, stride=5)),
    (ReadsKeysFirst, partial(two_pauses, stride=5)),
    (BelievesOlderLeaders, three_leaders),
]
"""Each rule that is switched off, with the histories that show it."""


@contextmanager
def patched(module: Any, **changes: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setattr(module, name, value)
        yield


@pytest.mark.parametrize(("mutant", "histories"), NEEDED)
def test_each_rule_of_the_spool_is_needed(mutant: Make, histories: Callable[[Make], Histories]) -> None:
    assert violation(histories(mutant))
