"""`counter`: what user functions count belongs to the transaction whose rows they are called for.

What is counted is kept in a `CountScope`: of a stage in a Spark task, of a job or an emission on the driver, or of a
step of a commit. It is known by the node of the graph whose function has counted: the same function may run over the
same rows in several jobs, or twice in one, and counts once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import SupportsIndex, TypeVar

import pyarrow as pa
from attrs import define, field, frozen
from pyspark import TaskContext

from coordinators.protocol.messages import FailureKind
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.log_fields import log_about
from trident_py.errors import CounterError
from trident_py.worker.failures import Stage, TaskFailed, TaskFailure

T = TypeVar("T")

COUNTS = "_trident_counts"
"""The hidden column that has, in one row behind the others, what a task has counted."""


@frozen
class Counter:
    """Counts under one name; it may be kept, travel to tasks, and be used from several functions."""

    name: str

    def add(self, n: int = 1) -> None:
        """Count ``n`` more.

        Raises:
            CounterError: it isn't called for the rows of a transaction.
            TypeError: ``n`` is no whole number.
        """
        scope = _scope.get()
        if scope is None:
            raise CounterError(
                f"counter({self.name!r}).add was called outside of a transaction; call it in a function that is given "
                f"rows, an emitter, or a state or sink that prepares or commits, and on the thread that calls that"
            )
        if not isinstance(n, SupportsIndex):
            raise TypeError(f"counter({self.name!r}) counts whole numbers, not {n!r}")
        scope.add(self.name, n.__index__())


def counter(name: str) -> Counter:
    """Count under ``name`` in any user function: ``counter("bad lines").add(1)``.

    It counts once for each committed transaction, however often its rows are processed.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a counter is a string that is not empty, not {name!r}")
    return Counter(name)


@frozen
class NodeCounts:
    """What the function of one node has counted, by name; ``tasks`` is how many tasks have told of it."""

    by_name: Mapping[str, int]
    tasks: int = 1


@define
class CountScope:
    """What has been counted in one place, by transaction and node.

    Attributes:
        txid: the transaction whose rows are worked on; None: the only one that it can be.
        node: the node whose function is called.
        is_kept: whether somebody wants to know what it is; otherwise only that there is something.
        counts: by both, and by name.
    """

    txid: int | None = None
    node: str = ""
    is_kept: bool = True
    counts: dict[tuple[int | None, str], dict[str, int]] = field(factory=dict, init=False)

    def add(self, name: str, n: int) -> None:
        """Count ``n`` more."""
        counts = self.counts.setdefault((self.txid, self.node), {})
        counts[name] = counts.get(name, 0) + n

    @property
    def by_node(self) -> dict[str, NodeCounts]:
        """What was counted, where it is all of one transaction."""
        return {node: NodeCounts(by_name) for (_, node), by_name in self.counts.items()}


_scope: ContextVar[CountScope | None] = ContextVar("trident_count_scope", default=None)
_node: ContextVar[str] = ContextVar("trident_node", default="")


@contextmanager
def count_scope(scope: CountScope) -> Iterator[CountScope]:
    """Keep what user functions count in the block, on this thread, in ``scope``."""
    token = _scope.set(scope)
    try:
        yield scope
    finally:
        _scope.reset(token)


def counting_for(txid: int | None) -> None:
    """Take what is counted from now on for that of ``txid``."""
    scope = _scope.get()
    if scope is not None:
        scope.txid = txid


def working_for(attempt: TransactionAttempt) -> None:
    """Take what is counted and logged from now on in this context for that of ``attempt``."""
    counting_for(attempt.txid)
    log_about(attempt=attempt)


def counting_at(node: str) -> None:
    """Take what is counted from now on for that of the function of ``node``."""
    scope = _scope.get()
    if scope is not None:
        scope.node = node


def is_counting() -> bool:
    """Tell whether somebody wants to know what is counted here, and for which transaction."""
    scope = _scope.get()
    return scope is not None and scope.is_kept


def drawn_at(node: str, values: Iterator[T]) -> Iterator[T]:
    """Give the same values; what is counted while one is made is that of ``node``."""
    while True:
        counting_at(node)
        try:
            value = next(values)
        except StopIteration:
            return
        yield value


# --- which node a function belongs to ---------------------------------------------------------------------------------


@contextmanager
def building(node: str) -> Iterator[None]:
    """Have whatever is made in the block to call a user function count for ``node``."""
    token = _node.set(node)
    try:
        yield
    finally:
        _node.reset(token)


def built_node() -> str:
    """Return the node that is being built."""
    return _node.get()


# --- in tasks ---------------------------------------------------------------------------------------------------------


@frozen
class CountingStage:
    """A stage that tells, in a last row, what its functions have counted; nothing where they have counted nothing.

    Attributes:
        fields: those of the stage; `COUNTS` follows them.
    """

    stage: Stage
    fields: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage."""
        names = [*self.fields.names, COUNTS]
        with count_scope(CountScope()) as scope:
            for rows in self.stage(batches):
                nothing = pa.nulls(rows.num_rows, pa.string())
                yield pa.RecordBatch.from_arrays([*rows.columns, nothing], names)
        if scope.counts:
            nulls = [pa.nulls(1, kind) for kind in self.fields.types]
            yield pa.RecordBatch.from_arrays([*nulls, pa.array([_report(scope)], pa.string())], names)


@frozen
class UncountedStage:
    """A stage of a job that doesn't listen to counters, as none was used so far: ends it as soon as one is."""

    stage: Stage

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage.

        Raises:
            TaskFailed: something was counted; the job has to run again, as one that listens.
        """
        with count_scope(CountScope(is_kept=False)) as scope:
            for rows in self.stage(batches):
                _ensure_nothing(scope)
                yield rows
            _ensure_nothing(scope)


def _ensure_nothing(scope: CountScope) -> None:
    if scope.counts:
        raise TaskFailed(
            TaskFailure(
                kind=FailureKind.INTERRUPTED, text="a counter was used for the first time in this run", counts=True
            )
        )


def _report(scope: CountScope) -> str:
    context = TaskContext.get()
    counts = [[txid, node, by_name] for (txid, node), by_name in scope.counts.items()]
    return json.dumps({"partition": context.partitionId() if context else 0, "counts": counts})


def of_reports(reports: list[str]) -> dict[tuple[int | None, str], NodeCounts]:
    """Return what the tasks of one stage have counted, by transaction and node.

    A task that Spark ran again counts once.
    """
    by_task = {told["partition"]: told["counts"] for told in map(json.loads, reversed(reports))}
    found: dict[tuple[int | None, str], NodeCounts] = {}
    for counts in by_task.values():
        for txid, node, by_name in counts:
            before = found.get((txid, node), NodeCounts({}, 0))
            found[txid, node] = NodeCounts(summed(before.by_name, by_name), before.tasks + 1)
    return found


def summed(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Return both together, name by name."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
