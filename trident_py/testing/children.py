"""Processes to kill: forked from one that was itself forked when the check began, so that closures and lambdas work.

The process of the test may have threads, and opens stores to read them. So it is forked once, into a nursery, which
has one thread and touches nothing; all others are forked from that, in a few milliseconds, with Spark and everything
that was imported loaded already. Whoever dies, the others end: the nursery and its children are a process group, which
is killed at the end of the check, or by the nursery if the test's process vanishes.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from attrs import define, field, frozen

from trident_py.testing.stops import Line, Stop

LOOK_SECONDS = 0.05


@frozen
class Request:
    """What a child is asked for; its answers are a `Fresh` for each new line, at most one `Paused`, and an `Answer`."""

    method: str
    arguments: tuple[Any, ...]
    files: tuple[str, ...] = ()
    known: frozenset[tuple[str, int]] | None = None
    stops: tuple[Stop, ...] = ()


@frozen
class Fresh:
    """The call came to a line for the first time.

    Attributes:
        file: whose.
        line: which.
        dies: whether nobody was killed there before, so that this process is.
    """

    file: str
    line: int
    dies: bool


@frozen
class Paused:
    """The call waits for a message to go on."""


@frozen
class Answer:
    """The call returned or raised.

    Attributes:
        value: what it returned.
        error: type and text of what it raised; empty if it returned.
        lines: the lines it came to.
    """

    value: Any = None
    error: str = ""
    lines: tuple[Line, ...] = ()


@frozen
class Died:
    """The process is gone."""


@frozen
class Stuck:
    """There was no new line for too long."""


Reply = Answer | Paused | Died | Stuck


@frozen
class Patience:
    """How long a call is waited for.

    Attributes:
        stuck_secs: without a new line of user code for so long it is stuck.
        blocked_looks: a process whose threads were all asleep at so many looks waits for something.
    """

    stuck_secs: float
    blocked_looks: int


@define(eq=False)
class Child:
    """One process, seen from the test's.

    Attributes:
        pid: its process id.
        seen: the lines of its present call.
    """

    pid: int
    _connection: Connection
    seen: list[Fresh] = field(factory=list, init=False)
    paused: bool = field(default=False, init=False)

    def ask(self, request: Request) -> None:
        """Begin a call; `reply` ends it."""
        self.seen = []
        with suppress(BrokenPipeError):
            self._connection.send(request)

    def reply(self, patience: Patience, on_blocked: Callable[[], bool]) -> Reply:
        """How the call went.

        Args:
            patience: how long to wait.
            on_blocked: called when the process waits for something; whether that was changed. Called once.
        """
        deadline, asleep = time.monotonic() + patience.stuck_secs, 0
        while time.monotonic() < deadline:
            if self._connection.poll(LOOK_SECONDS):
                try:
                    found: Reply | Fresh = self._connection.recv()
                except (EOFError, ConnectionResetError):
                    self._connection.close()
                    return Died()
                if not isinstance(found, Fresh):
                    if isinstance(found, Paused):
                        self._suspend()
                    return found
                self.seen.append(found)
                deadline, asleep = time.monotonic() + patience.stuck_secs, 0
                continue
            asleep = asleep + 1 if _is_asleep(self.pid) else 0
            if asleep == patience.blocked_looks and on_blocked():
                deadline = time.monotonic() + patience.stuck_secs
        return Stuck()

    def _suspend(self) -> None:
        """All of its threads stand still."""
        self.paused = True
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Wake it up."""
        self.paused = False
        os.kill(self.pid, signal.SIGCONT)
        self._connection.send(None)

    @property
    def is_gone(self) -> bool:
        """Whether it was seen to end: its process id may be somebody else's by now."""
        return self._connection.closed

    def kill(self) -> None:
        """End it as the end of a machine would, if it lives."""
        if self.is_gone:
            return
        with suppress(EOFError, OSError), self._connection:
            while self._connection.poll():
                self._connection.recv()
            os.kill(self.pid, signal.SIGKILL)
            while True:
                self._connection.recv()


def _is_asleep(pid: int) -> bool:
    """Whether no thread of a process runs or wants to, however busy the machine is."""
    try:
        states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    except (OSError, IndexError):
        return False
    return set(states) == {"S"}


@define(eq=False)
class Nursery:
    """Forks children, each of which runs ``serve`` on its end of a connection."""

    _pid: int
    _channel: socket.socket

    @classmethod
    @contextmanager
    def open(cls, serve: Callable[[Connection], None], prepare: Callable[[], None]) -> Iterator[Nursery]:
        """A nursery that has called ``prepare`` once; at the end it is killed with all of its children."""
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = _fork()
        if pid == 0:
            ours.close()
            _end_with(lambda: _nurse(theirs, serve, prepare))
        theirs.close()
        try:
            yield cls(pid, ours)
        finally:
            ours.close()
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def child(self) -> Child:
        """A new process."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._channel, [b"f"], [theirs.fileno()])
        pid = int.from_bytes(self._channel.recv(8), "big")
        return Child(pid, Connection(ours.detach()))


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads, none of which is needed there
        return os.fork()


def _nurse(channel: socket.socket, serve: Callable[[Connection], None], prepare: Callable[[], None]) -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare()
    with suppress(ImportError):
        importlib.import_module("pandas")  # pyarrow does at its first conversion: a quarter of a second in each child
    gc.freeze()  # collecting garbage would copy all that the processes share
    while True:
        order, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if not order:
            os.killpg(0, signal.SIGKILL)
        pid = os.fork()
        if pid == 0:
            channel.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _end_with(partial(serve, Connection(descriptors[0])))
        os.close(descriptors[0])
        channel.sendall(pid.to_bytes(8, "big"))


def _end_with(work: Callable[[], None]) -> NoReturn:
    """Do it, and end without any of the clean-up that belongs to the process which this was forked from."""
    try:
        work()
    except BaseException:  # noqa: BLE001 - nobody is above this who could be told
        traceback.print_exc()  # ours: what the user's code raises is an answer
    finally:
        os._exit(1)
