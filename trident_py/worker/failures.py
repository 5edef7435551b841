"""How a task tells the driver that it failed: as data, which no row and no exception of user code can imitate.

A task that fails ends with an exception, so that Spark uses nothing of its job: a report among the rows could get lost,
in a stage that Spark finds to be empty or in a job that a sink runs. The exception carries a `TaskFailure` behind a
random mark, which is drawn anew for every job: nothing that the job reads can contain it.
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
"""Characters of a failure's text that are kept."""

ERROR_CHARS_MAX = 8_000
"""Of an error's text for people: its beginning says what was raised, where, and at which row."""

Classify: TypeAlias = Callable[[BaseException], FailureKind]
"""What an exception means at the place where it was caught. Travels to tasks."""

Stage: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a Spark task does to the Arrow batches of its partition."""


@frozen(kw_only=True)
class TaskFailure:
    """What went wrong in a task.

    Attributes:
        text: what was raised and where, in one line, with the row if that is known.
        txid: the transaction whose rows it were, where a job has those of several and it is known.
        error: the name of our own class, of what ends the topology.
        spout, state: what such an error is about, where it says so.
        counts: whether nothing is wrong, but a counter was used in a job that doesn't listen.
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
        """Return what ``error`` means by ``classify``; one that was classified nearer to its place stays as it is."""
        if isinstance(error, TaskFailed):
            return error.failure if txid is None else evolve(error.failure, txid=txid)
        kind = classify(error)
        if kind is FailureKind.FATAL and isinstance(error, TridentError):
            # A subclass of the user's is told as what it is one of: the driver need not have it.
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
        """The exception that stands for it on the driver."""
        kind = getattr(errors, self.error or "", None)
        if isinstance(kind, type) and issubclass(kind, TridentError):
            return kind(self.text, spout=self.spout, state=self.state)
        return TaskFailed(self)

    def written(self) -> str:
        """Write it as text without any character that has a meaning somewhere."""
        fields = {**asdict(self), "kind": self.kind.value}
        return b64encode(json.dumps(fields).encode()).decode()

    @classmethod
    def read(cls, written: str) -> TaskFailure:
        """Read what `written` gave."""
        fields = json.loads(b64decode(written))
        return cls(**{**fields, "kind": FailureKind(fields["kind"])})


class TaskFailed(QuotedError):
    """What was raised at a place that was classified: in a task, or by a function of the user's on the driver."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling, with the notes."""
        return type(self), (self.failure,), self.__dict__


@frozen
class LocatedRead:
    """Gives the rows of a split, as ``read`` does; its errors know what they are about. Travels to tasks."""

    read: Callable[[Any], Iterator[pa.RecordBatch]]
    about: About

    def __call__(self, split: Any) -> Generator[pa.RecordBatch, None, Any]:
        """Give the rows, and what a generator returns."""
        with located(**self.about):
            rows = self.read(split)
            if isinstance(rows, Generator):
                return (yield from rows)
            yield from rows
            return ""


@frozen
class LocatedCall:
    """Calls a function; its errors know what they are about."""

    call: Callable[[], None]
    about: About

    def __call__(self) -> None:
        with located(**self.about):
            self.call()


class MarkedFailure(Exception):
    """Ends a task; the text is for the driver, and what was raised is in the ``__cause__``."""


# --- what an exception means, by place --------------------------------------------------------------------------------


def by_user_code(_: BaseException) -> FailureKind:
    """Classify what a function of the user's raised: whatever it is, it counts against the batch."""
    return FailureKind.USER_CODE


def by_spout(error: BaseException) -> FailureKind:
    """Classify what a spout raised in a task: its contract or its source is broken, or the source is away."""
    match error:
        case SpoutError() | MetadataError():
            return FailureKind.FATAL
        case StoreBusyException():
            return FailureKind.INTERRUPTED
        case FailedException():
            return FailureKind.UNREACHABLE
    return FailureKind.USER_CODE


def by_state(error: BaseException) -> FailureKind:
    """Classify what a state raised in a task."""
    match error:
        case TridentError():
            return FailureKind.FATAL
        case StoreBusyException():
            return FailureKind.BUSY
    return FailureKind.USER_CODE


def by_spark(_: BaseException) -> FailureKind:
    """Classify what was raised by what hands a task its rows: Spark has broken it off, or will fail the job itself."""
    return FailureKind.INTERRUPTED


@contextmanager
def in_user_code(place: Callable[[], str]) -> Iterator[None]:
    """Note on what a function of the user's raises in the block where that was.

    Raises:
        TaskFailed: it raised one of our own errors, which mean nothing where a function raises them.
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
    """Raise a failure that a task of the job has told which the block builds and runs.

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
    """Return ``stage`` for a task, which tells what it fails of; in a job of nobody who listens, just ``stage``."""
    mark = _mark.get()
    return stage if mark is None else TellingStage(stage, classify, mark)


@frozen
class TellingStage:
    """A stage that tells the driver what it failed of; travels to the worker."""

    stage: Stage
    classify: Classify
    mark: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage."""
        try:
            yield from classified(self._made(batches), self.classify)
        except TaskFailed as error:
            raise MarkedFailure(f"told to the driver as {self.mark}:{error.failure.written()}:") from error.__cause__

    def _made(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.stage(classified(batches, by_spark))


def classified(batches: Iterator[pa.RecordBatch], classify: Classify) -> Iterator[pa.RecordBatch]:
    """Give the same batches; what is raised on the way is classified here, whoever takes them.

    Raises:
        TaskFailed: anything was raised.
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
    """Return what was raised, with its notes, for people, as any database can hold it; empty: nothing was."""
    if error is None:
        return ""
    text = "\n".join([error_text(error), *error_notes(error)])
    return text if len(text) <= ERROR_CHARS_MAX else f"{text[:ERROR_CHARS_MAX]}…"
