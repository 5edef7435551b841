"""The effect of rows on a state, for the driver and for Spark's tasks: combined, reduced, or by a user's updater."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql.types import StructType

from coordinators.values.error_text import error_text
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.states import (
    Columns,
    Emitted,
    MapState,
    State,
    StateChange,
    StateUpdater,
    ValueUpdater,
    combiner_updater,
    reducer_updater,
)
from trident_py.rows.batches import read_batch, write_batch
from trident_py.rows.row import columns_in, keys_in, row_class, rows_of
from trident_py.rows.schema import arrow_schema, arrow_table
from trident_py.states.keys import encode_key, keys_of
from trident_py.states.shards import shard_numbers, spread_over

log = logging.getLogger(__name__)

EMITTED_ROWS = 64 * 1024
"""So many rows are sent to the driver in one piece."""


@frozen(kw_only=True)
class Aggregated(StateChange):
    """``persistent_aggregate``: partial values of a combiner, or the rows of a reducer, by key.

    Attributes:
        keys: the number of key columns, which come first.
        inputs: the fields of the rows that a reducer receives.
        output: the fields of the new values: keys and value; None: they have no consumer.
    """

    aggregator: CombinerAggregator[Any] | ReducerAggregator[Any]
    keys: int
    inputs: Sequence[str] = ()
    output: StructType | None = None

    def partitions(self, rows: pa.Table, count: int) -> Sequence[int]:
        return shard_numbers(keys_in(rows, range(self.keys)), count)

    def apply(self, state: MapState[Any], rows: pa.Table, partition: int) -> Sequence[Emitted]:
        if not rows.num_rows:
            return ()
        keys, updaters = self.updaters(columns_in(rows))
        values = state.multi_update(keys, updaters)
        if self.output is None:
            return ()
        return emitted_rows([(*key, value) for key, value in zip(keys, values, strict=True)], self.output, partition)

    def updaters(self, columns: Columns) -> tuple[list[tuple[Any, ...]], list[ValueUpdater[Any]]]:
        """Return keys, and for each an updater of its value; a reducer has each key once."""
        keys, aggregator = keys_of(columns, self.keys), self.aggregator
        if isinstance(aggregator, CombinerAggregator):
            return keys, [combiner_updater(aggregator, partial) for partial in columns[self.keys]]
        rows = map(row_class(tuple(self.inputs))._make, zip(*columns[self.keys :], strict=True))
        groups: dict[str, tuple[tuple[Any, ...], list[Any]]] = {}
        for key, row in zip(keys, rows, strict=True):
            groups.setdefault(encode_key(key), (key, []))[1].append(row)
        found = list(groups.values())
        return [key for key, _ in found], [reducer_updater(aggregator, group) for _, group in found]


@define
class UpdateCollector(TridentCollector):
    """Receives the new values that a state updater emits."""

    where: str
    fields: Sequence[str]
    rows: list[tuple[Any, ...]] = field(factory=list)

    def emit(self, row: Sequence[Any]) -> None:
        if not isinstance(row, tuple | list):
            raise TypeError(f"{self.where}: emitted {row!r}; emit a tuple, list or Row")
        if len(row) != len(self.fields):
            raise ValueError(f"{self.where}: emitted {row!r} for the {len(self.fields)} fields {list(self.fields)}")
        self.rows.append(tuple(row))

    def report_error(self, error: BaseException) -> None:
        log.error("%s: reported %s", self.where, error_text(error))


def emitted_rows(rows: Sequence[Sequence[Any]], schema: StructType, place: int, stream: int = 0) -> list[Emitted]:
    """Return rows of these fields for the driver.

    Raises:
        TypeError: a value doesn't have the type of its field.
    """
    some = (rows[first : first + EMITTED_ROWS] for first in range(0, len(rows), EMITTED_ROWS))
    return [Emitted(place=place, stream=stream, rows=write_batch(arrow_table(each, schema))) for each in some]


def rows_emitted(emitted: Iterable[Emitted], schema: StructType) -> list[tuple[Any, ...]]:
    """Return the rows that `emitted_rows` was given."""
    fields = arrow_schema(schema)
    return [row for each in emitted for row in rows_of(read_batch(each.rows, fields))]


@frozen(kw_only=True)
class Updated(StateChange):
    """``partition_persist``: a user's updater, called for each partition, even if it has no rows.

    Attributes:
        where: names state and attempt in errors.
        inputs: the fields of the rows that the updater receives.
        output: the fields of the rows that it emits.
        places: the positions of the fields that determine the partition of a row.
        is_read: whether the new values have a consumer; else tasks don't send them.
    """

    updater: StateUpdater[Any]
    where: str
    inputs: Sequence[str]
    output: StructType = field(factory=StructType)
    places: Sequence[int] = ()
    is_read: bool = True

    def partitions(self, rows: pa.Table, count: int) -> Sequence[int]:
        return shard_numbers(keys_in(rows, self.places), count)

    def apply(self, state: MapState[Any], rows: pa.Table, partition: int) -> Sequence[Emitted]:
        collector = self._collector()
        self._update(state, self._rows(rows), collector)
        return emitted_rows(collector.rows, self.output, partition) if self.is_read else ()

    def spread(self, shards: Sequence[State], given: pa.Table) -> list[tuple[Any, ...]]:
        """Let the updater change each shard by its rows; return what it emits."""
        rows, collector = self._rows(given), self._collector()
        keys = [[row[place] for place in self.places] for row in rows]
        for shard, positions in spread_over(shards, keys):
            self._update(shard, [rows[each] for each in positions], collector)
        return collector.rows

    def _update(self, state: State, rows: Sequence[Any], collector: UpdateCollector) -> None:
        self.updater.update_state(state, rows, collector)

    def _rows(self, rows: pa.Table) -> list[Any]:
        return list(map(row_class(tuple(self.inputs))._make, zip(*columns_in(rows), strict=True)))

    def _collector(self) -> UpdateCollector:
        return UpdateCollector(self.where, self.output.names)
