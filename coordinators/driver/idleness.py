"""Whoever waits until a topology has nothing left to do."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from coordinators.protocol.messages import IdleWanted


@define
class IdleWaiters:
    """The requests to be told, each with the number of asks that there had been when it came."""

    _waiting: list[tuple[int, IdleWanted]] = field(factory=list, init=False)

    def add(self, wanted: IdleWanted, asked: int) -> None:
        """Have ``wanted`` wait; a check that begins after ask number ``asked`` counts."""
        self._waiting.append((asked, wanted))

    def answer(self, is_idle_since: Callable[[int], bool]) -> None:
        """Tell those for whom ``is_idle_since`` says, of the number of asks then, that nothing is left."""
        for asked, wanted in self._waiting[:]:
            if is_idle_since(asked):
                self._waiting.remove((asked, wanted))
                wanted.done(None)

    def refuse(self, error: BaseException) -> None:
        """Tell all of them that they wait in vain."""
        for _, wanted in self._waiting:
            wanted.done(error)
        self._waiting.clear()
