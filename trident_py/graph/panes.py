"""The aggregation of a batch by the panes of a window by event time, which runs in the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from attrs import evolve, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import LongType, StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.graph.aggregation import AggregateCall, Aggregation, aggregate_call
from trident_py.graph.flow import Flow
from trident_py.graph.graph import RowFlow
from trident_py.operations.builtin import Max, Min, NativeAggregator
from trident_py.rows.moments import micros_of
from trident_py.rows.row import Row
from trident_py.rows.schema import append, select
from trident_py.spark.frames import column
from trident_py.windows.windows import PanedWindow, SessionWindow, pane
from trident_py.worker.pipeline import Step, Values

PANE, VALUE, OLDEST, NEWEST = "_window_pane", "_window_value", "_window_oldest", "_window_newest"
"""The fields that the driver receives: when the pane begins, its partial value, and the times of its rows.

These are the least, only for sessions, and the greatest.
"""


@frozen(kw_only=True)
class PaneStep(Step):
    """Adds the time at which a row's pane begins, in microseconds since the epoch."""

    sizes: tuple[int, int]

    def run(self, rows: list[Values], views: Iterator[Row]) -> list[Values]:
        return [(*row, self._pane(at)) for row, (at,) in zip(rows, views, strict=True)]

    def _pane(self, at: datetime | None) -> int | None:
        return None if at is None else pane(micros_of(at), *self.sizes)


@frozen(kw_only=True)
class PaneAggregation:
    """Aggregates the rows of a batch by their key, their partition of the watermark, and their pane.

    Attributes:
        keys: the fields with a window for each of their values.
        by: the fields whose values name the partition.
        timestamp: the field with the time of a row.
        call: the call of the aggregator.
        aggregator: a built-in one.
        tag: the field with the transaction of a row in a shared job; else empty.
    """

    title: str
    window: PanedWindow
    keys: tuple[str, ...]
    by: tuple[str, ...]
    timestamp: str
    call: AggregateCall
    aggregator: NativeAggregator[Any]
    tag: str = ""

    def fields(self, source: StructType) -> StructType:
        """Return the fields of the results, without the tag."""
        made = self._aggregation.output([append(source, _PANES)])
        return StructType([each for each in made.fields if each.name != self.tag])

    def stored_fields(self, source: StructType) -> StructType:
        """Return the fields of the stored rows: the keys and the partial value."""
        _, value = evolve(self.call, out=VALUE).fields(select(source, self.call.in_fields))
        return append(select(source, self.keys), value)

    def build(self, flow: Flow, batch_id: TransactionAttempt | None) -> Flow:
        """Return the results, with Spark expressions if the rows before come from Spark."""
        if flow.rows.steps:
            paned = flow.then(self._step(flow.schema))
        else:
            paned = flow.replaced(self._with_panes, append(flow.schema, _PANES))
        return self._aggregation.unordered([paned], batch_id)

    def on_rows(self, flow: RowFlow, batch_id: TransactionAttempt | None) -> RowFlow:
        """Return the results over rows in Python."""
        return self._aggregation.unordered_on_rows([flow.then(self._step(flow.schema))], batch_id)

    def begin(self, at: int) -> int:
        """Return the time at which the windows' values for a row of the time ``at`` begin."""
        return at if isinstance(self.window, SessionWindow) else pane(at, *self.window.pane_sizes)

    @property
    def _aggregation(self) -> Aggregation:
        keys = (*([self.tag] if self.tag else []), *dict.fromkeys([*self.keys, *self.by]), PANE)
        calls = [evolve(self.call, out=VALUE), aggregate_call(Max(self.timestamp), NEWEST, None)]
        if isinstance(self.window, SessionWindow):
            calls.append(aggregate_call(Min(self.timestamp), OLDEST, None))
        return Aggregation(title=self.title, keys=keys, calls=tuple(calls), is_tagged=bool(self.tag))

    def _step(self, source: StructType) -> Step:
        return PaneStep(
            title=self.title,
            source=tuple(source.names),
            in_fields=(self.timestamp,),
            target=append(source, _PANES),
            sizes=self.window.pane_sizes,
        )

    def _with_panes(self, frame: DataFrame) -> DataFrame:
        return frame.withColumn(PANE, self._pane(F.unix_micros(column(self.timestamp))))

    def _pane(self, at: Column) -> Column:
        """Return the expression of `pane`."""
        length, slide = map(F.lit, self.window.pane_sizes)
        return F.greatest(at - F.pmod(at, slide), at - F.pmod(at + length, slide))


_PANES = StructType([StructField(PANE, LongType())])
