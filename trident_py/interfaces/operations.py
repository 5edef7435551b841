"""The interfaces of operations: Storm's in PEP 8. Instances are sent to Spark tasks, so they must pickle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Context
from typing import Any, Generic, Literal, TypeVar

from trident_py.interfaces.collector import TridentCollector

T = TypeVar("T")

EXACT_DECIMALS = Context(prec=76)
"""The context in which aggregators combine decimals of up to 38 digits; Python's default one rounds at 28."""


class Operation:
    """Base of `Function`, `Filter`, `Aggregator` and the multi-reducers, and of functions given to ``map``.

    An instance is pickled into every task of every batch. So ``prepare`` is called for each partition of each batch,
    and its resources serve that partition only. In Storm they live as long as a bolt's task. To create an expensive
    resource once per process, use a function with ``functools.cache``. ``pyspark.TaskContext.get()`` returns the
    partition.
    """

    def prepare(self) -> None:
        """Prepare for rows. Called in the task, before its first row; an exception fails the attempt."""

    def cleanup(self) -> None:
        """Release resources. Called after the last row or after an exception; an exception raised here is logged."""


class Function(Operation, ABC):
    """Appends fields: each emit makes a copy of the row with the emitted values; without one, the row is dropped."""

    @abstractmethod
    def execute(self, row: Any, collector: TridentCollector) -> None:
        """Emit zero or more tuples for ``row``, which holds the input fields only."""


class Filter(Operation, ABC):
    """Keeps or drops rows.

    Attributes:
        in_fields: the fields that ``is_keep`` receives; empty: all, or the fields that ``each`` names.
    """

    in_fields: tuple[str, ...] = ()

    @abstractmethod
    def is_keep(self, row: Any) -> bool:
        """Return a true value to keep ``row``, which holds the input fields only."""


class Aggregator(Operation, ABC, Generic[T]):
    """The general aggregation: it receives every row of a group (or of the batch) in turn and may emit at any time.

    Attributes:
        in_fields: the fields that ``aggregate`` receives; empty: all.
    """

    in_fields: tuple[str, ...] = ()

    @abstractmethod
    def init(self, batch_id: Any, collector: TridentCollector) -> T:
        """Return the initial value; called for empty batches too."""

    @abstractmethod
    def aggregate(self, value: T, row: Any, collector: TridentCollector) -> T | None:
        """Add ``row`` to the value. Return the next value, or None if ``value`` was changed in place."""

    @abstractmethod
    def complete(self, value: T, collector: TridentCollector) -> None:
        """Finish: emit the result. Called after the last row."""


class CombinerAggregator(ABC, Generic[T]):
    """An aggregation of partial values: ``combine`` must be associative and commutative.

    Attributes:
        in_fields: the fields that ``init`` receives; empty: all.
        merge: a hint for states that can combine in their own engine: ``combine`` is SQL's ``+``, least or greatest of
            two values. None adds nothing to the other value. Without this hint, only ``combine`` is used.
    """

    in_fields: tuple[str, ...] = ()
    merge: Literal["sum", "min", "max"] | None = None

    @abstractmethod
    def init(self, row: Any) -> T:
        """Return the value of one row."""

    @abstractmethod
    def combine(self, left: T, right: T) -> T:
        """Return the value of two parts together, or `REMOVE` if they cancel each other out."""

    @abstractmethod
    def zero(self) -> T:
        """Return the value of no rows at all."""


class ReducerAggregator(ABC, Generic[T]):
    """A left fold over rows.

    Attributes:
        in_fields: the fields that ``reduce`` receives; empty: all.
    """

    in_fields: tuple[str, ...] = ()

    @abstractmethod
    def init(self) -> T:
        """Return the initial value."""

    @abstractmethod
    def reduce(self, curr: T, row: Any) -> T:
        """Return the value after ``row``, or `REMOVE` to delete the key."""


class Assembly(ABC):
    """A named group of operations, for `Stream.apply`."""

    @abstractmethod
    def apply(self, stream: Any) -> Any:
        """Return the stream that results from applying the operations to ``stream``. Called once, at declaration."""


class MultiReducer(Operation, ABC, Generic[T]):
    """An `Aggregator` over several streams: it receives every row of each, in no order among streams."""

    @abstractmethod
    def init(self, collector: TridentCollector) -> T:
        """Return the initial value; called for empty batches too."""

    @abstractmethod
    def execute(self, value: T, stream_index: int, row: Any, collector: TridentCollector) -> T | None:
        """Add ``row`` of the stream at ``stream_index``; return as `Aggregator.aggregate` does."""

    @abstractmethod
    def complete(self, value: T, collector: TridentCollector) -> None:
        """Finish: emit the result. Called after the last row."""


class GroupedMultiReducer(Operation, ABC, Generic[T]):
    """A `MultiReducer` for each group; ``group`` has the group fields under the names of the first stream."""

    @abstractmethod
    def init(self, collector: TridentCollector, group: Any) -> T:
        """Return the initial value of a group."""

    @abstractmethod
    def execute(self, value: T, stream_index: int, group: Any, row: Any, collector: TridentCollector) -> T | None:
        """Add ``row`` of the stream at ``stream_index``; return as `Aggregator.aggregate` does."""

    @abstractmethod
    def complete(self, value: T, group: Any, collector: TridentCollector) -> None:
        """Finish a group: emit its result. Called after the group's last row."""
