"""`counter`: counts in user functions, which belong to the transaction of the rows for which they are called.

Counts are kept in a `CountScope`: of a stage in a Spark task, of a job or emission on the driver, or of a step of a
commit. They are identified by the node of the graph with the counting function. If the same function runs over the same
rows in several jobs, or twice in one, it counts once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, SupportsIndex, TypeVar

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
"""The hidden column for the counts of a task, in one row after the others."""


@frozen
class Counter:
    """A counter with a name; it may be stored, sent to tasks, and used from several functions."""

    name: str

    def add(self, n: int = 1) -> None:
        """Add ``n`` to the counter.

        Raises:
            CounterError: it isn't called for the rows of a transaction.
            TypeError: ``n`` is not a whole number.
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
    """Return the counter ``name``, for any user function: ``counter("bad lines").add(1)``.

    It counts once for each committed transaction, even if its rows are processed several times.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a counter is a string that is not empty, not {name!r}")
    return Counter(name)


@frozen
class NodeCounts:
    """The counts of one node's function, by name; ``tasks`` is the number of tasks that reported them."""

    by_name: Mapping[str, int]
    tasks: int = 1


@define
class CountScope:
    """The counts of one place, by transaction and node.

    Attributes:
        txid: the transaction of the present rows; None if there can be only one.
        node: the node whose function is called.
        is_kept: whether the counts are used; otherwise it is only recorded that there are any.
        counts: the counts by transaction and node, then by name.
    """

    txid: int | None = None
    node: str = ""
    is_kept: bool = True
    counts: dict[tuple[int | None, str], dict[str, int]] = field(factory=dict, init=False)

    def add(self, name: str, n: int) -> None:
        """Add ``n`` to a counter."""
        counts = self.counts.setdefault((self.txid, self.node), {})
        counts[name] = counts.get(name, 0) + n

    @property
    def by_node(self) -> dict[str, NodeCounts]:
        """The counts by node, if all of them belong to one transaction."""
        return {node: NodeCounts(by_name) for (_, node), by_name in self.counts.items()}


_scope: ContextVar[CountScope | None] = ContextVar("trident_count_scope", default=None)
_node: ContextVar[str] = ContextVar("trident_node", default="")


@contextmanager
def count_scope(scope: CountScope) -> Iterator[CountScope]:
    """Keep the counts of user functions in the block, on this thread, in ``scope``."""
    token = _scope.set(scope)
    try:
        yield scope
    finally:
        _scope.reset(token)


@contextmanager
def counting_if_passed() -> Iterator[None]:
    """Drop the counts of user functions in the block if it raises."""
    scope = _scope.get()
    if scope is None:
        yield
        return
    with count_scope(CountScope(scope.txid, scope.node, scope.is_kept)) as inner:
        yield
    for key, by_name in inner.counts.items():
        scope.counts[key] = summed(scope.counts.get(key, {}), by_name)


def counting_for(txid: int | None) -> None:
    """Attribute later counts to ``txid``."""
    scope = _scope.get()
    if scope is not None:
        scope.txid = txid


def working_for(attempt: TransactionAttempt) -> None:
    """Attribute later counts and log records of this context to ``attempt``."""
    counting_for(attempt.txid)
    log_about(attempt=attempt)


def working_for_all(group: Sequence[Any]) -> None:
    """Attribute later counts to no transaction if ``group`` has several: they are committed together now."""
    if len(group) > 1:
        counting_for(None)


def counting_at(node: str) -> None:
    """Attribute later counts to the function of ``node``."""
    scope = _scope.get()
    if scope is not None:
        scope.node = node


def is_counting() -> bool:
    """Return whether counts are used here, and so must name their transaction."""
    scope = _scope.get()
    return scope is not None and scope.is_kept


def drawn_at(node: str, values: Iterator[T]) -> Iterator[T]:
    """Yield the same values; counts made while computing one belong to ``node``."""
    while True:
        counting_at(node)
        try:
            value = next(values)
        except StopIteration:
            return
        yield value


# --- the node of a function -------------------------------------------------------------------------------------------


@contextmanager
def building(node: str) -> Iterator[None]:
    """Attribute the counts of user functions wrapped in the block to ``node``."""
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
    """A stage that reports the counts of its functions in a last row; no row without counts.

    Attributes:
        fields: the fields of the stage; `COUNTS` follows them.
    """

    stage: Stage
    fields: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
    """A stage of a job that doesn't collect counts, because no counter was used so far: it fails at the first use."""

    stage: Stage

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage.

        Raises:
            TaskFailed: a counter was used; the job must run again and collect counts.
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
    """Return the counts of the tasks of one stage, by transaction and node.

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
    """Return the sums of both, by name."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
