"""Processes to kill: forked from a process forked when the check began, so that closures and lambdas work.

The process of the test may have threads, and opens stores to read them. So it is forked once, into a nursery, which has
one thread and opens nothing. All other processes are forked from the nursery, in a few milliseconds, with Spark and all
imports already loaded. If a process dies, all others end too: the nursery and its children are a process group. The
check kills the group at its end; if the test's process vanishes, the nursery kills it.

The module also detects waiting processes, and turns off syncs of files, which a killed process doesn't need.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import socket
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from attrs import define, field, frozen

from trident_py.conformance.stops import Line, Stop
from trident_py.conformance.trail import Trail


def is_asleep(pid: int, thread: int | None = None) -> bool:
    """Return whether no thread of a process, or the given one, is running or runnable, on a machine of any load.

    False for a process that is gone.
    """
    try:
        stats = Path(f"/proc/{pid}/task").glob(f"{thread or '*'}/stat")
        return all(stat.read_text().rpartition(")")[2].split()[0] in "SZ" for stat in stats)
    except (OSError, IndexError):
        return False


def with_descendants(pids: Iterable[int]) -> Iterator[int]:
    """Yield the ids of these processes and of all their living descendants."""
    for pid in pids:
        yield pid
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                below = [int(each) for each in task.read_text().split()]
            except OSError:
                continue
            yield from with_descendants(below)


_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_CALL_OFFSET, _MACHINE_OFFSET = 0, 4
_ALLOW, _SUCCEED = 0x7FFF0000, 0x00050000

_SYNCS: Mapping[str, tuple[int, Sequence[int]]] = {
    "x86_64": (0xC000003E, (74, 75, 277, 306)),
    "aarch64": (0xC00000B7, (82, 83, 84, 267)),
}
"""By machine: its number in the kernel, and the numbers of fsync, fdatasync, sync_file_range and syncfs."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


def sync_nothing() -> None:
    """Turn all syncs of files into no-ops, for this process and those forked from it.

    If the system doesn't allow that, syncs keep their effect.
    """
    if os.uname().machine not in _SYNCS:
        return
    steps = _steps(*_SYNCS[os.uname().machine])
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in steps))
    with suppress(OSError, AttributeError):
        control = ctypes.CDLL(None).prctl
        if control(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
            control(_SECCOMP, _FILTER, ctypes.byref(_Program(len(steps), ctypes.addressof(code))))


def _steps(machine: int, calls: Sequence[int]) -> Sequence[tuple[int, int, int, int]]:
    """Return a program of the kernel's filter: operation, steps to skip if true and if false, and operand."""
    found = [(_JUMP_IF_EQUAL, len(calls) - place, 0, call) for place, call in enumerate(calls)]
    return [
        (_LOAD, 0, 0, _MACHINE_OFFSET),
        (_JUMP_IF_EQUAL, 0, len(calls) + 1, machine),
        (_LOAD, 0, 0, _CALL_OFFSET),
        *found,
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _SUCCEED),
    ]


LOOK_SECONDS = 0.01
BLOCKED_SECONDS = 0.08
"""Seconds by which a call must be idle longer than busy to count as waiting."""


@frozen
class Request:
    """A request to a child, which answers with at most one `Paused`, then with an `Answer`."""

    method: str
    arguments: tuple[Any, ...]
    files: tuple[str, ...] = ()
    known: frozenset[tuple[str, int]] | None = None
    stops: tuple[Stop, ...] = ()


@frozen
class Paused:
    """The call waits for a message to continue."""


@frozen
class Answer:
    """The call returned or raised an exception.

    Attributes:
        value: the return value.
        error: type and text of the exception; empty if the call returned.
        is_busy: whether the exception means that the store is busy.
        lines: the lines that it reached.
        imported: the modules that it loaded, except the user's; later forks can have them from the start.
        files: the files of the user's code, if the request has none.
    """

    value: Any = None
    error: str = ""
    is_busy: bool = False
    lines: tuple[Line, ...] = ()
    imported: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@frozen
class Died:
    """The process is gone."""


@frozen
class Stuck:
    """The call has reached no new line for too long."""


Reply = Answer | Paused | Died | Stuck


@define
class Asleep:
    """Detects a waiting process: one that is asleep in most samples, such as a process that polls a lock."""

    _is_asleep: Callable[[], bool]
    _seconds: float = BLOCKED_SECONDS
    _looks: int = field(default=0, init=False)

    def for_long(self) -> bool:
        """Take a sample; return True once, when the process counts as waiting."""
        enough = round(self._seconds / LOOK_SECONDS)
        if self._looks < enough:
            self._looks = self._looks + 1 if self._is_asleep() else max(self._looks - 1, 0)
            return self._looks == enough
        return False


@define(eq=False)
class Child:
    """One process, as the test's process sees it.

    Attributes:
        pid: its process id.
        trail: the lines of its present call.
    """

    pid: int
    _connection: Connection
    trail: Trail
    paused: bool = field(default=False, init=False)

    def ask(self, request: Request) -> None:
        """Start a call; `reply` ends it."""
        self.trail.clear()
        with suppress(BrokenPipeError):
            self._connection.send(request)

    def reply(
        self,
        stuck_secs: float,
        is_asleep: Callable[[], bool],
        on_blocked: Callable[[], bool],
        blocked_secs: Callable[[], float] = lambda: BLOCKED_SECONDS,
    ) -> Reply:
        """Return the outcome of the call.

        Args:
            stuck_secs: the seconds without a new line of user code after which it is stuck; longer on a busy machine,
                where samples are taken later.
            is_asleep: returns whether no process works on it just now; if this is mostly so, it waits.
            on_blocked: called when the process waits; returns whether it changed that.
            blocked_secs: returns the seconds to wait before that, at the present line.
        """
        looks, length, asleep = 0, 0, Asleep(is_asleep, blocked_secs())
        while looks < stuck_secs / LOOK_SECONDS:
            if self._connection.poll(LOOK_SECONDS):
                return self._received()
            looks += 1
            if self.trail.length > length:
                looks, length, asleep = 0, self.trail.length, Asleep(is_asleep, blocked_secs())
            elif asleep.for_long() and on_blocked():
                looks = 0
        return Stuck()

    def _received(self) -> Reply:
        try:
            found: Reply = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self._connection.close()
            return Died()
        if isinstance(found, Paused):
            self._suspend()
        return found

    def _suspend(self) -> None:
        """Suspend all of its threads."""
        self.paused = True
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume the process."""
        self.paused = False
        os.kill(self.pid, signal.SIGCONT)
        self._connection.send(None)

    @property
    def is_gone(self) -> bool:
        """Return whether its end was recorded: another process may have its process id by now."""
        return self._connection.closed

    def end(self) -> None:
        """Kill it, and discard its trail."""
        self.kill()
        self.trail.close()

    def kill(self) -> None:
        """Kill it, if it lives, as a crash of the machine would."""
        if self.is_gone:
            return
        with suppress(EOFError, OSError), self._connection:
            while self._connection.poll():
                self._connection.recv()
            os.kill(self.pid, signal.SIGKILL)
            while True:
                self._connection.recv()


@define(eq=False)
class Nursery:
    """Forks children; each runs ``serve`` on its end of a connection, and records its lines on its trail."""

    _pid: int
    _channel: socket.socket
    _imported: dict[str, bool] = field(factory=dict, init=False)  # by name: whether the nursery has it

    @classmethod
    @contextmanager
    def open(cls, serve: Callable[[Connection, Trail], None], prepare: Callable[[], None]) -> Iterator[Nursery]:
        """Yield a nursery that has called ``prepare`` once; at the end it is killed with all of its children."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
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

    def has_use_of(self, modules: Sequence[str]) -> None:
        """Load these modules before the next child is forked, so that the child doesn't have to."""
        for name in modules:
            self._imported.setdefault(name, False)

    def child(self) -> Child:
        """Return a new process."""
        ours, theirs = socket.socketpair()
        trail = Trail.make()
        wanted = [name for name, is_there in self._imported.items() if not is_there][:_MODULES_MAX]
        self._imported.update(dict.fromkeys(wanted, True))
        with theirs:
            order = " ".join(["fork", *wanted]).encode()
            socket.send_fds(self._channel, [order], [theirs.fileno(), trail.descriptor])
        pid = int.from_bytes(self._channel.recv(8), "big")
        return Child(pid, Connection(ours.detach()), trail)


_MODULES_MAX = 400
"""The number of modules for which one message to the nursery has room."""


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about other threads, none of which is needed there
        return os.fork()


def _nurse(channel: socket.socket, serve: Callable[[Connection, Trail], None], prepare: Callable[[], None]) -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the children
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare()
    sync_nothing()
    _load(["pandas"])  # pyarrow does at its first conversion: a quarter of a second in each child
    while True:
        order, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 2)
        if not order:
            os.killpg(0, signal.SIGKILL)
        _load(order.decode().split()[1:])
        pid = os.fork()
        if pid == 0:
            channel.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _end_with(partial(serve, Connection(descriptors[0]), Trail(descriptors[1])))
        for each in descriptors:
            os.close(each)
        channel.sendall(pid.to_bytes(8, "big"))


def _load(modules: Sequence[str]) -> None:
    for name in modules:
        with suppress(Exception):  # the child that needs it raises the error again
            importlib.import_module(name)
    if modules:
        gc.freeze()  # garbage collection would copy the memory that the processes share


def _end_with(work: Callable[[], None]) -> NoReturn:
    """Call ``work``, and end without the clean-up that belongs to the parent process."""
    try:
        work()
    except BaseException:  # noqa: BLE001 - there is no caller
        traceback.print_exc()  # an error of ours: exceptions of the user's code are answers
    finally:
        os._exit(1)
