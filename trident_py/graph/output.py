"""What ends a branch: an output describes itself, and makes what takes part in commits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar

from attrs import evolve, frozen
from pyspark.sql.types import StructType

from coordinators.values.canonical import Json
from trident_py.graph.commit_rows import CommitWay, NodeRows, RowsOfEnd
from trident_py.graph.graph import Engine, Node, Operation
from trident_py.interfaces.identity import class_names
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import StateFactory, StateKind
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import Downstream, Leaf, Participant, Rows
from trident_py.rows.schema import arrow_table
from trident_py.states.sql.dialect import Database
from trident_py.states.sql.factory import SQLState
from trident_py.worker.counters import working_for


class Output(Operation):
    """A state, a sink or a window.

    Attributes:
        name: under which it is known, durably.
        kind: what it is called in the record.
        fixed: the words of its `identity` that the stored data holds fast.
        details: by word, what it may change from one start to the next.
    """

    kind: ClassVar[str]
    changes_states: ClassVar[bool] = True

    def engine(self, inputs: Sequence[Node]) -> Engine:
        """Return none: rows are handed over as they are."""
        return Engine.NONE

    @property
    def drawn(self) -> dict[str, Json]:
        return {"kind": self.kind, "name": self.name, "described": self.described()}

    @property
    def factory(self) -> StateFactory | None:
        """What makes its state; None: it has none that is ours to make."""
        return None

    @property
    def database(self) -> Database | None:
        """Where its table is; None: it has none, or none that it could share a transaction of."""
        return self.factory.database if isinstance(self.factory, SQLState) else None

    @property
    def needs_exact_replays(self) -> bool:
        """Whether it counts rows once only where a replay gives the same rows."""
        return False

    def replaces(self, stream: Node) -> bool:
        """Tell whether rows of ``stream`` take the place of those that an older attempt has written, one for one."""
        return False

    @property
    def keeps_token(self) -> bool:
        """Whether the commit token is stored in the very step that changes it."""
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
        """Return the fields of what its participant is given, where its stream has those of ``source``."""

    @abstractmethod
    def identity(self, source: StructType, shards: int) -> dict[str, Json]:
        """See `Declaration.identity`; where it is given rows of ``source``, and has so many shards."""

    @abstractmethod
    def described(self) -> str:
        """Return what it is, for ``explain()``."""

    def shards(self, asked: int, hinted: int) -> int:
        """Return how many states it has, where the user has asked for some, or hinted at some of its stream.

        0: hasn't.
        """
        return 1

    def nothing(self, source: StructType) -> Callable[[], Any] | None:
        """Give the change of a transaction without rows, where that is a row; None: it is none."""
        return None

    @abstractmethod
    def participant(self, place: OutputPlace, context: ParticipantContext) -> Participant:
        """Return what takes part in commits, with its state made."""


@frozen(kw_only=True)
class OutputPlace:
    """An output behind rows with known fields.

    Attributes:
        source: the fields of the rows.
        shards: how many states it has, each for rows or keys of its own.
        spread_by: the fields by which the rows were brought together.
        new_values: what follows its new values; None: nothing does.
        by_tasks: whether its rows come from Spark's tasks, and not from the driver.
    """

    output: Output
    source: StructType
    shards: int = 1
    spread_by: tuple[str, ...] = ()
    new_values: CommitStream | None = None
    by_tasks: bool = True

    @property
    def fields(self) -> StructType:
        """The fields of what the participant is given."""
        return self.output.fields(self.source)

    def participant(self, context: ParticipantContext) -> Participant:
        """Make what takes part in commits for the output."""
        return self.output.participant(self, context)

    def downstream(self, context: ParticipantContext) -> tuple[Downstream | None, tuple[Participant, ...]]:
        """Return what is done with the new values, and the outputs that they go into."""
        return self.new_values.downstream(context) if self.new_values else (None, ())


@frozen(kw_only=True)
class CommitStream:
    """What follows ``new_values_stream()``: what is done, within each commit of a state, with what it has changed.

    Attributes:
        schema: the fields of the new values.
        origins: the nodes that give them: one for each call of ``new_values_stream()``.
        ends: the nodes in which the ways from there end: outputs, and those that nothing follows.
        outputs: what takes the rows of an end, if anything does.
    """

    schema: StructType
    origins: frozenset[Node]
    ends: tuple[Node, ...]
    outputs: Mapping[Node, OutputPlace]

    @property
    def replacing(self) -> frozenset[Node]:
        """The ends that are also given keys which only an older attempt had changed."""
        return frozenset(end for end, place in self.outputs.items() if place.output.replaces(end.inputs[0]))

    def downstream(self, context: ParticipantContext) -> tuple[Downstream, tuple[Participant, ...]]:
        """Return what does all that with the new values of a transaction, and the outputs that they go into."""
        made = {end: self._participant(end, context) for end in self.ends}
        way, transactions, replacing = CommitWay.of(self.origins, self.ends), context.transactions, self.replacing

        def run(tx: SinkTransaction, values: Rows, rolled_back: Rows) -> None:
            rows = rows_of(tx, values)
            both = rows_of(tx, [*values, *rolled_back]) if rolled_back else rows
            hand_on(tx, rows, both, [end for end in self.ends if transactions.is_in(made[end])])
            if others := [end for end in self.ends if not transactions.is_in(made[end])]:
                transactions.after(partial(hand_on, tx, rows, both, others))

        def rows_of(tx: SinkTransaction, values: Rows) -> NodeRows:
            tables = dict.fromkeys(self.origins, arrow_table(values, self.schema))
            return NodeRows(way=way, context=context, session=None, attempt=tx.attempt, tables=tables)

        def hand_on(tx: SinkTransaction, rows: NodeRows, both: NodeRows, ends: Sequence[Node]) -> None:
            working_for(tx.attempt)
            with context.spark.running() if context.spark and way.by_spark else nullcontext() as session:
                rows.session = both.session = session
                for end in ends:
                    replaces = end in replacing
                    made[end].apply(evolve(tx, replaces=replaces), RowsOfEnd(both if replaces else rows, end))

        return run, tuple(made.values())

    def _participant(self, end: Node, context: ParticipantContext) -> Participant:
        return self.outputs[end].participant(context) if end in self.outputs else Leaf("nowhere")


def state_identity(factory: StateFactory, made_of: Mapping[str, Json], shards: int) -> dict[str, Json]:
    """Return what a state can't change without being another one: ``made_of``, and what its factory says."""
    if factory.volatile:
        return {}
    kind: dict[str, Json] = {"kind": class_names(factory), "replays by": factory.kind.value}
    return {**kind, **made_of, "parts": shards, **factory.identity()}


def described_state(factory: StateFactory, title: str) -> str:
    """Describe a factory, and what is done with the state that it makes."""
    going = f", keys go after {factory.ttl} without a write" if factory.ttl else ""
    return f"{described_factory(factory)}, {title}{going}"


def described_factory(factory: StateFactory) -> str:
    """Describe a factory by its repr, if it has one of its own."""
    return type(factory).__name__ if type(factory).__repr__ is object.__repr__ else repr(factory)


def output_of(node: Node) -> Output | None:
    """Return the output that ``node`` is; None: it is none."""
    return node.operation if isinstance(node.operation, Output) else None
