"""Reports of failed tasks to the driver: as data, which no row and no exception of user code can imitate.

A task that fails ends with an exception, so that Spark discards its whole job. A report among the rows could get lost,
in a stage that Spark finds empty or in a job that a sink runs. The exception carries a `TaskFailure` after a random
mark. The mark is drawn anew for every job, so nothing that the job reads can contain it.
"""

from __future__ import annotations

import json
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import asdict, evolve, frozen

from coordinators.protocol.messages import FailureKind
from coordinators.values.error_text import QuotedError, error_notes, error_text, message_of, safe_text
from coordinators.values.errors import About, located
from trident_py import errors
from trident_py.errors import FailedException, MetadataError, SpoutError, StoreBusyException, TridentError

TEXT_CHARS_MAX = 16 * 1024
"""The largest number of characters of a failure's text."""

ERROR_CHARS_MAX = 8_000
"""The largest number of characters of an error's text for people: its beginning names error, place and row."""

Classify: TypeAlias = Callable[[BaseException], FailureKind]
"""The meaning of an exception at the place where it was caught. Pickled into tasks."""

Stage: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""The operation of a Spark task on the Arrow batches of its partition."""


@frozen(kw_only=True)
class TaskFailure:
    """The failure of a task.

    Attributes:
        text: the exception and its place in one line, with the row if known.
        txid: the transaction of the rows, if the job has several and it is known.
        error: the name of our error class, if the failure ends the topology.
        spout, state: the spout or state of such an error, if it names one.
        counts: whether there is no failure, but a counter was used in a job that doesn't collect counts.
    """

    kind: FailureKind
    text: str
    txid: int | None = None
    error: str | None = None
    spout: str | None = None
    state: str | None = None
    counts: bool = False

    @classmethod
    def of(cls, error: BaseException, classify: Classify, txid: int | None = None) -> TaskFailure:
        """Return the failure for ``error`` by ``classify``; an error that was classified earlier stays unchanged."""
        if isinstance(error, TaskFailed):
            return error.failure if txid is None else evolve(error.failure, txid=txid)
        kind = classify(error)
        if kind is FailureKind.FATAL and isinstance(error, TridentError):
            # A user's subclass is reported as our base class, because the driver may not have the subclass.
            ours = next(each.__name__ for each in type(error).__mro__ if each.__name__ in errors.__all__)
            text = safe_text(message_of(error), TEXT_CHARS_MAX)
            return cls(
                kind=kind,
                text=text,
                txid=txid,
                error=ours,
                spout=error.spout,
                state=error.state,
            )
        text = " ".join([error_text(error), *error_notes(error)])
        return cls(kind=kind, text=text[:TEXT_CHARS_MAX], txid=txid)

    @property
    def cause(self) -> BaseException:
        """The exception that represents it on the driver."""
        kind = getattr(errors, self.error or "", None)
        if isinstance(kind, type) and issubclass(kind, TridentError):
            return kind(self.text, spout=self.spout, state=self.state)
        return TaskFailed(self)

    def written(self) -> str:
        """Return it as text without any character that has a special meaning anywhere."""
        fields = {**asdict(self), "kind": self.kind.value}
        return b64encode(json.dumps(fields).encode()).decode()

    @classmethod
    def read(cls, written: str) -> TaskFailure:
        """Parse the text of `written`."""
        fields = json.loads(b64decode(written))
        return cls(**{**fields, "kind": FailureKind(fields["kind"])})


class TaskFailed(QuotedError):
    """An exception that was classified where it was raised: in a task, or in a user's function on the driver."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling, with the notes."""
        return type(self), (self.failure,), self.__dict__


@frozen
class LocatedRead:
    """Calls ``read`` for a split; its errors name their spout or state. Pickled into tasks."""

    read: Callable[[Any], Iterator[pa.RecordBatch]]
    about: About

    def __call__(self, split: Any) -> Generator[pa.RecordBatch, None, Any]:
        """Yield the rows, and return the generator's return value."""
        with located(**self.about):
            rows = self.read(split)
            if isinstance(rows, Generator):
                return (yield from rows)
            yield from rows
            return ""


@frozen
class LocatedCall:
    """Calls a function; its errors name their spout or state."""

    call: Callable[[], None]
    about: About

    def __call__(self) -> None:
        with located(**self.about):
            self.call()


class MarkedFailure(Exception):
    """Ends a task; the text is for the driver, and the original exception is the ``__cause__``."""


# --- the meaning of an exception, by place ----------------------------------------------------------------------------


def by_user_code(_: BaseException) -> FailureKind:
    """Classify an exception of a user's function: it always counts against the batch."""
    return FailureKind.USER_CODE


def by_spout(error: BaseException) -> FailureKind:
    """Classify an exception of a spout in a task: a broken contract or source, or an unreachable source."""
    match error:
        case SpoutError() | MetadataError():
            return FailureKind.FATAL
        case StoreBusyException():
            return FailureKind.INTERRUPTED
        case FailedException():
            return FailureKind.UNREACHABLE
    return FailureKind.USER_CODE


def by_state(error: BaseException) -> FailureKind:
    """Classify an exception of a state in a task."""
    match error:
        case TridentError():
            return FailureKind.FATAL
        case StoreBusyException():
            return FailureKind.BUSY
    return FailureKind.USER_CODE


def by_spark(_: BaseException) -> FailureKind:
    """Classify an exception of the rows that Spark passes to a task: Spark has cancelled it, or fails the job."""
    return FailureKind.INTERRUPTED


@contextmanager
def in_user_code(place: Callable[[], str]) -> Iterator[None]:
    """Add the place to exceptions of user functions in the block.

    Raises:
        TaskFailed: the function raised one of our own errors, which have no meaning when a function raises them.
    """
    try:
        yield
    except BaseException as error:
        BaseException.add_note(error, place())
        if isinstance(error, TridentError | StoreBusyException):
            raise TaskFailed(TaskFailure.of(error, by_user_code)) from error
        raise


# --- from the task to the driver --------------------------------------------------------------------------------------

_mark: ContextVar[str | None] = ContextVar("trident_job_mark", default=None)


@contextmanager
def task_failures_told() -> Iterator[None]:
    """Raise the failure that a task reports, of a job that the block builds and runs.

    Raises:
        TaskFailed: a task failed in a stage that was made by `telling` in this block, on this thread.
    """
    mark = secrets.token_hex(16)
    token = _mark.set(mark)
    try:
        yield
    except TridentError:
        raise
    except Exception as error:
        found = re.search(rf"{mark}:([A-Za-z0-9+/=]+):", str(error))
        if found is None:
            raise
        raise TaskFailed(TaskFailure.read(found.group(1))) from error
    finally:
        _mark.reset(token)


def telling(stage: Stage, classify: Classify = by_user_code) -> Stage:
    """Return ``stage`` as a task that reports its failure; if the job has no listener, ``stage`` itself."""
    mark = _mark.get()
    return stage if mark is None else TellingStage(stage, classify, mark)


@frozen
class TellingStage:
    """A stage that reports its failure to the driver; pickled into the worker."""

    stage: Stage
    classify: Classify
    mark: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from classified(self._made(batches), self.classify)
        except TaskFailed as error:
            raise MarkedFailure(f"told to the driver as {self.mark}:{error.failure.written()}:") from error.__cause__

    def _made(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.stage(classified(batches, by_spark))


def classified(batches: Iterator[pa.RecordBatch], classify: Classify) -> Iterator[pa.RecordBatch]:
    """Yield the same batches; an exception while computing one is classified here.

    Raises:
        TaskFailed: an exception was raised.
    """
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except BaseException as error:
            raise TaskFailed(TaskFailure.of(error, classify)) from error
        yield batch


def text_of(error: BaseException | None) -> str:
    """Return an exception and its notes as text that any database can hold; empty if there was no exception."""
    if error is None:
        return ""
    text = "\n".join([error_text(error), *error_notes(error)])
    return text if len(text) <= ERROR_CHARS_MAX else f"{text[:ERROR_CHARS_MAX]}…"
