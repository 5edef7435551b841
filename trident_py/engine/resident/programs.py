"""The branches that resident tasks can run, each as a program over rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from attrs import define, evolve, field, frozen
from pyspark import cloudpickle

from coordinators.values.error_text import quoted
from trident_py.engine.rows.row_engine import rows_of_branch
from trident_py.graph.graph import NeedsSpark, RowFlow
from trident_py.graph.queries import StateQuery
from trident_py.planner.sharing import SharedBranch
from trident_py.worker.resident import ShippedBranch
from trident_py.worker.stateless import is_stateless

log = logging.getLogger(__name__)


@define(eq=False)
class GivenRows:
    """The place of a program's input; the rows may be replaced."""

    batches: Sequence[pa.RecordBatch] = field(factory=tuple)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.batches)


@frozen
class BranchProgram:
    """Runs a branch over the rows of some transactions; the first field is the txid."""

    given: GivenRows
    flow: RowFlow

    def __call__(self, rows: Sequence[pa.RecordBatch]) -> pa.Table:
        self.given.batches = rows
        return self.flow.table()


def program_of(branch: SharedBranch) -> BranchProgram:
    """Return the program of a branch.

    Raises:
        NeedsSpark: only Spark can run one of its operations.
    """
    given, end, output = GivenRows(), branch.branch.end, branch.branch.output
    if output is not None and output.output.passes_rows:
        (end,) = end.inputs
    begun = evolve(branch.branch, end=end)
    return BranchProgram(given, rows_of_branch(begun, {branch.spout: given}, None, _ask, travels=False))


def shipped(branches: Mapping[int, SharedBranch]) -> Iterator[tuple[int, ShippedBranch]]:
    """Yield the branches that resident tasks can run, as they are sent with the tasks, by number."""
    for number, branch in branches.items():
        try:
            program = program_of(branch)
            pickled = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]
            sent = ShippedBranch(program=pickled, keeps_nothing=is_stateless(program.flow))
        except Exception as error:  # such as a function that can't be pickled: its first job reports that
            log.debug("branch %s takes jobs", branch.branch.name, exc_info=quoted(error))
        else:
            yield number, sent


def _ask(query: StateQuery, flow: RowFlow) -> RowFlow:
    raise NeedsSpark(query.title)  # a branch with a query shares no jobs
