"""`place_of`: finds the position of a thread in the code."""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
from itertools import takewhile
from types import FrameType

STANDARD_LIBRARY = os.path.dirname(threading.__file__)
OURS = ("trident_py", "coordinators")
SPARKS = ("pyspark", "py4j")


def place_of(thread: int | None) -> str:
    """Return the position of the thread with this identifier: in the user's code if possible, else in other code.

    Python's library is left out. The result is empty if nothing is known.
    """
    frames = [each for each in _stack_of(thread) if not _is_pythons(each[0])]
    users = [each for each in frames if not _is_installed(each[0])]
    if not frames:
        return ""
    called = takewhile(lambda each: _package_of(each[0]) not in OURS, frames)  # by our code, or by none of it
    if not users and any(_package_of(each) in SPARKS for each, _ in called):
        return "in Spark"
    frame, line = [*users, *frames][0]
    return f"in {frame.f_code.co_name}, {frame.f_code.co_filename}, line {line}"


def _stack_of(thread: int | None) -> list[tuple[FrameType, int]]:
    """Return the frames of a thread, innermost first, and the line of each."""
    frame = _frame_of(thread)
    return list(traceback.walk_stack(frame)) if frame else []


def _is_pythons(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith((STANDARD_LIBRARY, "<frozen ")) and not _is_of_a_package(file)


def _is_installed(frame: FrameType) -> bool:
    return _package_of(frame) in OURS or _is_of_a_package(frame.f_code.co_filename)


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_of_a_package(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file


def _frame_of(thread: int | None) -> FrameType | None:
    # Some versions of Python read the frames under a lock of the interpreter. If garbage is collected then, a finaliser
    # such as Py4J's lets other threads run, and a thread that ends waits for the lock: python/cpython#106883.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread or 0)  # noqa: SLF001 - documented, and there is no other
    finally:
        if was_enabled:
            gc.enable()
