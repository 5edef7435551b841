"""Calls to Spark with a time limit, because Spark may never answer; first of all the check that it is alive."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from queue import SimpleQueue
from typing import Any, TypeVar

from attrs import define, field
from pyspark.sql import SparkSession

from trident_py.spark.jobs import parallelism

A = TypeVar("A")

ALIVE_WITHIN_SECONDS = 10.0
"""A JVM that collects garbage may answer this late, and is still alive."""


@define(eq=False)
class AskingThreads:
    """Threads that run calls, one at a time each.

    They are kept, because each has its own connection to the JVM, and opening one takes milliseconds. A thread whose
    call has no answer is not reused, and the end of the process doesn't wait for it.
    """

    _idle: list[SimpleQueue[tuple[Callable[[], Any], Future[Any]]]] = field(factory=list, init=False)

    def answer(self, question: Callable[[], A], seconds: float) -> A:
        """Return the result of ``question()``.

        Raises:
            TimeoutError: there is no answer yet.
        """
        future: Future[A] = Future()
        try:
            questions = self._idle.pop()
        except IndexError:
            questions = SimpleQueue()
            threading.Thread(target=self._run, args=(questions,), name="trident-asking-spark", daemon=True).start()
        questions.put((question, future))
        return future.result(seconds)

    def forget(self) -> None:
        """Abandon all threads: after a fork, they exist only in the parent process."""
        self._idle.clear()

    def _run(self, questions: SimpleQueue[tuple[Callable[[], Any], Future[Any]]]) -> None:
        while True:
            question, future = questions.get()
            try:
                future.set_result(question())
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)
            self._idle.append(questions)


_threads = AskingThreads()
os.register_at_fork(after_in_child=_threads.forget)


def answer_within(question: Callable[[], A], seconds: float) -> A:
    """Return the result of ``question()``, run on a thread that may continue to wait after the time limit.

    Raises:
        TimeoutError: there is no answer yet.
    """
    return _threads.answer(question, seconds)


class Life(Enum):
    """The known condition of the JVM or server of a session."""

    ALIVE = "alive"
    GONE = "gone"
    SILENT = "silent"
    """It has not answered in time, but it may still answer."""


def life_of(session: SparkSession, seconds: float = ALIVE_WITHIN_SECONDS) -> Life:
    """Check a session by a call that only the JVM or server can answer, and only if its context is not stopped."""
    try:
        answer_within(lambda: parallelism(session), seconds)
    except TimeoutError:
        return Life.SILENT
    except Exception as error:  # noqa: BLE001 - any other error means that Spark can't answer
        return Life.SILENT if _is_out_of_files(error) else Life.GONE
    return Life.ALIVE


def _is_out_of_files(error: BaseException | None) -> bool:
    """Return whether no descriptor was free for the call to Spark, which says nothing about Spark itself."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__ or error.__context__
    return False
