"""What an exception on the driver means, by its place; the session is asked, never the exception."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from coordinators.protocol.messages import Diagnosis, FailureKind
from trident_py.errors import FailedException, FencedError, SparkLost, SpoutError, StoreBusyException
from trident_py.spark.asking import Life
from trident_py.spark.failures import Place, diagnosed
from trident_py.worker.failures import TaskFailed, TaskFailure


def at(place: Place, error: BaseException, life: Life = Life.ALIVE) -> Diagnosis:
    return diagnosed(error, place, "topology 't', attempt 1:0", lambda: life)


@pytest.mark.parametrize("place", list(Place))
@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("my broker hung up"),
        EOFError(),
        BrokenPipeError(),
        RuntimeError("SparkContext was shut down"),
        RuntimeError("x\ntrident_py.errors.FencedError: not really"),
        SystemExit(1),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_what_user_code_raises_counts_while_the_session_answers(place: Place, error: BaseException) -> None:
    assert at(place, error) == Diagnosis(error, FailureKind.USER_CODE)


@pytest.mark.parametrize("error", [ValueError("anything"), ConnectionResetError(), Py4JNetworkError()], ids=repr)
def test_where_the_session_is_gone_the_topology_ends_whatever_was_raised(error: Exception) -> None:
    found = at(Place.JOB, error, Life.GONE)
    assert found.kind is FailureKind.FATAL
    assert isinstance(found.cause, SparkLost)
    assert found.cause.__cause__ is error
    assert str(found.cause).startswith("topology 't', attempt 1:0: the Spark session is gone")


def test_where_the_session_does_not_answer_in_time_nobody_is_to_blame() -> None:
    assert at(Place.JOB, ValueError("anything"), Life.SILENT).kind is FailureKind.INTERRUPTED


def test_what_spark_breaks_off_does_not_count() -> None:
    assert at(Place.JOB, Py4JError("an executor was lost")).kind is FailureKind.INTERRUPTED


@pytest.mark.parametrize("place", list(Place))
def test_our_errors_end_a_topology_without_a_question_to_spark(place: Place) -> None:
    for error in (FencedError("newer"), SpoutError("cut")):
        assert at(place, error, Life.SILENT) == Diagnosis(error, FailureKind.FATAL)
    busy = StoreBusyException("locked")
    kind = FailureKind.INTERRUPTED if place is Place.SPOUT else FailureKind.BUSY
    assert at(place, busy, Life.SILENT) == Diagnosis(busy, kind)


def test_an_emitter_whose_source_is_away_is_waited_for_and_nobody_else() -> None:
    failed = FailedException("not now")
    kinds = {place: at(place, failed).kind for place in Place}
    assert kinds.pop(Place.SPOUT) is FailureKind.UNREACHABLE
    assert set(kinds.values()) == {FailureKind.USER_CODE}


def test_what_a_task_has_told_is_taken_as_data() -> None:
    spark_said = RuntimeError("Job aborted")
    user = TaskFailed(TaskFailure(kind=FailureKind.USER_CODE, text="ValueError: no", txid=3))
    found = at(Place.JOB, user, Life.SILENT)
    assert (found.kind, found.txid, str(found.cause)) == (FailureKind.USER_CODE, 3, "ValueError: no")
    told = TaskFailed(TaskFailure(kind=FailureKind.FATAL, text="file 'a' was cut", error="SpoutError"))
    told.__cause__ = spark_said
    found = at(Place.JOB, told)
    assert found.kind is FailureKind.FATAL
    assert isinstance(found.cause, SpoutError)
    assert found.cause.__cause__ is spark_said
