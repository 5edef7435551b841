"""What runs in a child: makes the user's thing and calls it, on the threads on which the product does."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from multiprocessing.connection import Connection

from attrs import frozen

from trident_py.testing.children import Answer, Fresh, Paused, Request
from trident_py.testing.stops import Stepper

log = logging.getLogger(__name__)


class On(Enum):
    """The thread that a method is called on."""

    START = "the one that starts the topology"
    COMMIT = "the commit thread"
    OWN = "one of its own"


@frozen
class Made:
    """What is known of a user's thing once it was made.

    Attributes:
        files: those that its code is in.
        same_rows: whether every attempt of a transaction must have the same rows.
    """

    files: tuple[str, ...]
    same_rows: bool = False


class Subject:
    """A user's thing in a child, with the methods that a check calls.

    Attributes:
        threads: the thread of each method; `On.START` where nothing is said.
    """

    threads: Mapping[str, On] = {}


def serve(connection: Connection, make: Callable[[], Subject]) -> None:
    """Answer requests until the process is killed or the test's is gone."""
    subject = make()
    commit_thread = ThreadPoolExecutor(1, "commit")
    lock = threading.Lock()

    def send(message: object) -> None:
        with lock:
            connection.send(message)

    def wait() -> None:
        send(Paused())
        connection.recv()

    while True:
        try:
            request: Request = connection.recv()
        except (EOFError, ConnectionResetError):
            os._exit(0)
        stepper = Stepper(request.files, request.known, lambda *line: send(Fresh(*line)), wait)
        work = partial(_answer, subject, request, stepper)
        match subject.threads.get(request.method, On.START):
            case On.START:
                answer = work()
            case On.COMMIT:
                answer = commit_thread.submit(work).result()
            case On.OWN:
                with ThreadPoolExecutor(1, request.method) as own:
                    answer = own.submit(work).result()
        send(answer)


def _answer(subject: Subject, request: Request, stepper: Stepper) -> Answer:
    method = getattr(subject, request.method)
    try:
        with stepper.following(request.stops):
            value = method(*request.arguments)
    except Exception as error:
        log.debug("%s raised", request.method, exc_info=error)
        return Answer(error=described(error), lines=tuple(stepper.lines()))
    return Answer(value, lines=tuple(stepper.lines()))


def described(error: BaseException) -> str:
    """One line of what was raised."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
