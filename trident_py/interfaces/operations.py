"""The interfaces of operations: Storm's in PEP 8. Instances travel to Spark tasks, so they must pickle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Context
from typing import Any, Generic, Literal, TypeVar

from trident_py.interfaces.collector import TridentCollector

T = TypeVar("T")

EXACT_DECIMALS = Context(prec=76)
"""The context in which aggregators combine decimals of up to 38 digits; Python's default one rounds at 28."""


class Operation:
    """What `Function`, `Filter`, `Aggregator` and the multi-reducers share; also for what is given to ``map``.

    An instance travels to every task of every batch, and whatever it makes in ``prepare`` is for that partition of that
    batch alone (Storm O1: for the life of a bolt's task). What is too costly for that is made once a process, in a
    function with ``functools.cache``. ``pyspark.TaskContext.get()`` tells which partition it is.
    """

    def prepare(self) -> None:
        """Prepare: rows follow. Called where they are worked on, before the first; what it raises fails the attempt."""

    def cleanup(self) -> None:
        """Clean up: there are no more rows, or an exception came. What it raises is logged."""


class Function(Operation, ABC):
    """Appends fields: each emit gives one copy of the row with the emitted values behind it; none drops the row."""

    @abstractmethod
    def execute(self, row: Any, collector: TridentCollector) -> None:
        """Emit zero or more tuples for ``row``, which holds the input fields only."""


class Filter(Operation, ABC):
    """Keeps or drops rows.

    Attributes:
        in_fields: the fields that ``is_keep`` sees; empty: all, or those that ``each`` names.
    """

    in_fields: tuple[str, ...] = ()

    @abstractmethod
    def is_keep(self, row: Any) -> bool:
        """Tell whether ``row``, which holds the input fields only, stays; what Python takes for true counts as such."""


class Aggregator(Operation, ABC, Generic[T]):
    """The general aggregation: sees every row of a group (or of the batch) in turn and may emit at any time.

    Attributes:
        in_fields: the fields that ``aggregate`` sees; empty: all.
    """

    in_fields: tuple[str, ...] = ()

    @abstractmethod
    def init(self, batch_id: Any, collector: TridentCollector) -> T:
        """Return the value to start with; called for empty batches too."""

    @abstractmethod
    def aggregate(self, value: T, row: Any, collector: TridentCollector) -> T | None:
        """Take in ``row``; returns the next value, or None where ``value`` itself was changed."""

    @abstractmethod
    def complete(self, value: T, collector: TridentCollector) -> None:
        """Complete the value: all rows were seen."""


class CombinerAggregator(ABC, Generic[T]):
    """An aggregation by parts: ``combine`` must be associative and commutative.

    Attributes:
        in_fields: the fields that ``init`` sees; empty: all.
        merge: a hint for states that can combine in their own engine: ``combine`` is SQL's ``+``, least or greatest
            of two values, and None adds nothing to the other. None: only ``combine`` knows.
    """

    in_fields: tuple[str, ...] = ()
    merge: Literal["sum", "min", "max"] | None = None

    @abstractmethod
    def init(self, row: Any) -> T:
        """Return the value of one row."""

    @abstractmethod
    def combine(self, left: T, right: T) -> T:
        """Return the value of two parts together, or `REMOVE` where nothing is left of them."""

    @abstractmethod
    def zero(self) -> T:
        """Return the value of no rows at all."""


class ReducerAggregator(ABC, Generic[T]):
    """A left fold.

    Attributes:
        in_fields: the fields that ``reduce`` sees; empty: all.
    """

    in_fields: tuple[str, ...] = ()

    @abstractmethod
    def init(self) -> T:
        """Return the value to start from."""

    @abstractmethod
    def reduce(self, curr: T, row: Any) -> T:
        """Return the value after ``row``, or `REMOVE` where there is none any more."""


class Assembly(ABC):
    """Operations under one name, for `Stream.apply`."""

    @abstractmethod
    def apply(self, stream: Any) -> Any:
        """Return what becomes of ``stream``: another `Stream`. Called once, where it is declared."""


class MultiReducer(Operation, ABC, Generic[T]):
    """An `Aggregator` over several streams: sees every row of each of them, in no order among streams."""

    @abstractmethod
    def init(self, collector: TridentCollector) -> T:
        """Return the value to start with; called for empty batches too."""

    @abstractmethod
    def execute(self, value: T, stream_index: int, row: Any, collector: TridentCollector) -> T | None:
        """Take in ``row`` of the stream at ``stream_index``; returns as `Aggregator.aggregate` does."""

    @abstractmethod
    def complete(self, value: T, collector: TridentCollector) -> None:
        """Complete the value: all rows were seen."""


class GroupedMultiReducer(Operation, ABC, Generic[T]):
    """A `MultiReducer` for each group; ``group`` has the group fields as the first stream calls them."""

    @abstractmethod
    def init(self, collector: TridentCollector, group: Any) -> T:
        """Return the value of a group to start with."""

    @abstractmethod
    def execute(self, value: T, stream_index: int, group: Any, row: Any, collector: TridentCollector) -> T | None:
        """Take in ``row`` of the stream at ``stream_index``; returns as `Aggregator.aggregate` does."""

    @abstractmethod
    def complete(self, value: T, group: Any, collector: TridentCollector) -> None:
        """Complete the value of a group, all rows of which were seen."""
