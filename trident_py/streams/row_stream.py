"""The operations of streams on single rows, and those that change the partitions of rows."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import PurePath
from typing import Any, Self

from attrs import evolve, field, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from trident_py.errors import TopologyError
from trident_py.graph.graph import Graph, Node, Operation
from trident_py.graph.partitioning import Partitioning, Repartition, parallelism_hint
from trident_py.graph.resources import resources_of
from trident_py.graph.rowwise import (
    ColumnFilter,
    RowOperation,
    async_map_rows,
    each_row,
    filter_rows,
    flat_map_rows,
    map_rows,
    peek_rows,
    project_rows,
    transformed,
)
from trident_py.graph.sample import sample_of
from trident_py.graph.sql import sql_query
from trident_py.interfaces.operations import Filter, Function
from trident_py.rows.row import Row
from trident_py.rows.schema import clipped, fields_text, names_of, shown

_NAME = re.compile(r"[\w.-]+")


@frozen(repr=False)
class RowStream:
    """Rows with named fields, batch by batch: the part of `Stream` whose operations return the same kind of stream."""

    _graph: Graph = field(repr=False)
    _node: Node = field(repr=False)
    _label: str | None = None

    def __repr__(self) -> str:
        known = f", schema={fields_text(self.schema)!r}" if self.schema else ""
        named = f", name={self._label!r}" if self._label else ""
        return f"{type(self).__name__}(topology={self._graph.topology!r}{named}{known})"

    @property
    def schema(self) -> StructType | None:
        """The fields; None after a `transform` without ``schema=``, until the topology is started."""
        return self._node.schema

    # --- row by row ---------------------------------------------------------------------------------------------------

    def each(
        self,
        in_fields: str | Sequence[str],
        operation: Function | Filter,
        out_schema: str | StructType | None = None,
    ) -> Self:
        """Append the fields that a `Function` emits, or keep the rows that a `Filter` accepts: Trident's ``each``.

        Args:
            in_fields: the fields that the operation receives: a name or several.
            operation: runs in Spark tasks.
            out_schema: the fields that a `Function` emits; leave it out for a `Filter`.
        """
        with self._declaring("each", operation) as title:
            names = names_of(in_fields)
            match operation:
                case Filter():
                    return self._next(_filter_seeing(title, names, operation, out_schema))
                case Function() if out_schema is not None:
                    return self._next(each_row(title, operation, names, out_schema))
                case Function():
                    raise TopologyError("a Function needs out_schema, the fields that it emits")
            raise TopologyError(f"each takes an instance of Function or Filter, not {shown(operation)}")

    def map(self, fn: Callable[[Row], Sequence[Any]], schema: str | StructType) -> Self:
        """Map each row to one row: ``fn`` returns a tuple, list or Row with the values of ``schema``."""
        with self._declaring("map", fn) as title:
            return self._next(map_rows(title, fn, schema))

    def map_async(
        self,
        fn: Callable[[Row], Awaitable[Sequence[Any]]],
        schema: str | StructType,
        *,
        in_flight: int = 16,
        retries: int = 0,
        timeout: float | timedelta | None = 30.0,
    ) -> Self:
        """Map each row to one row by a coroutine, such as a request to a service: many rows wait at the same time.

        The output has the order of the input. A call that fails in the end fails the batch, as in `map`. All calls of a
        thread run in the same event loop, so a client may be kept from one batch to the next.

        Args:
            fn: an ``async def`` function; it returns a tuple, list or Row with the values of ``schema``.
            schema: the fields of the new rows.
            in_flight: the number of rows of a task whose calls run at the same time.
            retries: how often a call that raises is repeated. It pauses for up to 0.1 s, twice as long each time, at
                most 5 s.
            timeout: the seconds that one call may take, or None for no limit; then `TimeoutError` is raised in it.
        """
        with self._declaring("map_async", fn) as title:
            operation = async_map_rows(title, fn, schema, in_flight=in_flight, retries=retries, timeout=timeout)
            return self._next(operation)

    def flat_map(self, fn: Callable[[Row], Any], schema: str | StructType) -> Self:
        """Map each row to any number of rows: ``fn`` returns an iterable of tuples, lists or Rows."""
        with self._declaring("flat_map", fn) as title:
            return self._next(flat_map_rows(title, fn, schema))

    def filter(self, condition: Filter | Callable[[Row], object] | Column | str) -> Self:
        """Keep the rows for which ``condition`` is true.

        Spark itself evaluates a ``Column`` or a SQL string; a function receives a Row, and a `Filter` its fields.
        Classic PySpark can make a ``Column`` only if a session exists already; a SQL string such as ``"length(word) >
        3"`` needs no session.
        """
        with self._declaring("filter", condition) as title:
            if isinstance(condition, Column | str):
                return self._next(ColumnFilter(title, condition))
            names = condition.in_fields if isinstance(condition, Filter) else ()
            return self._next(filter_rows(title, condition, names_of(names)))

    def peek(self, fn: Callable[[Row], object]) -> Self:
        """Call ``fn`` with every row, in Spark tasks; again when a batch is replayed."""
        with self._declaring("peek", fn) as title:
            return self._next(peek_rows(title, fn))

    def project(self, *fields: str) -> Self:
        """Keep only ``fields``, in this order."""
        with self._declaring("project", *fields) as title:
            return self._next(project_rows(title, names_of(fields)))

    def transform(self, fn: Callable[[DataFrame], DataFrame], schema: str | StructType | None = None) -> Self:
        """Apply a function of DataFrames within one batch: any native operation of Spark SQL.

        Args:
            fn: called for every attempt, and once at the start with an empty frame; it must not run an action.
            schema: the fields of its result; None: Spark derives them at the start.
        """
        with self._declaring("transform", fn) as title:
            return self._next(transformed(title, fn, schema))

    def sql(self, query: str, schema: str | StructType | None = None) -> Self:
        """Run a Spark SQL query on each batch, which is the table ``stream``: ``"SELECT word FROM stream"``.

        The query sees the rows of one transaction only, even if other batches run. It may aggregate, join ``stream``
        with itself, and use the tables of the session's catalog. It must return the same rows in a replay: no
        ``rand()``, and no ``LIMIT`` without ``ORDER BY``.

        Args:
            query: one query. Errors in it are raised at the start, before anything is emitted.
            schema: the fields of its result; None: Spark derives them at the start.
        """
        with self._graph.declaring(f"sql({clipped(query)})") as title:
            return self._next(sql_query(title, query, schema))

    def sample(self, fraction: float, seed: int) -> Self:
        """Keep about ``fraction`` of the rows of each batch: the same rows in each replay, for any partitioning.

        The choice depends on the seed, the transaction and the values of a row; equal rows are kept or dropped one by
        one. The rows are shuffled for this: rows of a partition stay in order, but call `partition_by` and the like
        after it.

        Args:
            fraction: from 0 to 1.
            seed: a different seed keeps different rows.
        """
        with self._declaring("sample", fraction, seed) as title:
            return self._next(sample_of(title, fraction, seed))

    def name(self, name: str) -> Self:
        """Name the stream: states and sinks on it without a name get this one."""
        with self._declaring("name", name):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise TopologyError(f"a name is made of letters, digits, '_', '.' and '-', not {shown(name)}")
            return evolve(self, label=name)

    # --- partitions ---------------------------------------------------------------------------------------------------

    def partition_by(self, *fields: str) -> Self:
        """Repartition so that rows with equal ``fields`` are in the same partition, for operations by partition."""
        with self._declaring("partition_by", *fields) as title:
            names = names_of(fields)
            if not names:
                raise TopologyError("name the fields to partition by")
            return self._next(Repartition(title=title, kind=Partitioning.BY_FIELDS, fields=names))

    def partition(self, number: Column | str) -> Self:
        """Put each row into the partition with the number that a Spark expression returns.

        This is a custom grouping.

        Args:
            number: a ``Column`` or SQL such as ``"length(word)"``: an integer, taken modulo the number of partitions;
                null is 0. If only Python can compute the number, first add it as a field, by `map` or `each`.
        """
        with self._declaring("partition", number) as title:
            if not isinstance(number, Column | str):
                raise TopologyError(f"the number of a partition is a Column or SQL, not {shown(number)}")
            return self._next(Repartition(title=title, kind=Partitioning.BY_NUMBER, number=number))

    def shuffle(self) -> Self:
        """Distribute the rows evenly over all partitions."""
        with self._declaring("shuffle") as title:
            return self._next(Repartition(title=title, kind=Partitioning.SHUFFLE))

    def global_(self) -> Self:
        """Put all rows of the batch into one partition."""
        with self._declaring("global_") as title:
            return self._next(Repartition(title=title, kind=Partitioning.GLOBAL))

    def broadcast(self) -> Self:
        """Put a copy of every row into each partition.

        There are as many copies as `parallelism_hint` says, or one.
        """
        with self._declaring("broadcast") as title:
            return self._next(Repartition(title=title, kind=Partitioning.BROADCAST))

    def parallelism_hint(self, partitions: int) -> Self:
        """Set the number of partitions, back to the last repartitioning; the greatest hint counts.

        If there is no repartitioning before it, one is added: the rows are distributed evenly. `global_` keeps one
        partition.
        """
        with self._declaring("parallelism_hint", partitions) as title:
            return self._next(parallelism_hint(title, partitions))

    def resources(self, *, cpus: int | None = None, memory: str | None = None, gpus: float | None = None) -> Self:
        """Set the resources of the preceding Python operations, back to the last shuffle or `resources`.

        These operations run in a Spark stage with a separate ``ResourceProfile``, on Standalone, YARN or Kubernetes.
        All operations that Spark adds to that stage run there too. In local mode this changes nothing, and a warning
        says so. Batches of such a stream share no jobs.

        Args:
            cpus: the cores of each task.
            memory: the memory of each executor that runs these tasks, as ``"4g"``: needs
                ``spark.dynamicAllocation.enabled``.
            gpus: the GPUs of each task: a whole number, or a share up to 0.5.
        """
        wanted = {"cpus": cpus, "memory": memory, "gpus": gpus}
        given = ", ".join(f"{name}={value!r}" for name, value in wanted.items() if value is not None)
        with self._graph.declaring(f"resources({given})") as title:
            return self._next(resources_of(title, cpus, memory, gpus))

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _next(self, operation: Operation) -> Self:
        return evolve(self, node=self._graph.add(operation, self._node, label=self._label))

    def _declaring(self, method: str, *arguments: object) -> AbstractContextManager[str]:
        return self._graph.declaring(f"{method}({', '.join(map(described, arguments))})")


def described(thing: object) -> str:
    """Format ``thing`` for a message, so that a user recognises it.

    A function is shown by its name and place, any other object by its repr.
    """
    code = getattr(thing, "__code__", None)
    if code is not None:
        place = f"{PurePath(code.co_filename).name}:{code.co_firstlineno}"
        return f"{getattr(thing, '__name__', 'function')} at {place}"
    if callable(thing) and hasattr(thing, "__name__"):
        return str(thing.__name__)
    return repr(thing) if type(thing).__repr__ is not object.__repr__ else type(thing).__name__


def check_instance(thing: object, kind: type, what: str) -> None:
    """Check that ``thing`` is a ``kind``; if not, raise a `TopologyError` that says that ``what`` is one."""
    if not isinstance(thing, kind):
        raise TopologyError(f"{what} is an instance of {kind.__name__}, not {shown(thing)}")


def _filter_seeing(title: str, names: tuple[str, ...], condition: Filter, out_schema: object) -> RowOperation:
    if out_schema is not None:
        raise TopologyError("a Filter emits no fields; leave out_schema out")
    if condition.in_fields and condition.in_fields != names:
        raise TopologyError(f"{described(condition)} carries its fields; use filter")
    return filter_rows(title, condition, names)
