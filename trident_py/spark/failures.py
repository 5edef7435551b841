"""The meaning of an exception on the driver for its attempt, by the place where it was raised."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException

from coordinators.protocol.messages import Diagnosis, FailureKind
from trident_py.errors import FailedException, SparkLost, StoreBusyException, TridentError
from trident_py.spark.asking import Life
from trident_py.worker.failures import TaskFailed


class Place(Enum):
    """The place on the driver where an exception was raised."""

    SPOUT = "spout"
    """In an emitter."""

    JOB = "job"
    """While a batch was processed or prepared; a failure reported by a task is a `TaskFailed`."""

    COMMIT = "commit"
    """In the commit of a spout, state or sink."""


Diagnose: TypeAlias = Callable[[BaseException, Place, str], Diagnosis]
"""Judges an exception by its place; the text names the topology, the attempt and the activity."""


def diagnosed(error: BaseException, place: Place, doing: str, life: Callable[[], Life]) -> Diagnosis:
    """Return the diagnosis of ``error``: its cause and the kind of the failure.

    Args:
        error: the exception.
        place: the place where it was raised.
        doing: names the topology, the attempt and the activity, for the message if Spark is lost.
        life: returns the condition of Spark; called only if ``error`` and ``place`` don't decide.
    """
    match error:
        case TaskFailed(failure=failure):
            cause = failure.cause
            cause.__cause__ = error.__cause__
            return Diagnosis(cause, failure.kind, failure.txid)
        case TridentError():
            return Diagnosis(error, FailureKind.FATAL)
        case StoreBusyException():
            return Diagnosis(error, FailureKind.INTERRUPTED if place is Place.SPOUT else FailureKind.BUSY)
        case FailedException() if place is Place.SPOUT:
            return Diagnosis(error, FailureKind.UNREACHABLE)
    match life():
        case Life.GONE:
            return Diagnosis(spark_lost(doing, error), FailureKind.FATAL)
        case Life.SILENT:
            return Diagnosis(error, FailureKind.INTERRUPTED)
    if isinstance(error, Py4JError):  # a lost executor or a crashed worker; failures caused by a batch have a class
        return Diagnosis(error, FailureKind.INTERRUPTED)
    return Diagnosis(_in_short(error), FailureKind.USER_CODE)


def spark_lost(doing: str, error: BaseException | None = None) -> SparkLost:
    """Return the error for a lost session."""
    found = f" ({type(error).__name__})" if error else ""
    lost = SparkLost(
        f"{doing}: the Spark session is gone{found}, it was stopped or its JVM has ended; nothing was lost, "
        f"start the topology again"
    )
    lost.__cause__ = error
    return lost


def _in_short(error: BaseException) -> BaseException:
    """Return the exception of a Python function in Spark, without the frames of Spark.

    The frames are in the ``__cause__``.
    """
    if not isinstance(error, PySparkException | PythonException):
        return error
    lines = str(error).rstrip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    if not isinstance(error, PythonException) or not frames or frames[-1] + 1 == len(lines):
        return error
    short = RuntimeError(" ".join(lines[frames[-1] + 1 :]))
    short.__cause__ = error
    return short
