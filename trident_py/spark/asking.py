"""Questions to Spark that may never be answered, asked with a time limit; first of all whether it is still there."""

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
"""A JVM that collects garbage answers later, and is not gone for that."""


@define(eq=False)
class AskingThreads:
    """Threads that ask, each for one question at a time.

    They stay, as each has a connection of its own to the JVM, and making one takes milliseconds. One whose question has
    no answer is not used for others, nor waited for at the end of the process.
    """

    _idle: list[SimpleQueue[tuple[Callable[[], Any], Future[Any]]]] = field(factory=list, init=False)

    def answer(self, question: Callable[[], A], seconds: float) -> A:
        """Ask ``question()``.

        Raises:
            TimeoutError: nothing, so far.
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
        """Ask none of the threads that there are: they stay behind in the process that this one was forked from."""
        self._idle.clear()

    def _run(self, questions: SimpleQueue[tuple[Callable[[], Any], Future[Any]]]) -> None:
        while True:
            question, future = questions.get()
            try:
                future.set_result(question())
            except BaseException as error:  # noqa: BLE001 - whoever asks gets it
                future.set_exception(error)
            self._idle.append(questions)


_threads = AskingThreads()
os.register_at_fork(after_in_child=_threads.forget)


def answer_within(question: Callable[[], A], seconds: float) -> A:
    """Ask ``question()`` on a thread that may go on waiting.

    Raises:
        TimeoutError: nothing, so far.
    """
    return _threads.answer(question, seconds)


class Life(Enum):
    """What is known of the JVM or server behind a session."""

    ALIVE = "alive"
    GONE = "gone"
    SILENT = "silent"
    """It has not answered in time, and may yet."""


def life_of(session: SparkSession, seconds: float = ALIVE_WITHIN_SECONDS) -> Life:
    """Ask for what only the JVM or server itself can answer, and only while its context is not stopped."""
    try:
        answer_within(lambda: parallelism(session), seconds)
    except TimeoutError:
        return Life.SILENT
    except Exception as error:  # noqa: BLE001 - whatever else it is, there is nobody to answer
        return Life.SILENT if _is_out_of_files(error) else Life.GONE
    return Life.ALIVE


def _is_out_of_files(error: BaseException | None) -> bool:
    """Tell whether Spark could not be asked because no descriptor was free, which says nothing about Spark."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__ or error.__context__
    return False
