"""Whose fault a Spark exception is, and what it says underneath."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException, PythonException

from trident_py import errors
from trident_py.errors import SparkLost, StoreBusyException, TridentError

_OURS = re.compile(r"^(?:trident_py|coordinators)\.errors\.(\w+): (.*)\Z", re.MULTILINE | re.DOTALL)
_LOST = (Py4JNetworkError, ConnectionError, EOFError, BrokenPipeError)
_LOST_TEXTS = (
    "Answer from Java side is empty",
    "Cannot call methods on a stopped SparkContext",
    "SparkContext was shut down",
)


def understood(error: BaseException, doing: str) -> tuple[BaseException, bool]:
    """The error to report for ``error``, and whether it counts against the batch.

    One of our own errors raised in a task is itself again, a busy store too; a session that is gone is `SparkLost`;
    what Spark itself broke off (a lost executor, a crashed worker) doesn't count; everything else came from user code
    or its data.
    """
    if isinstance(error, _LOST) or any(text in str(error) for text in _LOST_TEXTS):
        lost = SparkLost(
            f"{doing}: the JVM behind the Spark session is gone ({type(error).__name__}); nothing was lost, "
            f"start the topology again"
        )
        lost.__cause__ = error
        return lost, False
    if isinstance(error, StoreBusyException):
        return error, False
    if isinstance(error, PySparkException):
        raised = _raised_in_task(error)
        return raised or _in_short(error), not isinstance(raised, StoreBusyException)
    if isinstance(error, Py4JJavaError | Py4JError):
        return _raised_in_task(error) or error, False
    return error, True


def _raised_in_task(error: BaseException) -> TridentError | StoreBusyException | None:
    found = _OURS.search(str(error))
    kind = getattr(errors, found.group(1), None) if found else None
    if not found or not (isinstance(kind, type) and issubclass(kind, TridentError | StoreBusyException)):
        return None
    ours: TridentError | StoreBusyException = kind(found.group(2).strip())
    ours.__cause__ = error
    return ours


def _in_short(error: PySparkException) -> Exception:
    """What user code raised, without the frames on the way there; those are in the ``__cause__``."""
    lines = str(error).rstrip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    if not isinstance(error, PythonException) or not frames or frames[-1] + 1 == len(lines):
        return error
    short = RuntimeError(" ".join(lines[frames[-1] + 1 :]))
    short.__cause__ = error
    return short
