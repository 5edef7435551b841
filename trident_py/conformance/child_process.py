"""The work of a child process: it makes the user's object and calls it on the same threads as the product does."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from multiprocessing.connection import Connection

from trident_py.conformance.children import Answer, Paused, Request
from trident_py.conformance.stops import Stepper, files_of, is_users
from trident_py.conformance.trail import Trail
from trident_py.errors import StoreBusyException

log = logging.getLogger(__name__)


class On(Enum):
    """The thread on which a method is called."""

    START = "the one that starts the topology"
    COMMIT = "the commit thread"
    OWN = "one of its own"


class Subject:
    """A user's object in a child, with the methods that a check calls.

    Attributes:
        threads: the thread of each method; `On.START` is the default.
        things: the user's objects, once they are made.
    """

    threads: Mapping[str, On] = {}
    things: Sequence[object] = ()


def serve(connection: Connection, trail: Trail, make: Callable[[], Subject]) -> None:
    """Answer requests until the process is killed or the test's process is gone."""
    subject = make()
    commit_thread = ThreadPoolExecutor(1, "commit")

    def wait() -> None:
        connection.send(Paused())
        connection.recv()

    while True:
        try:
            request: Request = connection.recv()
        except (EOFError, ConnectionResetError):
            os._exit(0)
        stepper = Stepper(request.files, request.known, trail.put, wait)
        work = partial(_answer, subject, request, stepper)
        match subject.threads.get(request.method, On.START):
            case On.START:
                answer = work()
            case On.COMMIT:
                answer = commit_thread.submit(work).result()
            case On.OWN:
                with ThreadPoolExecutor(1, request.method) as own:
                    answer = own.submit(work).result()
        connection.send(answer)


def _answer(subject: Subject, request: Request, stepper: Stepper) -> Answer:
    method = getattr(subject, request.method)
    loaded = set(sys.modules)
    try:
        with stepper.following(request.stops):
            value = method(*request.arguments)
    except Exception as error:
        log.debug("%s raised", request.method, exc_info=error)
        is_busy = isinstance(error, StoreBusyException)
        lines, imported = tuple(stepper.lines()), _imported(loaded)
        return Answer(error=described(error), is_busy=is_busy, lines=lines, imported=imported)
    files = () if request.files else files_of(*subject.things)
    return Answer(value, lines=tuple(stepper.lines()), imported=_imported(loaded), files=files)


def _imported(loaded: Collection[str]) -> tuple[str, ...]:
    """Return the newly loaded modules, except the user's: their lines are lines of the call."""
    new = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if name not in loaded}
    return tuple(name for name, file in new.items() if file and not is_users(file))


def described(error: BaseException) -> str:
    """Return one line about an exception."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
