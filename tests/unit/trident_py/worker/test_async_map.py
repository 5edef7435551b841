"""`map_async`: coroutines for several rows at once, in the order of the rows, with retries and a limit of time."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from trident_py import FixedBatchSpout, TridentTopology
from trident_py.errors import TopologyError
from trident_py.graph.rowwise import async_map_rows
from trident_py.rows.schema import schema_of
from trident_py.worker.pipeline import tagged

SOURCE = schema_of("n bigint")


def mapped(fn: Any, rows: list[Any], **settings: Any) -> list[Any]:
    given = {"in_flight": 4, "retries": 0, "timeout": 30.0, **settings}
    step = async_map_rows("map_async(fn)", fn, "n bigint", **given).step(SOURCE)
    return step(rows)


def numbers(count: int) -> list[tuple[int]]:
    return [(n,) for n in range(count)]


async def twice(row: Any) -> tuple[int]:
    await asyncio.sleep(0)
    return (2 * row.n,)


@pytest.mark.parametrize("in_flight", [1, 3, 100])
def test_so_many_calls_run_at_once_and_the_output_has_the_order_of_the_rows(in_flight: int) -> None:
    running, most = set[int](), list[int]()
    everyone = asyncio.Event()

    async def in_any_order(row: Any) -> tuple[int]:
        running.add(row.n)
        most.append(len(running))
        if len(running) == min(in_flight, 10):
            everyone.set()
        await everyone.wait()
        for _ in range(10 - row.n):  # the first row ends last
            await asyncio.sleep(0)
        running.remove(row.n)
        return (2 * row.n,)

    assert mapped(in_any_order, numbers(10), in_flight=in_flight) == [(2 * n,) for n in range(10)]
    assert max(most) == min(in_flight, 10)


def test_no_rows_need_no_call() -> None:
    assert mapped(twice, []) == []


def test_a_call_that_fails_names_its_row_and_ends_the_others() -> None:
    ended = set[int]()

    async def failing(row: Any) -> tuple[int]:
        try:
            if row.n == 2:
                raise LookupError("nobody there")
            await asyncio.Event().wait()
        finally:
            ended.add(row.n)
        raise AssertionError

    with pytest.raises(LookupError, match="nobody there") as caught:
        mapped(failing, numbers(9))
    assert caught.value.__notes__ == ["in map_async(fn), at Row(n=2)"]
    assert ended == {0, 1, 2, 3}
    assert mapped(twice, numbers(2)) == [(0,), (2,)], "the next batch isn't disturbed"


def test_a_call_is_repeated_and_the_last_error_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.worker.async_map.PAUSE_SECONDS", 0.0)
    calls = Counter[int]()

    async def unsteady(row: Any) -> tuple[int]:
        calls[row.n] += 1
        if calls[row.n] <= row.n:
            raise OSError(f"try {calls[row.n]}")
        return (calls[row.n],)

    assert mapped(unsteady, numbers(3), retries=2) == [(1,), (2,), (3,)]
    calls.clear()
    with pytest.raises(OSError, match="try 2"):
        mapped(unsteady, numbers(3), retries=1)


def test_a_call_that_takes_too_long_fails_and_what_it_raises_itself_is_told_as_it_is() -> None:
    async def hanging(row: Any) -> tuple[int]:
        await asyncio.Event().wait()
        raise AssertionError

    async def told(row: Any) -> tuple[int]:
        raise TimeoutError("the server says so")

    with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
        mapped(hanging, numbers(1), timeout=timedelta(milliseconds=10))
    with pytest.raises(TimeoutError, match="the server says so"):
        mapped(told, numbers(1))


def test_a_call_that_cancels_itself_loses_no_row() -> None:
    async def cancelling(row: Any) -> tuple[int]:
        if row.n == 1:
            raise asyncio.CancelledError
        return (row.n,)

    with pytest.raises(RuntimeError, match="the call cancelled itself") as caught:
        mapped(cancelling, numbers(3), in_flight=1)
    assert "at Row(n=1)" in caught.value.__notes__[0]


def test_a_client_may_be_kept_in_its_loop_from_batch_to_batch() -> None:
    loops = set[Any]()

    async def kept(row: Any) -> tuple[int]:
        loops.add(asyncio.get_running_loop())
        return (row.n,)

    for _ in range(3):
        mapped(kept, numbers(2))
    assert len(loops) == 1


def test_a_wrong_row_is_refused_as_in_map() -> None:
    async def wrong(row: Any) -> Any:
        return row.n

    with pytest.raises(TypeError, match="must give a tuple, list or Row for each row, not 0"):
        mapped(wrong, numbers(1))


def test_transactions_that_share_a_job_are_called_one_after_the_other() -> None:
    operation = async_map_rows("map_async(twice)", twice, "n bigint", in_flight=2, retries=0, timeout=None)
    step = tagged(operation.make, schema_of("txid bigint, n bigint"))
    assert step([(7, 1), (7, 2), (8, 1)]) == [(7, 2), (7, 4), (8, 2)]


@pytest.mark.parametrize(
    ("fn", "settings", "words"),
    [
        (lambda row: (1,), {}, "must be made by 'async def', unlike <function"),
        (twice, {"in_flight": 0}, "in_flight is a whole number of at least 1, not 0"),
        (twice, {"retries": -1}, "retries is a whole number of at least 0, not -1"),
        (twice, {"timeout": 0}, "timeout is more than 0 seconds, or None for no limit, not 0"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_declared(fn: Any, settings: dict[str, Any], words: str) -> None:
    stream = TridentTopology("t").new_stream("numbers", FixedBatchSpout("n bigint", 1, (1,)))
    with pytest.raises(TopologyError, match=words):
        stream.map_async(fn, "n bigint", **settings)


def test_an_object_with_an_asynchronous_call_is_a_function() -> None:
    class Twice:
        async def __call__(self, row: Any) -> tuple[int]:
            return (2 * row.n,)

    assert mapped(Twice(), numbers(2)) == [(0,), (2,)]
