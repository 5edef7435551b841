"""The threads of a state's shards: each shard is used by one thread only, all of them side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from attrs import define, field

from trident_py.states.sql.shard import Shard

P = TypeVar("P")
R = TypeVar("R")


@define(eq=False)
class ShardThreads:
    """Shards with a thread for each.

    Attributes:
        shards: the shards, by number.
    """

    shards: Sequence[Shard]
    _threads: list[ThreadPoolExecutor] = field(factory=list, init=False)
    _begun: list[Future[None]] = field(factory=list, init=False)

    def start(self, name: str) -> None:
        """Make the threads; ``name`` is the beginning of their names."""
        self._threads = [ThreadPoolExecutor(1, f"{name}-shard-{number}") for number in range(len(self.shards))]

    def each(self, call: Callable[[Shard], R], wanted: Sequence[bool] | None = None) -> list[R]:
        """Call ``call`` for the shards that are wanted, or all; wait until all calls have ended.

        If some raise, the error of the first of these shards is raised.
        """
        chosen = wanted or [True] * len(self.shards)
        calls = zip(self._threads, self.shards, chosen, strict=True)
        return _ended([thread.submit(call, shard) for thread, shard, is_wanted in calls if is_wanted])

    def each_with(self, parts: Sequence[P], call: Callable[[Shard, P], R]) -> list[R]:
        """Call ``call`` for each shard and its part, as `each` does."""
        calls = zip(self._threads, self.shards, parts, strict=True)
        return _ended([thread.submit(call, shard, part) for thread, shard, part in calls])

    def begin(self, number: int, call: Callable[[Shard], None]) -> None:
        """Call ``call`` for a shard, and don't wait for its end, as `settle` does."""
        self._begun.append(self._threads[number].submit(call, self.shards[number]))

    def settle(self) -> None:
        """Wait for all calls that were begun, and raise their first error."""
        begun, self._begun = self._begun, []
        _ended(begun)

    def abandon(self) -> None:
        """Wait for all calls that were begun; their errors don't matter any more."""
        wait(self._begun)
        self._begun = []

    def close(self) -> None:
        """End the threads."""
        for thread in self._threads:
            thread.shutdown()
        self._threads = []


def _ended(calls: Sequence[Future[R]]) -> list[R]:
    wait(calls)
    return [call.result() for call in calls]
