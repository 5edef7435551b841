"""What a topology declares: a graph of values that only grows. Checked as it is declared; run by the planner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from attrs import define, evolve, field, frozen
from pyspark.sql.types import StringType, StructField, StructType

from coordinators.values.canonical import Json
from trident_py.errors import StateError, TopologyError
from trident_py.graph.row_flow import NeedsSpark, RowFlow
from trident_py.interfaces.spouts import Replay

if TYPE_CHECKING:
    from pyspark.sql import Column

    from coordinators.values.attempt import TransactionAttempt
    from trident_py.graph.flow import Flow
    from trident_py.spouts.adapting import AnySpout
    from trident_py.worker.pipeline import RowPipeline


RowWise: TypeAlias = "Callable[[Column | str, StructType], bool]"
"""Whether a condition depends on nothing but a row of these fields."""


class Phase(Enum):
    """When an operation runs."""

    PROCESSING = "processing"
    """In a Spark job, side by side with other attempts."""

    COMMIT = "commit"
    """On the driver, in txid order."""

    REQUEST = "request"
    """For one request of ``TridentQuery.execute``, beside batches."""


class Engine(StrEnum):
    """Who does an operation, as `explain()` names it."""

    SPARK = "Spark"
    PYTHON = "Python"
    """In Spark's tasks."""

    DRIVER = "driver"
    NONE = ""
    """Nothing is done to the rows."""


class Operation(ABC):
    """What a node does. A value: it is declared once, and built into DataFrame expressions for every attempt.

    Whatever asks what kind of operation a node has asks it here: one more operation is one more file.

    Attributes:
        title: what the user called, for messages and ``explain()``.
        name: under which it is known beside its title, as states and sinks are; empty where it has none.
    """

    title: str
    name: str = ""

    begins: ClassVar[Phase] = Phase.PROCESSING
    """The phase it runs in, unless an input of it is in another one already."""

    changes_states: ClassVar[bool] = False
    """Whether it needs a transaction, which a request is none of."""

    keeps_partitions: ClassVar[bool] = False
    """Whether each row stays in the partition that it is in."""

    reads_all: ClassVar[bool] = True
    """Whether it looks at every row for sure."""

    is_repeatable: ClassVar[bool] = True
    """Whether it gives the same rows again when a batch is given to it again."""

    @property
    def only_places(self) -> bool:
        """Whether all it does is to say which partition a row is in."""
        return False

    @property
    def spread_by(self) -> tuple[str, ...]:
        """The fields whose values say which partition a row is put into; none where others do, or nothing is put."""
        return ()

    def origin(self, inputs: Sequence[StructType]) -> StructType | None:
        """Return the fields of rows that are given to it when it is run.

        None: it makes its rows from those of its inputs.
        """
        return None

    def engine(self, inputs: Sequence[Node]) -> Engine:
        """Return who does it."""
        return Engine.SPARK

    @property
    def drawn(self) -> dict[str, Json]:
        """What `diagram` says of it beside its title and fields; see there."""
        return {"kind": "operation", "name": self.name}

    def with_schema(self, found: StructType) -> Operation:
        """Return the same operation, where Spark has found that it gives these fields.

        Raises:
            TopologyError: it was declared with others.
        """
        return self

    def fused(self, rows: RowPipeline) -> RowPipeline | None:
        """Return ``rows`` and this operation, where it takes rows one by one in Python; None: it doesn't."""
        return None

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> Operation | None:
        """Return the same operation over rows of several transactions at once, each as if it were alone.

        None: it can't be.

        Args:
            field: comes in front of the fields that it knows, and stays there: the txid that a row is of.
            source: the fields of its first input without that one.
            is_rowwise: asks Spark.
        """
        return None

    @abstractmethod
    def output(self, inputs: Sequence[StructType]) -> StructType | None:
        """Return the fields it gives; None where only Spark can tell.

        Raises:
            TopologyError: it can't work on these inputs.
        """

    @abstractmethod
    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Return what it does to a batch, as DataFrame expressions; no action."""

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        """Return what it does to a batch without Spark; runs nothing.

        Raises:
            NeedsSpark: only Spark can do it.
        """
        raise NeedsSpark(self.title)


@frozen(eq=False)
class Node:
    """One operation in its place in the graph.

    Attributes:
        inputs: the nodes it reads.
        schema: the fields it gives; None until Spark has been asked.
        label: the name that the user gave to the stream it was called on.
        phase: when it runs.
        number: its place in the order of declaration.
    """

    operation: Operation
    inputs: tuple[Node, ...]
    schema: StructType | None
    label: str | None
    phase: Phase
    number: int = -1

    @property
    def fields(self) -> StructType:
        """The fields it gives, where they are known by now."""
        if self.schema is None:
            raise AssertionError(f"nobody has asked Spark which fields {self.operation.title} gives")
        return self.schema

    @property
    def ancestry(self) -> list[Node]:
        """The node, and all that it depends on; what two ways lead to is there twice."""
        return [self, *(before for node in self.inputs for before in node.ancestry)]

    @property
    def unrepeatable(self) -> list[str]:
        """The operations before it that give other rows, when a batch is given to them again, than they gave before."""
        before = [each.operation for each in self.ancestry if each is not self]
        return [operation.title for operation in before if not operation.is_repeatable]

    @property
    def replay(self) -> Replay:
        """What it is given when a transaction is replayed: the weakest of what it depends on."""
        found = {source.spout.replay for source in self.sources}
        if Replay.NON_TRANSACTIONAL in found:
            return Replay.NON_TRANSACTIONAL
        return Replay.OPAQUE if self.unrepeatable or Replay.OPAQUE in found else Replay.EXACT

    @property
    def requests(self) -> frozenset[str]:
        """The functions whose requests it depends on."""
        return frozenset(node.operation.function for node in self.ancestry if isinstance(node.operation, RequestSource))

    @property
    def sources(self) -> list[Source]:
        """The spouts that it depends on; one that two ways lead from is there twice."""
        return [node.operation for node in self.ancestry if isinstance(node.operation, Source)]

    @property
    def spouts(self) -> tuple[str, ...]:
        """The ``tx_id`` of every spout it depends on, sorted."""
        return tuple(sorted({source.tx_id for source in self.sources}))


@frozen
class Source(Operation):
    """A spout.

    Attributes:
        tx_id: under which its position is stored.
        spout: as the user gave it.
        schema: the fields of its rows.
    """

    title: str
    tx_id: str
    spout: AnySpout
    schema: StructType

    @property
    def drawn(self) -> dict[str, Json]:
        replay, described = self.spout.replay.value, type(self.spout).__name__
        return {"kind": "spout", "name": self.tx_id, "replay": replay, "described": described}

    def origin(self, inputs: Sequence[StructType]) -> StructType:
        return self.schema

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> Source:
        """Return the same spout, for its batches one behind the other."""
        return evolve(self, schema=StructType([field, *self.schema.fields]))

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return self.schema

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Raise: the planner starts from its frame."""
        raise AssertionError(f"{self.title} is emitted, not built")


@frozen
class RequestSource(Operation):
    """The requests of a function.

    Attributes:
        function: what callers ask for.
        schema: the one field ``args``.
    """

    title: str
    function: str

    begins: ClassVar[Phase] = Phase.REQUEST
    schema: ClassVar[StructType] = StructType([StructField("args", StringType())])

    @property
    def drawn(self) -> dict[str, Json]:
        return {"kind": "request", "name": self.function}

    def origin(self, inputs: Sequence[StructType]) -> StructType:
        return self.schema

    def engine(self, inputs: Sequence[Node]) -> Engine:
        return Engine.NONE

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return self.schema

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Raise: a request starts from its rows."""
        raise AssertionError(f"{self.title} is asked, not built")


@define(eq=False)
class Graph:
    """The nodes of one topology, each behind its inputs.

    Attributes:
        shards: how many parts states have, by name, where somebody said so.
    """

    topology: str
    nodes: list[Node] = field(factory=list)
    shards: dict[str, int] = field(factory=dict)

    def add(self, operation: Operation, *inputs: Node, label: str | None = None) -> Node:
        """Declare ``operation`` on ``inputs``.

        Raises:
            TopologyError: it can't work there.
        """
        phase = _phase(operation, inputs)
        if phase is Phase.COMMIT and len(states := _states_before(inputs)) > 1:
            raise TopologyError(
                f"it takes rows of different moments: {' and '.join(states)}; what follows new_values_stream() runs "
                f"while that state commits, so it can be combined with other new values of the same state only"
            )
        schemas = [node.schema for node in inputs if node.schema is not None]
        schema = operation.output(schemas) if len(schemas) == len(inputs) else None
        node = Node(operation, inputs, schema, label, phase, len(self.nodes))
        self.nodes.append(node)
        return node

    @property
    def sources(self) -> list[Source]:
        """The spouts, in the order of their declaration."""
        return [node.operation for node in self.nodes if isinstance(node.operation, Source)]

    def consumers(self, node: Node) -> list[Node]:
        """Return the nodes that read ``node``."""
        return [other for other in self.nodes if any(each is node for each in other.inputs)]

    @contextmanager
    def declaring(self, title: str, state: str | None = None) -> Iterator[str]:
        """Say of whatever is wrong in the block that it is in the topology, and in ``title``."""
        try:
            yield title
        except (TopologyError, StateError) as error:
            if error.topology is not None:  # it was said of something declared inside, by an assembly
                raise
            kind = StateError if isinstance(error, StateError) else TopologyError
            raise kind(
                f"topology {self.topology!r}, {title}: {error}", topology=self.topology, state=error.state or state
            ) from error


def _states_before(inputs: Sequence[Node]) -> list[str]:
    """Return where the rows of ``inputs`` come from, each once: a batch, or the state whose new values they are."""
    return list(dict.fromkeys(name for node in inputs for name in _origins(node)))


def _origins(node: Node) -> list[str]:
    if node.phase is not Phase.COMMIT:
        return ["those of a batch"]
    if node.operation.begins is Phase.COMMIT:
        return [f"new values of {each.operation.name!r}" for each in node.inputs]
    return [name for each in node.inputs for name in _origins(each)]


def _phase(operation: Operation, inputs: Sequence[Node]) -> Phase:
    phases = {node.phase for node in inputs}
    if Phase.REQUEST in phases:
        if phases != {Phase.REQUEST} or len(frozenset().union(*(node.requests for node in inputs))) > 1:
            raise TopologyError("a DRPC stream can't be combined with streams of spouts or of another function")
        if operation.changes_states:
            raise TopologyError("a request is no transaction, so it can't change states; feed them from a spout")
        return Phase.REQUEST
    return Phase.COMMIT if Phase.COMMIT in phases else operation.begins
