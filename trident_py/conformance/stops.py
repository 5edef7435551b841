"""The stops of a child process: before, after, or at a line of a call. Runs in the child."""

from __future__ import annotations

import importlib.util
import inspect
import os
import signal
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cache
from types import FrameType
from typing import Any

from attrs import define, field, frozen


class Moment(Enum):
    """The moment of a stop in a call."""

    BEFORE = "before it begins"
    AT_LINE = "at a line"
    AFTER = "after it was done, before anybody knows"


class Way(Enum):
    """The effect of a stop."""

    KILL = "kill"
    PAUSE = "pause"


@frozen
class Stop:
    """One place in a call of the tested code where its process dies or pauses.

    Attributes:
        way: whether the process dies or pauses.
        moment: at the begin of the call, at its end, or at a line.
        file: the file of the line; empty unless at a line.
        line: the number of the line; the process stops before it runs it.
        nth: the number of times that the call must reach the line.
    """

    way: Way
    moment: Moment
    file: str = ""
    line: int = 0
    nth: int = 1


@frozen
class Line:
    """A line that a call reached, and how often."""

    file: str
    number: int
    times: int


@define
class Stepper:
    """Traces a call through the lines of some files, and stops it.

    Attributes:
        files: the files whose lines count, in addition to the users' files (`is_users`); a name that ends with a slash
            is a directory.
        known: the lines where a process was killed; a process that reaches any other line is killed there. None: no
            process is killed at other lines.
        fresh: called with each line that the call reaches for the first time, and whether the process dies there.
        wait: returns when a paused process must continue.
    """

    files: tuple[str, ...]
    known: frozenset[tuple[str, int]] | None
    fresh: Callable[[str, int, bool], None]
    wait: Callable[[], None]
    _stops: list[Stop] = field(factory=list, init=False)
    _times: dict[tuple[str, int], int] = field(factory=dict, init=False)
    _counted: dict[str, bool] = field(factory=dict, init=False)
    _is_over: bool = field(default=False, init=False)

    @contextmanager
    def following(self, stops: Sequence[Stop]) -> Iterator[None]:
        """Trace this thread in the block, and the threads that it starts, with these stops in order. Usable once."""
        self._stops, self._times = list(stops), {}
        self._stop_if(Moment.BEFORE)
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self._is_over = True  # later work of such threads belongs to no call
        self._stop_if(Moment.AFTER)

    def lines(self) -> list[Line]:
        """Return the lines that the last call reached, in the order of their first time."""
        return [Line(file, number, times) for (file, number), times in self._times.items()]

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        counts = not self._is_over and self._counts(frame.f_code.co_filename)
        return self._step if counts and (_is_function(frame) or is_users(frame.f_code.co_filename)) else None

    def _counts(self, file: str) -> bool:
        known = self._counted.get(file)
        if known is None:
            named = any(file == each or (each.endswith("/") and file.startswith(each)) for each in self.files)
            known = self._counted[file] = named or is_users(file)
        return known

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self._is_over:
            return None
        if event == "line":
            place = frame.f_code.co_filename, frame.f_lineno
            times = self._times[place] = self._times.get(place, 0) + 1
            if times == 1:
                is_new = self.known is not None and place not in self.known
                self.fresh(*place, is_new)
                if is_new:
                    os.kill(os.getpid(), signal.SIGKILL)
            if self._stops and (self._stops[0].file, self._stops[0].line, self._stops[0].nth) == (*place, times):
                self._stop_if(Moment.AT_LINE)
        return self._step

    def _stop_if(self, moment: Moment) -> None:
        if not self._stops or self._stops[0].moment is not moment:
            return
        if self._stops.pop(0).way is Way.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        self.wait()


def _is_function(frame: FrameType) -> bool:
    """Return False for the body of a module or class, which runs once for all calls, when its module is loaded."""
    return bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)


_OURS = ("builtins", "abc", "typing", "trident_py.interfaces", "trident_py.states", "trident_py.spouts", "coordinators")


def files_of(*things: object) -> tuple[str, ...]:
    """Return the files with the code of ``things``, in addition to the users' files: those of installed classes.

    These files contain the classes and their bases. A class in a package stands for its whole directory. Our own base
    classes don't count, unless all things are ours.
    """
    classes = [each for thing in things for each in type(thing).__mro__]
    written = [each for each in classes if not each.__module__.startswith(_OURS)]
    found = {_place(file, each) for each in written for file in _files(each)}
    return tuple(sorted(found or {_place(file, each) for each in classes for file in _files(each)}))


@cache
def is_users(file: str) -> bool:
    """Return whether it belongs neither to Python, nor to an installed package, nor to this library."""
    parts = os.path.abspath(file).split(os.sep)
    return not (
        file.startswith("<") or {"site-packages", "dist-packages"} & set(parts) or file.startswith(_libraries())
    )


@cache
def _libraries() -> tuple[str, ...]:
    python = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    packages = (importlib.util.find_spec(name) for name in ("trident_py", "coordinators", "pyspark", "py4j"))
    places = [os.path.dirname(each.origin) for each in packages if each is not None and each.origin]
    return tuple(f"{each}/" for each in [*python, *places])


def _place(file: str, cls: type) -> str:
    directory = os.path.dirname(file)
    in_package = "." in (getattr(sys.modules.get(cls.__module__), "__package__", "") or "")
    return f"{directory}/" if in_package and not is_users(file) and not file.startswith("<") else file


def _files(cls: type) -> Iterator[str]:
    typed_in = cls.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__")
    for value in vars(cls).values():
        function = inspect.unwrap(getattr(value, "__func__", getattr(value, "fget", value)))  # inside its decorators
        code = getattr(function, "__code__", None)
        ours = getattr(function, "__module__", None) == cls.__module__  # attrs and others add methods to a class
        if code is not None and ours and (typed_in or not code.co_filename.startswith("<")):
            yield code.co_filename
