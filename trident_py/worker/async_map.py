"""`AsyncMapStep`: a row operation whose function waits, for many rows at the same time. Pickled into tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar

from attrs import frozen
from tenacity import AsyncRetrying, stop_after_attempt, wait_random_exponential

from trident_py.rows.row import Row
from trident_py.worker.pipeline import Step, Values

PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.1, 5.0
"""The longest random pause before a call is repeated: the first time, and at last. It doubles each time."""


class _Loop:
    """The event loop of a thread: the same one for all batches, because a client can only be used in its loop."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def __del__(self) -> None:
        self.runner.close()


_kept = threading.local()


def _runner() -> asyncio.Runner:
    if not hasattr(_kept, "loop"):
        _kept.loop = _Loop()
    runner: asyncio.Runner = _kept.loop.runner
    return runner


class _RowError(Exception):
    """The call for the row at ``position`` raised ``error``."""

    def __init__(self, position: int, error: Exception) -> None:
        super().__init__(position, error)
        self.position, self.error = position, error


_MISSING = object()


@frozen(kw_only=True)
class AsyncMapStep(Step):
    """Maps each row to one row; the output has the order of the input.

    Attributes:
        fn: returns an awaitable of the new row.
        in_flight: the number of rows whose calls run at the same time.
        retries: how often a call that raises is repeated.
        timeout: the seconds that one call may take; None: no limit.
    """

    fn: Callable[[Row], Awaitable[Any]]
    in_flight: int
    retries: int
    timeout: float | None
    makes_values: ClassVar[bool] = True

    @property
    def user_code(self) -> object:
        return self.fn

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        """Call the function on each row, and wait for all of them; the first call that fails ends the others."""
        try:
            return _runner().run(self._all(list(self._views(iter(rows)))))
        except _RowError as failed:
            next(islice(views, failed.position, None))  # so the message names this row
            raise failed.error from failed.error.__cause__

    async def _all(self, rows: Sequence[Row]) -> list[Any]:
        made, numbered = [_MISSING] * len(rows), enumerate(rows)

        async def call_each() -> None:
            for number, row in numbered:
                try:
                    made[number] = await self._call_again(row)
                except Exception as error:
                    raise _RowError(number, error) from error

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.in_flight, len(rows))):
                    group.create_task(call_each())
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        if _MISSING in made:
            raise _RowError(made.index(_MISSING), RuntimeError(f"{self.title}: the call cancelled itself"))
        return made

    async def _call_again(self, row: Row) -> Any:
        if not self.retries:
            return await self._call(row)
        pauses = wait_random_exponential(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        again = AsyncRetrying(stop=stop_after_attempt(self.retries + 1), wait=pauses, reraise=True)
        return await again(self._call, row)

    async def _call(self, row: Row) -> Any:
        try:
            async with asyncio.timeout(self.timeout) as limit:
                return await self.fn(row)
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(f"no answer within {self.timeout:g} s") from error
            raise
