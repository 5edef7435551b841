"""The declared topology: a graph of immutable nodes that only grows. Operations are checked at declaration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import pyarrow as pa
from attrs import define, evolve, field, frozen
from pyspark import cloudpickle
from pyspark.sql.types import StringType, StructField, StructType

from coordinators.values.canonical import Json
from trident_py.errors import StateError, TopologyError
from trident_py.interfaces.spouts import Replay
from trident_py.rows.schema import arrow_schema
from trident_py.worker.failures import Stage, by_user_code, classified
from trident_py.worker.pipeline import RowPipeline, Step

if TYPE_CHECKING:
    from pyspark.sql import Column

    from coordinators.values.attempt import TransactionAttempt
    from trident_py.graph.flow import Flow
    from trident_py.graph.migrations import DeclaredMigration
    from trident_py.spouts.adapting import AnySpout
    from trident_py.worker.pipeline import RowPipeline


S = TypeVar("S")


class NeedsSpark(Exception):
    """Only Spark can run an operation; the message names it."""


@frozen
class RowFlow:
    """Rows, and the deferred row operations over them.

    Attributes:
        given: the rows before ``rows``; they may be iterated more than once.
        rows: the deferred row operations.
        travels: whether user code runs in its own copies, as in tasks; else the declared objects are called.
    """

    given: Iterable[pa.RecordBatch]
    rows: RowPipeline
    travels: bool = True

    @classmethod
    def of(cls, given: Iterable[pa.RecordBatch], schema: StructType, *, travels: bool = True) -> RowFlow:
        """Begin with rows and no operations."""
        return cls(given, RowPipeline(schema), travels)

    @property
    def schema(self) -> StructType:
        """The fields after the deferred operations."""
        return self.rows.target

    def then(self, step: Step) -> RowFlow:
        """Add a row operation."""
        return evolve(self, rows=self.rows.then(step))

    def staged(self, stage: Stage, schema: StructType) -> RowFlow:
        """Apply ``stage``, which also runs the deferred operations, to all rows."""
        made = Made(travelled(stage) if self.travels else stage, self.given)
        return RowFlow.of(made, schema, travels=self.travels)

    def made(self) -> Iterable[pa.RecordBatch]:
        """Return the rows after the deferred operations, which run during iteration."""
        return self.staged(self.rows, self.schema).given if self.rows.steps else self.given

    def table(self) -> pa.Table:
        """Return all rows.

        Raises:
            TaskFailed: user code raised an exception.
        """
        schema = arrow_schema(self.schema)
        return pa.Table.from_batches(named(self.made(), schema), schema)


def named(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the same values with the names and nullability of ``schema``."""
    return (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)


@frozen
class Made:
    """The output of a stage over rows, computed when it is iterated."""

    stage: Stage
    given: Iterable[pa.RecordBatch]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return classified(self.stage(iter(self.given)), by_user_code)


def travelled(stage: S) -> S:
    """Return a copy of ``stage``, as a task would get it: it shares nothing with other tasks or the driver.

    Raises:
        Exception: it can't be copied, so it couldn't be sent to a task either.
    """
    copy: S = cloudpickle.loads(cloudpickle.dumps(stage))  # type: ignore[no-untyped-call]
    return copy


RowWise: TypeAlias = "Callable[[Column | str, StructType], bool]"
"""Whether a condition depends only on a row of these fields."""


class Phase(Enum):
    """The phase in which an operation runs."""

    PROCESSING = "processing"
    """In a Spark job, concurrently with other attempts."""

    COMMIT = "commit"
    """On the driver, in txid order."""

    REQUEST = "request"
    """For one request of ``TridentQuery.execute``, independent of batches."""


class Engine(StrEnum):
    """The engine that runs an operation, as `explain()` names it."""

    SPARK = "Spark"
    PYTHON = "Python"
    """In Spark's tasks."""

    DRIVER = "driver"
    NONE = ""
    """No engine: the rows don't change."""


class Operation(ABC):
    """The operation of a node: a value that is declared once, and built into DataFrame expressions for every attempt.

    All questions about the kind of an operation are methods here, so that a new operation is one new file.

    Attributes:
        title: the user's call, for messages and ``explain()``.
        name: its name in addition to the title, for states and sinks; otherwise empty.
    """

    title: str
    name: str = ""

    begins: ClassVar[Phase] = Phase.PROCESSING
    """The phase in which it runs, unless one of its inputs is already in a later one."""

    changes_states: ClassVar[bool] = False
    """Whether it needs a transaction, so that it can't run for a request."""

    keeps_partitions: ClassVar[bool] = False
    """Whether each row stays in its partition."""

    reads_all: ClassVar[bool] = True
    """Whether it certainly reads every row."""

    is_repeatable: ClassVar[bool] = True
    """Whether it returns the same rows when it receives the same batch again."""

    collects: ClassVar[bool] = False
    """Whether its rows are those that the branches through its input leave out."""

    yields: bool = False
    """Whether it collects them only where no other operation does."""

    @property
    def only_places(self) -> bool:
        """Whether it only decides the partition of a row."""
        return False

    @property
    def spread_by(self) -> tuple[str, ...]:
        """The fields with values that determine a row's partition; empty if something else determines it."""
        return ()

    def origin(self, inputs: Sequence[StructType]) -> StructType | None:
        """Return the fields of the rows that it receives when it runs.

        None: it computes its rows from those of its inputs.
        """
        return None

    def picked(self, values: Sequence[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
        """Return its rows: some of the new values of the state that is its input."""
        return values

    def engine(self, inputs: Sequence[Node]) -> Engine:
        """Return the engine that runs it."""
        return Engine.SPARK

    @property
    def drawn(self) -> dict[str, Json]:
        """Its facts for `diagram`, in addition to its title and fields."""
        return {"kind": "operation", "name": self.name}

    def with_schema(self, found: StructType) -> Operation:
        """Return the same operation with the output fields that Spark found.

        Raises:
            TopologyError: it was declared with other fields.
        """
        return self

    def fused(self, rows: RowPipeline) -> RowPipeline | None:
        """Return ``rows`` with this operation added, if it is a row operation in Python; else None."""
        return None

    def shared(self, field: StructField, source: StructType, is_rowwise: RowWise) -> Operation | None:
        """Return the same operation over rows of several transactions at once, with the result of running each alone.

        None: that isn't possible.

        Args:
            field: the first field, before those that the operation knows: the txid of a row.
            source: the fields of its first input without ``field``.
            is_rowwise: asks Spark whether a condition depends only on one row.
        """
        return None

    def carrying(self) -> Operation | None:
        """Return the same operation over rows with one more field before all others, which it copies to its output.

        None: a row of its output may come from several rows, or it may read the field.
        """
        return None

    @abstractmethod
    def output(self, inputs: Sequence[StructType]) -> StructType | None:
        """Return the output fields; None if only Spark knows them.

        Raises:
            TopologyError: it can't work on these inputs.
        """

    @abstractmethod
    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Return the operation on a batch as DataFrame expressions, without running an action."""

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        """Return the operation on a batch without Spark, and without running it.

        Raises:
            NeedsSpark: only Spark can run it.
        """
        raise NeedsSpark(self.title)


@frozen(eq=False)
class Node:
    """An operation at its place in the graph.

    Attributes:
        inputs: the nodes that it reads.
        schema: the output fields; None until Spark has been asked.
        label: the user's name of the stream on which it was called.
        phase: the phase in which it runs.
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
        """The output fields, once they are known."""
        if self.schema is None:
            raise AssertionError(f"Spark was not asked yet which fields {self.operation.title} gives")
        return self.schema

    @property
    def source(self) -> Source | None:
        """The spout that it is; None: it is another operation."""
        return self.operation if isinstance(self.operation, Source) else None

    @property
    def ancestry(self) -> list[Node]:
        """The node, and all nodes that it depends on; a node reached by two paths is there twice."""
        return [self, *(before for node in self.inputs for before in node.ancestry)]

    @property
    def unrepeatable(self) -> list[str]:
        """The operations before it that return other rows when they receive the same batch again."""
        before = [each.operation for each in self.ancestry if each is not self]
        return [operation.title for operation in before if not operation.is_repeatable]

    @property
    def replay(self) -> Replay:
        """The rows that it receives when a transaction is replayed: the weakest replay among its sources."""
        found = {source.spout.replay for source in self.sources}
        if Replay.NON_TRANSACTIONAL in found:
            return Replay.NON_TRANSACTIONAL
        return Replay.OPAQUE if self.unrepeatable or Replay.OPAQUE in found else Replay.EXACT

    @property
    def requests(self) -> frozenset[str]:
        """The request functions that it depends on."""
        return frozenset(node.operation.function for node in self.ancestry if isinstance(node.operation, RequestSource))

    @property
    def sources(self) -> list[Source]:
        """The spouts that it depends on; a spout reached by two paths is there twice."""
        return [node.operation for node in self.ancestry if isinstance(node.operation, Source)]

    @property
    def spouts(self) -> tuple[str, ...]:
        """The ``tx_id`` of every spout it depends on, sorted."""
        return tuple(sorted({source.tx_id for source in self.sources}))


@frozen
class Source(Operation):
    """A spout.

    Attributes:
        tx_id: the id under which its position is stored.
        spout: the user's spout.
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
        """Return the same spout, with its batches one after the other."""
        return evolve(self, schema=StructType([field, *self.schema.fields]))

    def output(self, inputs: Sequence[StructType]) -> StructType:
        return self.schema

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        """Raise an error: the planner starts from the spout's frame."""
        raise AssertionError(f"{self.title} is emitted, not built")


@frozen
class RequestSource(Operation):
    """The requests of a function.

    Attributes:
        function: the name that callers use.
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
        """Raise an error: a request starts from its rows."""
        raise AssertionError(f"{self.title} is asked, not built")


@define(eq=False)
class Graph:
    """The nodes of one topology, each after its inputs.

    Attributes:
        shards: the number of shards of states, by name, if the user set it.
        migrations: the changes of stored parts, in the order of their declaration.
    """

    topology: str
    nodes: list[Node] = field(factory=list)
    shards: dict[str, int] = field(factory=dict)
    migrations: list[DeclaredMigration] = field(factory=list)

    def add(self, operation: Operation, *inputs: Node, label: str | None = None) -> Node:
        """Declare ``operation`` on ``inputs``.

        Raises:
            TopologyError: the operation can't work there.
        """
        phase = _phase(operation, inputs)
        if phase is Phase.COMMIT and len(states := _states_before(inputs)) > 1:
            raise TopologyError(
                f"it combines rows of different moments: {' and '.join(states)}; operations after new_values_stream() "
                f"run while that state commits, so they accept only other new values of the same state"
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
        """Add the topology and ``title`` to the message of each error that the block raises."""
        try:
            yield title
        except (TopologyError, StateError) as error:
            if error.topology is not None:  # an operation declared inside, by an assembly, has added it
                raise
            kind = StateError if isinstance(error, StateError) else TopologyError
            raise kind(
                f"topology {self.topology!r}, {title}: {error}", topology=self.topology, state=error.state or state
            ) from error


def _states_before(inputs: Sequence[Node]) -> list[str]:
    """Return the origins of the rows of ``inputs``, without duplicates: a batch, or a state with its new values."""
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
