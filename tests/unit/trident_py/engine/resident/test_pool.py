"""Which resident task runs which request, and whose answer counts: all orders of events at small scope."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import TypeAlias

import pytest
from attrs import define, field

from trident_py.engine.resident.pool import Action, Close, GiveBack, Request, ResidentPool, Send, Take
from trident_py.worker.wire import Frame

TASKS = {1: 0, 2: 0, 3: 1}
"""The task of each connection: the second is another copy of the first's."""

KEYS = ("A", "B", "C")
DEADLINE = 1.0

Asked: TypeAlias = tuple[str, int]
"""The key of a request, and the leadership that has made it."""


class WrongError(AssertionError):
    """The pool has broken a rule."""


@define
class Link:
    """A connection as it is in truth: its task has requests, and may answer each of them, even twice."""

    is_open: bool = True
    unanswered: list[tuple[int, Asked]] = field(factory=list)  # with the number of each
    answered: list[tuple[int, Asked]] = field(factory=list)


@define
class World:
    """A pool, the tasks, and what became of each request."""

    pool: ResidentPool
    links: dict[int, Link] = field(factory=dict)
    begun: list[str] = field(factory=list)
    ended: list[str] = field(factory=list)
    cancelled: list[str] = field(factory=list)
    is_late: bool = False
    leadership: int = 0
    slow: list[str] = field(factory=list)  # what a task had when the deadline came

    def events(self) -> Iterator[Callable[[World], list[Action]]]:
        """Yield what may happen next, each for a copy of this world."""
        yield from (partial(World.joined, link=link) for link in TASKS.keys() - self.links.keys())
        yield from (partial(World.begin, key=key) for key in KEYS[len(self.begun) : len(self.begun) + 1])
        under_way = [key for key in self.begun if key not in self.cancelled and key not in self.ended]
        yield from (partial(World.cancel, key=key) for key in under_way)
        if not self.is_late:
            yield World.pass_time
        if not self.leadership:
            yield World.lead_again
        for number, link in self.links.items():
            yield from (partial(World.answer, link=number, at=at) for at in range(len(link.unanswered)))
            if link.answered:
                yield partial(World.answer_again, link=number)
            if link.is_open:
                yield partial(World.die, link=number)

    def joined(self, link: int) -> list[Action]:
        self.links[link] = Link()
        return self.pool.join(link, TASKS[link])

    def lead_again(self) -> list[Action]:
        """The leadership ends, and the next one of this process asks for the same again."""
        actions = self.pool.release()
        self.carry_out(actions)
        ensure(set(self.ended) == set(self.begun), "a request outlives its leadership")
        self.leadership, self.begun, self.ended, self.cancelled = 1, [], [], []
        return []

    def begin(self, key: str) -> list[Action]:
        self.begun.append(key)
        until = DEADLINE + 1 if self.is_late else DEADLINE
        return self.pool.add(Request(key=key, until=until, frame=Frame({"leadership": self.leadership})))

    def cancel(self, key: str) -> list[Action]:
        self.cancelled.append(key)
        return self.pool.cancel(key)

    def answer(self, link: int, at: int) -> list[Action]:
        number, asked = self.links[link].unanswered.pop(at)
        self.links[link].answered.append((number, asked))
        return self.pool.answer(link, number, Frame({"asked": asked}))

    def answer_again(self, link: int) -> list[Action]:
        number, asked = self.links[link].answered.pop()
        return self.pool.answer(link, number, Frame({"asked": asked}))

    def die(self, link: int) -> list[Action]:
        self.links[link] = Link(is_open=False)
        return self.pool.leave(link)

    def pass_time(self) -> list[Action]:
        self.is_late = True
        self.slow = [key for link in self.links.values() if link.is_open for _, (key, _) in link.unanswered]
        return self.pool.expire(DEADLINE)

    def carry_out(self, actions: list[Action]) -> None:
        """Carry the actions out, and check each rule."""
        for action in actions:
            match action:
                case Send(link, number, request):
                    self.send(link, number, request)
                case Close(link):
                    self.links[link].is_open = False
                case Take(request, answer):
                    asked = (request.key, request.frame.head["leadership"])
                    ensure(answer.head["asked"] == asked, f"{asked} got the answer to {answer.head['asked']}")
                    self.end(str(request.key))
                case GiveBack(request, is_late):
                    ensure(is_late == (request.key in self.slow), f"{request.key} was slow: {not is_late}")
                    self.end(str(request.key))
        self.slow = []
        busy = {link for link, each in self.links.items() if each.is_open and each.unanswered}
        ensure(len(busy) == len(set(self.begun) - set(self.ended)) or not self.free(), "a task is free, and one waits")

    def send(self, link: int, number: int, request: Request) -> None:
        key = str(request.key)
        ensure(self.links[link].is_open, f"{key} goes over a connection that is closed")
        ensure(not self.links[link].unanswered, f"{key} goes to a task that has a request")
        first = next(each for each in self.links if TASKS[each] == TASKS[link] and self.links[each].is_open)
        ensure(link == first, f"{key} goes to a spare")
        self.links[link].unanswered.append((number, (key, request.frame.head["leadership"])))

    def end(self, key: str) -> None:
        ensure(key not in self.ended, f"{key} ends twice")
        self.ended.append(key)

    def free(self) -> bool:
        """Whether a task could take a request."""
        firsts = {TASKS[link]: link for link in reversed(list(self.links)) if self.links[link].is_open}
        return any(not self.links[link].unanswered for link in firsts.values())


def ensure(holds: bool, what: str) -> None:
    if not holds:
        raise WrongError(what)


def explored(pool: ResidentPool, depth: int) -> int:
    """Run all orders of up to ``depth`` events; return how many worlds there were."""
    worlds, seen = deque([(World(pool), 0)]), set[str]()
    while worlds:
        world, steps = worlds.popleft()
        for event in world.events() if steps < depth else ():
            after = deepcopy(world)
            after.carry_out(event(after))
            if (state := repr(after)) not in seen:
                seen.add(state)
                worlds.append((after, steps + 1))
    return len(seen)


def test_each_request_ends_once_and_with_its_own_answer() -> None:
    assert explored(ResidentPool(), 8) > 10_000


def test_a_position_belongs_to_the_request_that_the_task_has() -> None:
    pool = ResidentPool()
    pool.join(1, 0)
    pool.add(Request(key="A", until=DEADLINE, frame=Frame({})))
    pool.stand(1, 1, "in first")
    assert [(each.task, each.place) for each in pool.awaited.values()] == [(0, "in first")]
    pool.answer(1, 1, Frame({}))
    assert not pool.awaited
    pool.add(Request(key="B", until=DEADLINE, frame=Frame({})))
    pool.stand(1, 1, "in first")  # late
    pool.stand(2, 2, "elsewhere")
    assert [each.place for each in pool.awaited.values()] == [""]


class MatchesAnswersByOrder(ResidentPool):
    def answer(self, link: int, number: int, answer: Frame) -> list[Action]:
        awaited = self._awaited.get(link)
        return super().answer(link, awaited.number if awaited else number, answer)


class UsesAConnectionAgainAfterATimeout(ResidentPool):
    def expire(self, now: float) -> list[Action]:
        return [each for each in super().expire(now) if not isinstance(each, Close)] + self._again()

    def _closed(self, link: int, is_late: bool = False) -> list[Action]:
        awaited = self._awaited.pop(link, None)
        return [GiveBack(awaited.request, is_late)] if awaited else []

    def _again(self) -> list[Action]:
        return list(self._sent())


class LosesWhatALostTaskHad(ResidentPool):
    def _left(self, link: int, is_late: bool = False) -> list[Action]:
        return [each for each in super()._left(link, is_late) if not isinstance(each, GiveBack)]


class UsesSpares(ResidentPool):
    def join(self, link: int, task: int) -> list[Action]:
        return super().join(link, link)


class SendsToABusyTask(ResidentPool):
    def cancel(self, key: object) -> list[Action]:
        actions = super().cancel(key)
        return [each for each in actions if not isinstance(each, Close)]


class CountsFromOneInEachLeadership(ResidentPool):
    def release(self) -> list[Action]:
        requests = [*self._waiting, *(awaited.request for awaited in self._awaited.values())]
        self._waiting.clear()
        self._awaited.clear()
        self._last = 0
        return [GiveBack(request) for request in requests]


class KeepsWhatWaitsForTheNextLeadership(ResidentPool):
    def release(self) -> list[Action]:
        waiting = [*self._waiting]
        self._waiting.clear()
        actions = super().release()
        self._waiting.extend(waiting)
        return actions


class BlamesWhatOnlyWaited(ResidentPool):
    def expire(self, now: float) -> list[Action]:
        actions = super().expire(now)
        return [GiveBack(each.request, is_late=True) if isinstance(each, GiveBack) else each for each in actions]


@pytest.mark.parametrize(
    "mutant",
    [
        MatchesAnswersByOrder,
        UsesAConnectionAgainAfterATimeout,
        LosesWhatALostTaskHad,
        UsesSpares,
        SendsToABusyTask,
        CountsFromOneInEachLeadership,
        KeepsWhatWaitsForTheNextLeadership,
        BlamesWhatOnlyWaited,
    ],
)
def test_without_one_of_its_rules_it_is_found(mutant: type[ResidentPool]) -> None:
    with pytest.raises(WrongError):
        explored(mutant(), 6)
