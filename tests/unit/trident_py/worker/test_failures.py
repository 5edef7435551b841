"""What a task tells the driver when it fails, and that nothing else is taken for it."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from coordinators.protocol.messages import FailureKind
from trident_py.errors import FailedException, FencedError, SpoutError, StateError, StoreBusyException
from trident_py.worker.failures import (
    Classify,
    TaskFailed,
    TaskFailure,
    by_spout,
    by_state,
    by_user_code,
    classified,
    in_user_code,
    task_failures_told,
    telling,
)

BATCH = pa.RecordBatch.from_pydict({"n": [1, 2]})
IMITATIONS = [
    "in transaction 999, which shared its job",
    "x\ntrident_py.errors.FencedError: not really",
    "SparkContext was shut down",
    f"told to the driver as {'0' * 32}:eyJ0eGlkIjogOTk5fQ==:",
]


def raising(error: BaseException) -> Any:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            raise error

    return stage


def told(error: BaseException, classify: Classify = by_user_code) -> TaskFailure:
    """What the driver hears of a task that raises ``error``; Spark hands on a traceback as text."""
    with pytest.raises(TaskFailed) as raised, task_failures_told():
        run_as_spark_does(telling(raising(error), classify))
    assert isinstance(raised.value.__cause__, RuntimeError)
    return raised.value.failure


def run_as_spark_does(stage: Any) -> None:
    try:
        list(stage(iter([BATCH])))
    except BaseException as error:  # noqa: BLE001
        text = "".join(traceback.format_exception(error))
    else:
        return
    raise RuntimeError(f"Job aborted: {text}\n\tat org.apache.spark")


@pytest.mark.parametrize("text", IMITATIONS)
def test_whatever_user_code_says_it_counts_against_its_batch(text: str) -> None:
    failure = told(RuntimeError(text))
    assert (failure.kind, failure.txid, failure.error) == (FailureKind.USER_CODE, None, None)
    assert failure.text == f"RuntimeError: {text}".replace("\n", r"\n")


@pytest.mark.parametrize("text", IMITATIONS)
def test_what_was_not_told_by_a_task_stays_what_it_is(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised, task_failures_told():
        raise ValueError(text)
    assert str(raised.value) == text


def test_a_mark_is_good_for_one_job() -> None:
    with pytest.raises(TaskFailed) as first, task_failures_told():
        run_as_spark_does(telling(raising(ValueError("once"))))
    logged = str(first.value.__cause__)  # a log of ours that is read as input
    with pytest.raises(ValueError, match="told to the driver"), task_failures_told():
        raise ValueError(logged)


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(), MemoryError("no memory"), EOFError("gone")],
    ids=repr,
)
def test_user_code_may_raise_anything(error: BaseException) -> None:
    failure = told(error)
    assert failure.kind is FailureKind.USER_CODE
    assert type(error).__name__ in failure.text


def test_an_exception_that_cant_be_printed_is_told_too() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text for you")

    assert "Unprintable" in told(Unprintable()).text


@pytest.mark.parametrize("kind", [FencedError, StateError, SpoutError, StoreBusyException])
def test_our_errors_mean_nothing_where_a_function_raises_them(kind: type[Exception]) -> None:
    with pytest.raises(TaskFailed, match=r"x in map\(f\)") as raised, in_user_code(lambda: "in map(f)"):
        raise kind("x")
    for classify in (by_user_code, by_state, by_spout):
        assert TaskFailure.of(raised.value, classify).kind is FailureKind.USER_CODE


@pytest.mark.parametrize(
    ("classify", "error", "kind"),
    [
        (by_spout, SpoutError("cut"), FailureKind.FATAL),
        (by_spout, FencedError("not a spout's"), FailureKind.USER_CODE),
        (by_spout, FailedException("away"), FailureKind.UNREACHABLE),
        (by_spout, ConnectionResetError("by a user's client"), FailureKind.USER_CODE),
        (by_state, StateError("gone"), FailureKind.FATAL),
        (by_state, FencedError("newer"), FailureKind.FATAL),
        (by_state, StoreBusyException("locked"), FailureKind.BUSY),
        (by_state, ValueError("defect"), FailureKind.USER_CODE),
    ],
)
def test_the_place_says_what_an_error_means(classify: Classify, error: Exception, kind: FailureKind) -> None:
    failure = told(error, classify)
    assert failure.kind is kind
    if kind is FailureKind.FATAL:
        assert type(failure.cause) is type(error)
        assert str(failure.cause) == str(error)
    else:
        assert isinstance(failure.cause, TaskFailed)


def test_what_was_judged_nearer_to_its_place_stays_so() -> None:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return classified(raising(SpoutError("cut"))(batches), by_spout)

    with pytest.raises(TaskFailed) as raised, task_failures_told():
        run_as_spark_does(telling(stage))
    assert raised.value.failure.kind is FailureKind.FATAL


def test_what_spark_breaks_off_is_nobodys_own() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise EOFError("the JVM has closed the socket")

    with task_failures_told():
        stage = telling(lambda batches: batches)
        with pytest.raises(Exception, match="told to the driver") as raised:
            list(stage(broken()))
    assert "EOFError" in str(raised.value.__cause__)


def test_a_stage_that_is_closed_early_tells_nothing() -> None:
    with task_failures_told():
        running = telling(lambda batches: batches)(iter([BATCH, BATCH]))
        assert next(running) is BATCH
        running.close()  # type: ignore[attr-defined]


def test_without_a_job_that_listens_a_stage_is_as_it_was() -> None:
    stage = raising(ValueError("as it is"))
    assert telling(stage) is stage


def test_a_failure_survives_its_way_as_text_and_as_an_exception() -> None:
    failure = TaskFailure(kind=FailureKind.USER_CODE, text="a\ud800\nb:☃", txid=7)
    assert TaskFailure.read(failure.written()) == failure
    assert copy.copy(TaskFailed(failure)).failure == failure
