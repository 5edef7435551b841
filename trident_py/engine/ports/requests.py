"""DRPC in one process: a request runs through its own small plan, on the caller's thread, while batches continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen
from pyspark.sql.types import StructType

from coordinators.record.store import RecordStore
from coordinators.values.error_text import error_notes, error_text
from trident_py.engine.ports.reads import StateReads, States
from trident_py.errors import RequestError, StoreBusyException, TridentError, UnknownFunctionError
from trident_py.graph.graph import Node, Operation, RequestSource
from trident_py.graph.partitioning import is_placed
from trident_py.graph.queries import RequestJob, RequestPlan, StateQuery
from trident_py.interfaces.states import ReadOnlyState
from trident_py.rows.schema import shown
from trident_py.spark.failures import Diagnose, Place
from trident_py.worker.pipeline import RowPipeline, Values

ByJob: TypeAlias = Callable[[Operation, Sequence[tuple[Sequence[Values], StructType]]], Sequence[Values]]
"""Runs one operation that is no row operation, over the rows of its inputs."""

Made: TypeAlias = dict[Node, Sequence[Values]]
"""The rows of the finished nodes."""


@frozen
class RequestAnswer:
    """The answer to a request.

    Attributes:
        rows: the result.
        epoch: of the leadership that answers.
        txid: the committed transaction at which all states were read; None: no state that takes part in transactions
            was read.
    """

    rows: list[list[Any]]
    epoch: int
    txid: int | None


@define(eq=False)
class Requests:
    """Answers the requests of `TridentQuery.execute` and of the HTTP server, from any number of threads.

    Row operations run on the caller's thread, queries of states on the commit thread, and other operations as jobs.

    Attributes:
        topology: for messages.
        plans: the operations that a request runs, by the name of the function that it calls.
    """

    topology: str
    plans: Mapping[str, RequestPlan]
    _reads: StateReads | None = field(default=None, init=False)
    _jobs: ByJob = field(init=False)
    _diagnose: Diagnose = field(init=False)
    _store: RecordStore = field(init=False)

    def serve(self, reads: StateReads, jobs: ByJob, diagnose: Diagnose, store: RecordStore) -> None:
        """Serve requests from now on, as the leadership that writes to ``store``.

        ``diagnose`` returns the cause of an exception of Spark.
        """
        self._jobs, self._diagnose, self._store, self._reads = jobs, diagnose, store, reads

    def execute(self, function: str, args: str, timeout: float | None) -> RequestAnswer:
        """Return the answer, if this process still leads when it is ready.

        Raises:
            UnknownFunctionError: there is no such function.
            RequestError: its code raised.
            TimeoutError: ``timeout`` seconds have passed.
            TridentError: the topology doesn't run here, or another process may lead it by now.
        """
        plan = self.plans.get(function)
        if plan is None:
            known = ", ".join(map(repr, self.plans)) or "none"
            raise UnknownFunctionError(
                f"topology {self.topology!r} has no function {function!r}; there are: {known}", topology=self.topology
            )
        where = f"topology {self.topology!r}, function {function!r}"
        if not isinstance(args, str):
            raise RequestError(f"{where}: args is a string, not {shown(args)}", topology=self.topology)
        reads = self._reads
        if reads is None:
            raise TridentError(
                f"{where}: this process is a standby of the topology. To fix this: ask the process that leads"
            )
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            answer = self._answered(plan, args, reads, deadline)
            self._store.ensure_leading()
            return answer
        except (TridentError, TimeoutError):
            raise
        except StoreBusyException as error:
            raise TridentError(f"{where}: not answered, ask again: {error}", topology=self.topology) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            said = error_text(self._diagnose(error, Place.JOB, where).cause)
            raise RequestError(f"{where}: {'; '.join([said, *error_notes(error)])}", topology=self.topology) from error

    def _answered(self, plan: RequestPlan, args: str, reads: StateReads, deadline: float | None) -> RequestAnswer:
        made: Made = {}

        def read(states: States) -> bool:
            self._run(plan.reading, made, args, states, deadline)
            return any(not isinstance(states[state], ReadOnlyState) for state in plan.states)

        txid: int | None = None
        self._run(plan.before, made, args, {})
        if plan.reading:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            what = f"function {plan.function!r}"
            takes_part, committed = reads.consistent(read, left, what)
            txid = committed if takes_part else None
        self._run(plan.after, made, args, {})
        return RequestAnswer([list(row) for row in self._rows(plan.answer, made)], self._store.epoch, txid)

    def _run(self, nodes: Sequence[Node], made: Made, args: str, states: States, deadline: float | None = None) -> None:
        for node in nodes:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError("the caller has stopped waiting")  # commits would wait for the rest of the request
            if not is_placed(node):  # a placed one belongs to the job of the node after it
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
