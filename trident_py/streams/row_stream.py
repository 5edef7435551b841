"""What streams do row by row, and which partition their rows are in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
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
    """Rows with named fields, batch by batch: the part of a `Stream` that gives streams of the same kind."""

    _graph: Graph = field(repr=False)
    _node: Node = field(repr=False)
    _label: str | None = None

    def __repr__(self) -> str:
        known = f", schema={fields_text(self.schema)!r}" if self.schema else ""
        named = f", name={self._label!r}" if self._label else ""
        return f"{type(self).__name__}(topology={self._graph.topology!r}{named}{known})"

    @property
    def schema(self) -> StructType | None:
        """The fields; None behind a `transform` without ``schema=``, until the topology is started."""
        return self._node.schema

    # --- row by row ---------------------------------------------------------------------------------------------------

    def each(
        self,
        in_fields: str | Sequence[str],
        operation: Function | Filter,
        out_schema: str | StructType | None = None,
    ) -> Self:
        """Append the fields that a `Function` emits, or keep the rows that a `Filter` wants: Trident's ``each``.

        Args:
            in_fields: what the operation sees of a row: a name or several.
            operation: runs in Spark tasks.
            out_schema: the fields that a `Function` emits; none for a `Filter`.
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
        """Make one row of each row: ``fn`` gives a tuple, list or Row with the values of ``schema``."""
        with self._declaring("map", fn) as title:
            return self._next(map_rows(title, fn, schema))

    def flat_map(self, fn: Callable[[Row], Any], schema: str | StructType) -> Self:
        """Make any number of rows of each row: ``fn`` gives an iterable of tuples, lists or Rows."""
        with self._declaring("flat_map", fn) as title:
            return self._next(flat_map_rows(title, fn, schema))

    def filter(self, condition: Filter | Callable[[Row], object] | Column | str) -> Self:
        """Keep the rows for which ``condition`` holds.

        A ``Column`` or a SQL string is evaluated by Spark itself; a function gets a Row, a `Filter` its fields. Classic
        PySpark makes a ``Column`` only where a session is there already; a SQL string such as ``"length(word) > 3"``
        needs none.
        """
        with self._declaring("filter", condition) as title:
            if isinstance(condition, Column | str):
                return self._next(ColumnFilter(title, condition))
            names = condition.in_fields if isinstance(condition, Filter) else ()
            return self._next(filter_rows(title, condition, names_of(names)))

    def peek(self, fn: Callable[[Row], object]) -> Self:
        """Show every row to ``fn``, in Spark tasks; again when a batch is replayed."""
        with self._declaring("peek", fn) as title:
            return self._next(peek_rows(title, fn))

    def project(self, *fields: str) -> Self:
        """Keep only ``fields``, in this order."""
        with self._declaring("project", *fields) as title:
            return self._next(project_rows(title, names_of(fields)))

    def transform(self, fn: Callable[[DataFrame], DataFrame], schema: str | StructType | None = None) -> Self:
        """Apply a function of DataFrames: whatever Spark SQL does natively, within one batch.

        Args:
            fn: called for every attempt, and once at the start with an empty frame; runs no action.
            schema: the fields of what it returns; None: Spark is asked at the start.
        """
        with self._declaring("transform", fn) as title:
            return self._next(transformed(title, fn, schema))

    def sql(self, query: str, schema: str | StructType | None = None) -> Self:
        """Make a query in Spark's SQL over each batch, which is its table ``stream``: ``"SELECT word FROM stream"``.

        It sees the rows of one transaction, whatever else is under way, and may aggregate, join ``stream`` with itself,
        and use the tables of the session's catalog. It has to give the same rows in a replay: no ``rand()``, and no
        ``LIMIT`` without ``ORDER BY``.

        Args:
            query: one query. What is wrong in it is said at the start, before anything is emitted.
            schema: the fields that it gives; None: Spark is asked at the start.
        """
        with self._graph.declaring(f"sql({clipped(query)})") as title:
            return self._next(sql_query(title, query, schema))

    def sample(self, fraction: float, seed: int) -> Self:
        """Keep about ``fraction`` of the rows of each batch; the same ones in each replay, however it is partitioned.

        Which ones follows from the seed, the transaction and the values of a row; equal rows are kept or dropped one by
        one. For that the rows are shuffled: those of a partition stay in order, `partition_by` and its like belong
        behind it.

        Args:
            fraction: from 0 to 1.
            seed: another one keeps other rows.
        """
        with self._declaring("sample", fraction, seed) as title:
            return self._next(sample_of(title, fraction, seed))

    def name(self, name: str) -> Self:
        """Give the stream a name: the states and sinks on it that have none of their own are called so."""
        with self._declaring("name", name):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise TopologyError(f"a name is made of letters, digits, '_', '.' and '-', not {shown(name)}")
            return evolve(self, label=name)

    # --- partitions ---------------------------------------------------------------------------------------------------

    def partition_by(self, *fields: str) -> Self:
        """Bring rows with the same values of ``fields`` together, for what is done by partition."""
        with self._declaring("partition_by", *fields) as title:
            names = names_of(fields)
            if not names:
                raise TopologyError("name the fields to partition by")
            return self._next(Repartition(title=title, kind=Partitioning.BY_FIELDS, fields=names))

    def partition(self, number: Column | str) -> Self:
        """Put each row into the partition whose number an expression of Spark's gives.

        A grouping of your own.

        Args:
            number: a ``Column`` or SQL such as ``"length(word)"``: an integer, taken modulo the number of partitions;
                null is 0. What only Python can tell is given a field first, by `map` or `each`.
        """
        with self._declaring("partition", number) as title:
            if not isinstance(number, Column | str):
                raise TopologyError(f"the number of a partition is a Column or SQL, not {shown(number)}")
            return self._next(Repartition(title=title, kind=Partitioning.BY_NUMBER, number=number))

    def shuffle(self) -> Self:
        """Deal the rows out evenly to all partitions."""
        with self._declaring("shuffle") as title:
            return self._next(Repartition(title=title, kind=Partitioning.SHUFFLE))

    def global_(self) -> Self:
        """Put all rows of the batch into one partition."""
        with self._declaring("global_") as title:
            return self._next(Repartition(title=title, kind=Partitioning.GLOBAL))

    def broadcast(self) -> Self:
        """Put a copy of every row into each partition.

        As many copies as `parallelism_hint` says, else one.
        """
        with self._declaring("broadcast") as title:
            return self._next(Repartition(title=title, kind=Partitioning.BROADCAST))

    def parallelism_hint(self, partitions: int) -> Self:
        """Say how many partitions there are, back to the last repartitioning; the greatest hint counts.

        Where there is no repartitioning before it, one is put in: the rows are dealt out evenly. `global_` stays one.
        """
        with self._declaring("parallelism_hint", partitions) as title:
            return self._next(parallelism_hint(title, partitions))

    def resources(self, *, cpus: int | None = None, memory: str | None = None, gpus: float | None = None) -> Self:
        """Say what the Python operations in front of it need, back to the last shuffle or `resources`.

        They run in a Spark stage with a ``ResourceProfile`` of its own, on Standalone, YARN or Kubernetes; so does what
        Spark puts behind them into that stage. In local mode it changes nothing, and a warning says so. Batches of such
        a stream share no jobs.

        Args:
            cpus: cores of each task.
            memory: of each executor that runs these tasks, as ``"4g"``: needs ``spark.dynamicAllocation.enabled``.
            gpus: of each task: a whole number, or a share up to 0.5.
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
    """Show how a user would recognise ``thing`` in a message.

    A function by its name and place, the rest by its repr.
    """
    code = getattr(thing, "__code__", None)
    if code is not None:
        place = f"{PurePath(code.co_filename).name}:{code.co_firstlineno}"
        return f"{getattr(thing, '__name__', 'function')} at {place}"
    if callable(thing) and hasattr(thing, "__name__"):
        return str(thing.__name__)
    return repr(thing) if type(thing).__repr__ is not object.__repr__ else type(thing).__name__


def check_instance(thing: object, kind: type, what: str) -> None:
    """Check that ``thing`` is a ``kind``, else raise a `TopologyError` which says that ``what`` is."""
    if not isinstance(thing, kind):
        raise TopologyError(f"{what} is an instance of {kind.__name__}, not {shown(thing)}")


def _filter_seeing(title: str, names: tuple[str, ...], condition: Filter, out_schema: object) -> RowOperation:
    if out_schema is not None:
        raise TopologyError("a Filter emits no fields; leave out_schema out")
    if condition.in_fields and condition.in_fields != names:
        raise TopologyError(f"{described(condition)} carries its fields; use filter")
    return filter_rows(title, condition, names)
