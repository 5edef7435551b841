"""The end of a branch: an output describes itself, and makes the participant of its commits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
from attrs import evolve, field, frozen
from pyspark.sql.types import StructType

from coordinators.values.canonical import Json
from trident_py.graph.commit_rows import CommitWay, NodeRows, RowsOfEnd
from trident_py.graph.graph import Engine, Node, Operation
from trident_py.interfaces.identity import class_names
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import TASKS, StateFactory, StateKind
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import Downstream, Leaf, Participant, Rows
from trident_py.rows.schema import arrow_table
from trident_py.states.sql.dialect import Database
from trident_py.states.sql.factory import SQLState
from trident_py.worker.counters import working_for


class Output(Operation):
    """A state or a sink; also a window, a join over time or a function with timers.

    Attributes:
        name: its durable name.
        kind: its kind in the record.
        fixed: the facts of its `identity` that the stored data depends on.
        details: facts that may change from one start to the next, by name.
        waits: whether what a transaction emits may follow from rows of earlier ones, or from the time alone.
    """

    kind: ClassVar[str]
    changes_states: ClassVar[bool] = True
    waits: ClassVar[bool] = False

    passes_rows: ClassVar[bool] = False
    """Whether it receives the rows of a transaction just as its stream has them, if small transactions share a job."""

    def engine(self, inputs: Sequence[Node]) -> Engine:
        """Return no engine: rows are passed on unchanged."""
        return Engine.NONE

    @property
    def drawn(self) -> dict[str, Json]:
        return {"kind": self.kind, "name": self.name, "described": self.described()}

    @property
    def factory(self) -> StateFactory | None:
        """The factory of its state; None if the engine makes no state for it."""
        return None

    @property
    def database(self) -> Database | None:
        """The database of its table; None if it has no table, or can't share a transaction of its database."""
        factory = self.factory
        return factory.database if isinstance(factory, SQLState) and factory.is_one_table else None

    @property
    def needs_exact_replays(self) -> bool:
        """Whether it counts rows once only if a replay has the same rows."""
        return False

    def replaces(self, stream: Node) -> bool:
        """Return whether rows of ``stream`` replace the rows of an older attempt, one for one."""
        return False

    @property
    def keeps_token(self) -> bool:
        """Whether the commit token is stored in the same step as its changes."""
        return self.factory is None or self.factory.kind is StateKind.FENCED

    @property
    def fixed(self) -> frozenset[str]:
        """See `Declaration.fixed`."""
        return frozenset()

    @property
    @abstractmethod
    def details(self) -> dict[str, Json]:
        """See `Declaration.details`."""

    @abstractmethod
    def fields(self, source: StructType) -> StructType:
        """Return the fields that its participant receives, for a stream with the fields of ``source``."""

    @abstractmethod
    def identity(self, source: StructType, shards: int) -> dict[str, Json]:
        """See `Declaration.identity`; for rows with the fields of ``source``, and this number of shards."""

    @abstractmethod
    def described(self) -> str:
        """Return a description for ``explain()``."""

    def shards(self, asked: int, hinted: int) -> int:
        """Return the number of its shards, from the number that the user asked for, or the hint on its stream.

        0: it has no shards.
        """
        return 1

    def nothing(self, source: StructType) -> Callable[[], Any] | None:
        """Return a factory of the row for a transaction without rows; None if there is no such row."""
        return None

    def settled(self, origins: Collection[Node]) -> Output:
        """Return the output as it runs, with these streams of its new values."""
        return self

    def at_end(self, node: Node) -> Node:
        """Return ``node``, the last one of a branch, with this output as it runs."""
        return evolve(node, operation=self)

    @abstractmethod
    def participant(self, place: OutputPlace, context: ParticipantContext) -> Participant:
        """Return the participant in commits, and make its state."""


@frozen(kw_only=True)
class OutputPlace:
    """An output and the known fields of its rows.

    Attributes:
        source: the fields of the rows.
        emits: the fields of its new values.
        shards: the number of its states; each has other rows or keys.
        spread_by: the fields by which the rows were partitioned.
        new_values: the operations on its new values; None if no operation uses them.
        by_tasks: whether its rows come from Spark's tasks, not from the driver.
    """

    output: Output
    source: StructType
    emits: StructType = field(factory=StructType)
    shards: int = 1
    spread_by: tuple[str, ...] = ()
    new_values: CommitStream | None = None
    by_tasks: bool = True

    @property
    def fields(self) -> StructType:
        """The fields that the participant receives."""
        return self.output.fields(self.source)

    def participant(self, context: ParticipantContext) -> Participant:
        """Make the participant of the output in commits."""
        return self.output.participant(self, context)

    def downstream(self, context: ParticipantContext) -> tuple[Downstream | None, tuple[Participant, ...]]:
        """Return the consumer of the new values, and the outputs that it writes to."""
        return self.new_values.downstream(context) if self.new_values else (None, ())


@frozen(kw_only=True)
class CommitStream:
    """The operations after ``new_values_stream()``, which run within each commit of a state.

    Attributes:
        origins: the nodes that emit the new values: one for each call of ``new_values_stream()``.
        ends: the last nodes: outputs, and nodes without consumers.
        outputs: the output of each end, if any.
    """

    origins: frozenset[Node]
    ends: tuple[Node, ...]
    outputs: Mapping[Node, OutputPlace]

    @property
    def replacing(self) -> frozenset[Node]:
        """The ends that also receive keys which only an older attempt had changed."""
        return frozenset(end for end, place in self.outputs.items() if place.output.replaces(end.inputs[0]))

    def downstream(self, context: ParticipantContext) -> tuple[Downstream, tuple[Participant, ...]]:
        """Return the consumer of a transaction's new values, and the outputs that it writes to."""
        made = {end: self._participant(end, context) for end in self.ends}
        for end in self.replacing:
            made[end].replaces = True
        way, transactions = CommitWay.of(self.origins, self.ends), context.transactions

        def run(tx: SinkTransaction, values: Rows, rolled_back: Rows) -> None:
            rows = rows_of(tx, values)
            both = rows_of(tx, [*values, *rolled_back]) if rolled_back else rows
            hand_on(tx, rows, both, [end for end in self.ends if transactions.is_in(made[end])])
            if others := [end for end in self.ends if not transactions.is_in(made[end])]:
                transactions.after(partial(hand_on, tx, rows, both, others))

        def rows_of(tx: SinkTransaction, values: Rows) -> NodeRows:
            tables = self.tables(values)
            return NodeRows(way=way, context=context, session=None, attempt=tx.attempt, tables=tables)

        def hand_on(tx: SinkTransaction, rows: NodeRows, both: NodeRows, ends: Sequence[Node]) -> None:
            working_for(tx.attempt)
            with context.spark.running() if context.spark and way.by_spark else nullcontext() as session:
                rows.session = both.session = session
                for end in ends:
                    replaces = made[end].replaces
                    if tx.parks is not None and not (replaces and both is not rows):
                        made[end].park(tx)
                        continue
                    made[end].apply(evolve(tx, replaces=replaces), RowsOfEnd(both if replaces else rows, end))

        return run, tuple(made.values())

    def tables(self, values: Rows) -> dict[Node, pa.Table]:
        """Return the rows of each origin; those of one kind have the same."""
        made: dict[type[Operation], pa.Table] = {}
        for each in self.origins:
            if type(each.operation) not in made:
                made[type(each.operation)] = arrow_table(each.operation.picked(values), each.fields)
        return {each: made[type(each.operation)] for each in self.origins}

    def _participant(self, end: Node, context: ParticipantContext) -> Participant:
        return self.outputs[end].participant(context) if end in self.outputs else Leaf("nowhere")


def state_identity(factory: StateFactory, made_of: Mapping[str, Json], shards: int) -> dict[str, Json]:
    """Return the facts that a state can't change: ``made_of``, and those of its factory."""
    if factory.volatile:
        return {}
    kind: dict[str, Json] = {"kind": class_names(factory), "replays by": factory.kind.value}
    return {**kind, **made_of, "parts": shards, **factory.identity()}


def described_state(factory: StateFactory, title: str) -> str:
    """Describe a factory, and the use of its state."""
    going = f", keys go after {factory.ttl} without a write" if factory.ttl else ""
    where = ", in Spark's tasks if a batch is large" if factory.placement == TASKS else ""
    return f"{described_factory(factory)}, {title}{going}{where}"


def described_factory(factory: StateFactory) -> str:
    """Describe a factory by its repr if its class defines one, else by the name of the class."""
    return type(factory).__name__ if type(factory).__repr__ is object.__repr__ else repr(factory)


def output_of(node: Node) -> Output | None:
    """Return the output of ``node``, or None if it is not an output."""
    return node.operation if isinstance(node.operation, Output) else None
