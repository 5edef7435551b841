"""Questions that are never answered hold up nobody else."""

from __future__ import annotations

import errno
import os
import threading
from typing import Any, cast

import pytest
from attrs import define

from trident_py.spark.asking import AskingThreads, Life, answer_within, life_of

WITHIN_SECONDS = 60.0


def test_a_question_without_an_answer_keeps_no_other_waiting() -> None:
    asking, answered = AskingThreads(), threading.Event()
    for _ in range(100):
        with pytest.raises(TimeoutError):
            asking.answer(answered.wait, 0)
    assert asking.answer(lambda: "alive", WITHIN_SECONDS) == "alive"
    answered.set()


def test_a_thread_asks_again_and_again() -> None:
    asking = AskingThreads()
    first = asking.answer(threading.current_thread, WITHIN_SECONDS)
    assert first.daemon
    again = [asking.answer(threading.current_thread, WITHIN_SECONDS) for _ in range(20)]
    assert len({first, *again}) < len(again)


def test_a_forked_process_asks_threads_of_its_own() -> None:
    assert answer_within(lambda: 1, WITHIN_SECONDS) == 1
    child = os.fork()
    if child == 0:
        try:
            os._exit(answer_within(lambda: 7, WITHIN_SECONDS))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_whoever_asks_gets_what_was_raised() -> None:
    asking = AskingThreads()
    with pytest.raises(ZeroDivisionError):
        asking.answer(lambda: 1 // 0, WITHIN_SECONDS)
    with pytest.raises(SystemExit):
        asking.answer(lambda: exit(1), WITHIN_SECONDS)


@define
class Unreachable:
    """A session whose JVM can't be asked."""

    error: Exception

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - PySpark's
        raise RuntimeError("no connection") from self.error


@pytest.mark.parametrize(
    ("number", "life"), [(errno.EMFILE, Life.SILENT), (errno.ENFILE, Life.SILENT), (errno.ECONNREFUSED, Life.GONE)]
)
def test_a_process_without_free_descriptors_does_not_take_spark_for_gone(number: int, life: Life) -> None:
    assert life_of(cast("Any", Unreachable(OSError(number, "no")))) is life
