"""A state whose change is staged by Spark's tasks, as a participant."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from attrs import define, frozen
from pyspark.sql import DataFrame

from trident_py.interfaces.operations import CombinerAggregator
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import StagingState
from trident_py.participants.participant import Collect
from trident_py.participants.states import AggregateParticipant
from trident_py.rows.row import column_values
from trident_py.states.sql.staging import reported_rows


@frozen
class Staged:
    """The receipt of a change that tasks have handed to the state: their reports."""

    reports: pa.Table


@define(kw_only=True)
class StagedParticipant(AggregateParticipant):
    """``persistent_aggregate`` into a state that takes the change from Spark's tasks: the receipt is their reports.

    Where new values are wanted, they come to the driver anyway: then the change does too, by `AggregateParticipant`. So
    does that of a small batch, which is there with the job that it shares.
    """

    state: StagingState[Any]
    aggregator: CombinerAggregator[Any]
    prepares_again = False  # tasks have staged something

    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> Staged:
        """Run the job that stages the change."""
        return Staged(collect(self.state.stage(tx, frame)))

    def receipt_rows(self, receipt: Any) -> int | None:
        """Count what the tasks say that they have staged: a key twice where two tasks have it."""
        return reported_rows(receipt.reports) if isinstance(receipt, Staged) else super().receipt_rows(receipt)

    def abort(self, tx: SinkTransaction, receipt: Staged | pa.Table | None) -> None:
        """Remove what was staged, also by an attempt that didn't finish."""
        if not isinstance(receipt, pa.Table):
            self.state.discard(tx)

    def _prepared_change(self, tx: SinkTransaction, receipt: Any) -> list[tuple[Any, ...]]:
        if not isinstance(receipt, Staged):
            return super()._prepared_change(tx, receipt)
        columns = [column_values(column) for column in receipt.reports.columns]
        self.state.merge_staged(list(zip(*columns, strict=True)), self.aggregator)
        return []
