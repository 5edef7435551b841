"""DRPC in one process: a request runs through its own small plan, on the caller's thread, while batches go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, field
from pyspark.sql.types import StructType

from trident_py.engine.reads import StateReads, States
from trident_py.errors import RequestError, TridentError
from trident_py.graph.graph import Node, Operation, RequestSource
from trident_py.graph.partitioning import is_placed
from trident_py.graph.queries import RequestJob, RequestPlan, StateQuery
from trident_py.rows.schema import shown
from trident_py.spark.failures import Diagnose, Place
from trident_py.worker.failures import TaskFailed
from trident_py.worker.pipeline import RowPipeline
from trident_py.worker.steps import Values

ByJob: TypeAlias = Callable[[Operation, Sequence[tuple[Sequence[Values], StructType]]], Sequence[Values]]
"""Runs one operation, which is no row operation, over the rows of its inputs."""

Made: TypeAlias = dict[Node, Sequence[Values]]
"""The rows of the nodes that are done."""


@define(eq=False)
class Requests:
    """Answers requests, from any number of threads.

    Row operations run on the caller's thread; queries of states on the commit thread; all else are jobs.

    Attributes:
        topology: for messages.
        plans: by function.
    """

    topology: str
    plans: Mapping[str, RequestPlan]
    _reads: StateReads | None = field(default=None, init=False)
    _jobs: ByJob = field(init=False)
    _diagnose: Diagnose = field(init=False)

    def serve(self, reads: StateReads, jobs: ByJob, diagnose: Diagnose) -> None:
        """Serve requests from now on; ``diagnose`` tells what an exception of Spark says underneath."""
        self._jobs, self._diagnose, self._reads = jobs, diagnose, reads

    def execute(self, function: str, args: str, timeout: float | None) -> list[list[Any]]:
        """Return the rows of the answer.

        Raises:
            RequestError: there is no such function, or its code raised.
            TimeoutError: ``timeout`` seconds have passed.
            TridentError: the topology doesn't run here.
        """
        plan = self.plans.get(function)
        if plan is None:
            known = ", ".join(map(repr, self.plans)) or "none"
            raise RequestError(
                f"topology {self.topology!r} has no function {function!r}; there are: {known}", topology=self.topology
            )
        where = f"topology {self.topology!r}, function {function!r}"
        if not isinstance(args, str):
            raise RequestError(f"{where}: args is a string, not {shown(args)}", topology=self.topology)
        reads = self._reads
        if reads is None:
            raise TridentError(f"{where}: the topology stands by; ask the process that leads")
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            return self._answered(plan, args, reads, deadline)
        except (TridentError, TimeoutError):
            raise
        except Exception as error:
            cause = self._diagnose(error, Place.JOB, where).cause
            notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
            said = f"{cause}" if isinstance(cause, TaskFailed) else f"{type(cause).__name__}: {cause}"
            raise RequestError(f"{where}: {said}{notes}", topology=self.topology) from error

    def _answered(self, plan: RequestPlan, args: str, reads: StateReads, deadline: float | None) -> list[list[Any]]:
        made: Made = {}
        self._run(plan.before, made, args, {})
        if plan.reading:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            what = f"function {plan.function!r}"
            reads.consistent(lambda states: self._run(plan.reading, made, args, states, deadline), left, what)
        self._run(plan.after, made, args, {})
        return [list(row) for row in self._rows(plan.answer, made)]

    def _run(self, nodes: Sequence[Node], made: Made, args: str, states: States, deadline: float | None = None) -> None:
        for node in nodes:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError("the caller has given up")  # and commits wait for what goes on here
            if not is_placed(node):  # what is, belongs into the job of what follows it
                made[node] = self._made(node, made, args, states)

    def _made(self, node: Node, made: Made, args: str, states: States) -> Sequence[Values]:
        match node.operation:
            case RequestSource():
                return [(args,)]
            case StateQuery() as query:
                found = query.answered(states[query.state], self._rows(node.inputs[0], made), node.inputs[0].fields)
                return RowPipeline(node.fields).rows(found)
        before = node.inputs[0]
        fused = node.operation.fused(RowPipeline(before.fields))
        return self._by_job(node, made) if fused is None else fused.rows(made[before])

    def _rows(self, node: Node, made: Made) -> Sequence[Values]:
        return made[node] if node in made else self._by_job(node, made)

    def _by_job(self, node: Node, made: Made) -> Sequence[Values]:
        job = RequestJob.of(node)
        return self._jobs(job, [(made[each], each.fields) for each in job.given])
