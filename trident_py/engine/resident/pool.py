"""`ResidentPool`: decides which resident task runs which request, and whose answer counts. Pure.

A connection has at most one request at a time. Each request gets a number that is never used twice, and only the
answer with the awaited number counts. A connection is closed if it missed a deadline, if its request was cancelled, or
if it answered out of turn. It is never used again, because a late answer may still come from it. Each request ends in
exactly one of two ways: its answer is taken, or it is given back and runs as a Spark job.

Spark may start a second copy of a task. It waits as a spare: a request goes only to the first connection of each task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeAlias

from attrs import define, field, frozen

from trident_py.worker.wire import Frame


@frozen(kw_only=True, eq=False)
class Request:
    """The work for one resident task.

    Attributes:
        key: identifies it for `cancel`.
        until: the monotonic moment by which it must be answered.
        frame: its rows; the number is added to the head.
    """

    key: Hashable
    until: float
    frame: Frame


@frozen
class Send:
    """Send ``request`` over ``link``, as ``number``."""

    link: int
    number: int
    request: Request


@frozen
class Take:
    """``answer`` is the result of ``request``."""

    request: Request
    answer: Frame


@frozen
class GiveBack:
    """``request`` must run as a Spark job, unless it was cancelled; ``is_late`` if a task had it for too long."""

    request: Request
    is_late: bool = False


@frozen
class Close:
    """Close ``link``, which is not used again."""

    link: int


Action: TypeAlias = Send | Take | GiveBack | Close


@define
class Awaited:
    """A request that a task has.

    Attributes:
        place: the task's position in the code, as it reported it last; empty: it has reported none.
    """

    task: int
    number: int
    request: Request
    place: str = ""


@define
class ResidentPool:
    """The connections of a process, by the number of each, and the requests of its leadership.

    Attributes:
        answered: how many requests have an answer.
        given_back: how many must run as jobs.
        dropped: how many answers were not awaited.
    """

    answered: int = field(default=0, init=False)
    given_back: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    _tasks: dict[int, int] = field(factory=dict, init=False)  # of each connection, in the order in which they came
    _awaited: dict[int, Awaited] = field(factory=dict, init=False)
    _waiting: deque[Request] = field(factory=deque, init=False)
    _last: int = field(default=0, init=False)

    @property
    def is_there(self) -> bool:
        """Whether there is a task that answers, now or later."""
        return bool(self._tasks)

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return not (self._awaited or self._waiting)

    @property
    def links(self) -> tuple[int, ...]:
        """The connections."""
        return tuple(self._tasks)

    @property
    def count(self) -> int:
        """How many tasks there are, without spares."""
        return len({*self._tasks.values()})

    @property
    def awaited(self) -> Mapping[int, Awaited]:
        """The request of each task that has one, by connection."""
        return self._awaited

    def join(self, link: int, task: int) -> list[Action]:
        """Take the new connection ``link`` of ``task``."""
        self._tasks[link] = task
        return list(self._sent())

    def add(self, request: Request) -> list[Action]:
        """Take a request."""
        self._waiting.append(request)
        return [*self._sent(), *self._hopeless()]

    def answer(self, link: int, number: int, answer: Frame) -> list[Action]:
        """Take the answer of a task."""
        awaited = self._awaited.get(link)
        if awaited is None or awaited.number != number:
            self.dropped += 1
            return self._closed(link)
        del self._awaited[link]
        self.answered += 1
        return [Take(awaited.request, answer), *self._sent()]

    def stand(self, link: int, number: int, place: str) -> None:
        """Take a task's position in the code, unless its request is not awaited any more."""
        awaited = self._awaited.get(link)
        if awaited is not None and awaited.number == number:
            awaited.place = place

    def leave(self, link: int) -> list[Action]:
        """Take the end of a connection."""
        return self._left(link)

    def cancel(self, key: Hashable) -> list[Action]:
        """Abandon the request ``key``, if it is under way."""
        for request in [each for each in self._waiting if each.key == key]:
            self._waiting.remove(request)
            return [self._given_back(request)]
        links = [link for link, awaited in self._awaited.items() if awaited.request.key == key]
        return [action for link in links for action in self._closed(link)]

    def release(self) -> list[Action]:
        """Abandon all requests: the leadership that has made them is over."""
        requests = [*self._waiting, *(awaited.request for awaited in self._awaited.values())]
        return [action for request in requests for action in self.cancel(request.key)]

    def expire(self, now: float) -> list[Action]:
        """Abandon the requests that had to be answered by ``now``."""
        waited = [request for request in self._waiting if request.until <= now]
        self._waiting = deque(each for each in self._waiting if each not in waited)
        late = [link for link, awaited in self._awaited.items() if awaited.request.until <= now]
        return [
            *map(self._given_back, waited),
            *(action for link in late for action in self._closed(link, is_late=True)),
        ]

    def _closed(self, link: int, is_late: bool = False) -> list[Action]:
        return [Close(link), *self._left(link, is_late)] if link in self._tasks else []

    def _left(self, link: int, is_late: bool = False) -> list[Action]:
        self._tasks.pop(link, None)
        awaited = self._awaited.pop(link, None)
        given_back = [] if awaited is None else [self._given_back(awaited.request, is_late)]
        return [*given_back, *self._sent(), *self._hopeless()]

    def _sent(self) -> Iterator[Action]:
        taken = set[int]()
        for link, task in self._tasks.items():
            if task in taken:
                continue
            taken.add(task)
            if link not in self._awaited and self._waiting:
                self._last += 1
                awaited = self._awaited[link] = Awaited(task, self._last, self._waiting.popleft())
                yield Send(link, awaited.number, awaited.request)

    def _hopeless(self) -> Iterator[Action]:
        while self._waiting and not self._tasks:
            yield self._given_back(self._waiting.popleft())

    def _given_back(self, request: Request, is_late: bool = False) -> GiveBack:
        self.given_back += 1
        return GiveBack(request, is_late)
