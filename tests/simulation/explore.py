"""Every world at small scope: the same simulated world, under a breadth-first scheduler instead of time and dice.

A world is copied (pickled), one thing happens in the copy, and what comes out is a new world or one that was seen. What
is left open while something happens (is this write lost? is this the step at which the process is killed?) is tried
both ways, as long as the world's budget for it lasts. Time stands still: time-outs and the end of a session are things
that may happen, at any moment, as often as their budget allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from attrs import define, field

from tests.simulation.copies import restored, snapshot
from tests.simulation.keys import key_of
from tests.simulation.process import Process
from tests.simulation.rules import Rules
from tests.simulation.schedule import enabled, finish, take
from tests.simulation.scope import Choices, Scope, choices_of
from tests.simulation.sources import Source
from tests.simulation.stores import Store, StoreKind
from tests.simulation.windows import Windows
from tests.simulation.world import Event, World


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

    def run(self) -> AssertionError | None:
        """The first violation that is found, with the shortest history."""
        queue = deque([self._start()])
        while queue:
            if len(self.seen) >= self.limit:
                return None
            before, story = queue.popleft()
            try:
                for world, what in self._successors(before):
                    found = key_of(world)
                    if hash(found) in self.seen:
                        continue
                    self.seen.add(hash(found))
                    copy = snapshot(world)
                    queue.append((copy, (what, story)))
                    if len(self.seen) % self.finish_every == 0:
                        finish(restored(copy))
            except AssertionError as violation:
                violation.add_note("after " + ", ".join(reversed(_unrolled(story))))
                return violation
        self.is_complete = True
        return None

    def _start(self) -> tuple[bytes, Any]:
        scope = self.scope
        world = World(
            chance=Choices(dict(scope.budgets), scope.any_size or not scope.exact or scope.learns, scope.gathers),
            rules=self.rules,
            stores=self._stores(),
            sources={
                name: Source(name, scope.exact, scope.rows - n, learns=scope.learns)
                for n, name in enumerate(scope.sources)
            },
            max_spout_pending=scope.max_spout_pending,
            backoff=0.0,
            attempts=scope.attempts if scope.poison else 1000,
            poison=scope.poison,
            refuses=scope.refuses,
            parks_poison=scope.parks,
            corrects=scope.corrects,
            pins=scope.learns or not scope.exact or StoreKind.UNFENCED in scope.stores,
            shares=scope.shares,
            residents=scope.residents,
            splits=scope.splits,
            reads_are_stale=scope.lags,
            large_rows=scope.large_rows,
            added=Source("added", True, 1) if scope.adds else None,
            leaves=scope.leaves,
            together=scope.together,
            window=Windows(0) if scope.windows else None,
            real_time=False,
        )
        world.processes = [Process(world, number) for number in range(scope.processes)]
        for process in world.processes:
            process.start()
        first = world.pending[0][2]
        take(world, first)
        choices_of(world).made = []
        return snapshot(world), None

    def _stores(self) -> dict[str, Store]:
        scope = self.scope
        stores = {
            f"store{n}": Store(f"store{n}", kind, self.rules, scope.inline, scope.locks, tasked=scope.tasked)
            for n, kind in enumerate(scope.stores)
        }
        for name, read in scope.reads.items():
            stores[name].reads = frozenset(read)
        if scope.feeds:
            stores["fed"] = Store("fed", scope.fed, self.rules, inline=True, fed_by=scope.feeds)
        if scope.collects:
            for store in stores.values():
                store.leaves_out = True
            stores["letters"] = Store("letters", scope.collects, self.rules, scope.inline, scope.locks, collects=True)
        return stores

    def _successors(self, before: bytes) -> Iterator[tuple[World, str]]:
        for number in range(len(enabled(restored(before), self.scope))):
            planned: list[int] | None = []
            while planned is not None:
                world = restored(before)
                event = enabled(world, self.scope)[number]
                chance = choices_of(world)
                chance.planned, chance.made = planned, []
                self.steps += 1
                try:
                    take(world, event)
                except AssertionError as violation:
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
