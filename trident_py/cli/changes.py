"""Other code over the rows of a parked transaction: computes its changes, and writes nothing.

No spout, state or sink is called. A branch ends with the rows that its output would receive: partial values by key for
an aggregation, else rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from attrs import field, frozen
from pyspark.sql import DataFrame

from coordinators.values.attempt import TRIAL_TXID, TransactionAttempt
from coordinators.values.error_text import error_notes, error_text
from trident_py.engine.rows.row_engine import rows_of_branch, spark_needed
from trident_py.errors import TopologyError
from trident_py.planner.plan import Branch, Plan, SpoutPlan, check, plan
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_schema
from trident_py.spark.frames import frame_of_rows, rows_of_frame
from trident_py.spark.session import topology_session
from trident_py.topology import TridentTopology
from trident_py.worker.failures import task_failures_told

ATTEMPT = TransactionAttempt(TRIAL_TXID, 0)


@frozen
class BranchChange:
    """The change that a branch makes of some rows.

    Attributes:
        output: the name of its state or sink.
        fields: the names of the fields of its rows.
        rows: how often each row is in it.
        error: the error in place of a change; empty: there was no error.
    """

    output: str
    fields: Sequence[str] = ()
    rows: Mapping[tuple[Any, ...], int] = field(factory=dict)
    error: str = ""


def changes(topology: TridentTopology, rows: Mapping[str, pa.Table]) -> list[BranchChange]:
    """Return the change of each branch of ``topology`` over these rows, by spout; a spout without rows emits none.

    A branch that only reads bad rows is left out: here a row over which a function raises is an error of its branch.

    Raises:
        TopologyError: the rows don't have the fields that a spout declares.
    """
    planned = plan(topology._graph)  # noqa: SLF001 - its declarations, which users have no use for
    given = {each.tx_id: _fitting(each, rows.get(each.tx_id)) for each in planned.spouts}
    if spark_needed(planned) is None:
        return [_changed(branch, partial(_on_rows, branch, given)) for branch in _reading(planned)]
    with topology_session(topology.name, None) as session:
        checked = check(planned, session)
        frames = {each.tx_id: frame_of_rows(session, given[each.tx_id], each.schema) for each in checked.spouts}
        return [_changed(branch, partial(_on_spark, branch, frames)) for branch in _reading(checked)]


def _reading(planned: Plan) -> list[Branch]:
    return [branch for branch in planned.branches if not branch.collects]


def _fitting(spout: SpoutPlan, rows: pa.Table | None) -> pa.Table:
    schema = arrow_schema(spout.schema)
    if rows is None:
        return schema.empty_table()
    try:
        return rows.select(schema.names).cast(schema)
    except (KeyError, pa.ArrowException) as error:
        raise TopologyError(
            f"spout {spout.tx_id!r} declares {spout.schema.simpleString()}, and the parked rows have other fields: "
            f"{error}"
        ) from error


def _changed(branch: Branch, make: Callable[[], pa.Table]) -> BranchChange:
    try:
        table = make()
    except Exception as error:  # noqa: BLE001 - user code
        return BranchChange(branch.name, error=" ".join([error_text(error), *error_notes(error)]))
    return BranchChange(branch.name, table.column_names, Counter(map(tuple, rows_of(table))))


def _on_rows(branch: Branch, given: Mapping[str, pa.Table]) -> pa.Table:
    batches = {spout: given[spout].to_batches() for spout in branch.spouts}
    return rows_of_branch(branch, batches, ATTEMPT, _refuse).table()


def _on_spark(branch: Branch, frames: Mapping[str, DataFrame]) -> pa.Table:
    with task_failures_told():
        return rows_of_frame(branch.build({each: frames[each] for each in branch.spouts}, ATTEMPT, _refuse))


def _refuse(*_: Any) -> Any:
    raise TopologyError("it queries a state, and the values that the state had then are unknown")
