"""``join`` over time: its declaration, and the state that keeps the rows of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import BooleanType, StructField, StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from coordinators.values.transaction_time import MILLIS
from trident_py.errors import TopologyError
from trident_py.graph.event_time import MAX_AHEAD, PARTITION, EventTime, duration_micros, event_time, watermark_rules
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Node, Operation, RowFlow
from trident_py.graph.joining import Chained, Join, Side
from trident_py.graph.timed_rows import WholeRows
from trident_py.graph.timed_state import TimedState, check_fenced, check_keeps
from trident_py.graph.timed_updater import Newests, TimedUpdater, without_partition
from trident_py.graph.tracing import carry, with_partition
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.identity import class_names
from trident_py.interfaces.states import Key, RemovableMapState, StateFactory
from trident_py.rows.moments import in_millis, micros_of, moment
from trident_py.rows.row import Row, column_values, values_of
from trident_py.rows.schema import (
    append,
    arrow_schema,
    arrow_type,
    fields_text,
    names_of,
    nullable,
    schema_of,
    shown,
)
from trident_py.spark.frames import column
from trident_py.states.keys import encode_keys
from trident_py.windows.event_store import TimedRow
from trident_py.windows.join_keys import JoinSide
from trident_py.windows.join_store import NO_KEY, TimeJoin
from trident_py.windows.windows import MICROS

T = TypeVar("T")

_SIDES = ("left", "right")

_LATE_SIDE = schema_of("late_side string")
"""A field of late rows: the side of the row."""


@frozen(kw_only=True)
class JoinTimeArguments:
    """`JoinTimeOptions` as the user has given them, with defaults for the others."""

    within: Any = None
    timestamps: Any = None
    watermark: Any = None
    by: Any = None
    idle: Any = None
    max_ahead: Any = MAX_AHEAD
    store: Any = None

    def checked(self) -> tuple[int, tuple[EventTime, EventTime]] | None:
        """Return the greatest difference in microseconds, and the time of each side; None for a join within a batch.

        Raises:
            TopologyError: the arguments don't match.
        """
        if self.within is None:
            unset = JoinTimeArguments()
            for name in ("timestamps", "watermark", "by", "idle", "max_ahead", "store"):
                if getattr(self, name) != getattr(unset, name):
                    raise TopologyError(f"{name}= needs within=, by how much the times of two joined rows may differ")
            return None
        within = duration_micros("within", self.within)
        if self.timestamps is None or self.watermark is None:
            missing = "timestamps" if self.timestamps is None else "watermark"
            raise TopologyError(f"with within=, {missing}= is needed: {_NEEDED[missing]}")
        if isinstance(self.timestamps, str) or len(names_of(self.timestamps)) != 2:
            raise TopologyError(
                f"timestamps= are two names of fields, {_NEEDED['timestamps']}, not {self.timestamps!r}"
            )
        delays, bys = _both("watermark", self.watermark), _both("by", self.by)
        idles, aheads = _both("idle", self.idle), _both("max_ahead", self.max_ahead)
        left, right = (
            event_time(timestamp, by, watermark_rules(delay, idle, ahead))
            for timestamp, by, delay, idle, ahead in zip(self.timestamps, bys, delays, idles, aheads, strict=True)
        )
        return within, (left, right)


_NEEDED = {
    "timestamps": 'the fields with the time of a row on each side, such as ("at", "at")',
    "watermark": "how much later than the newest row of its side a row may come, such as timedelta(minutes=5)",
}


def _both(name: str, value: T | tuple[T, T]) -> tuple[T, T]:
    """Return the values for both sides."""
    if not isinstance(value, tuple | list):
        return value, value
    if len(value) != 2:
        raise TopologyError(f"{name}= is one value, or two for the left and the right side, not {shown(value)}")
    return cast("tuple[T, T]", tuple(value))


@frozen
class Sides(Operation):
    """The rows of two streams, one after the other. Each is in a struct, and the struct of the other side is null."""

    title: str

    def output(self, inputs: Sequence[StructType]) -> StructType:
        left, right = inputs
        return StructType(
            [StructField("_is_right", BooleanType(), False), StructField("_left", left), StructField("_right", right)]
        )

    def build(self, inputs: Sequence[Flow], batch_id: TransactionAttempt | None) -> Flow:
        left, right = inputs
        target = self.output([left.schema, right.schema])
        frame = self._frame(left, target, is_right=False).unionAll(self._frame(right, target, is_right=True))
        return Flow.of(frame, target)

    def _frame(self, flow: Flow, target: StructType, *, is_right: bool) -> DataFrame:
        own = F.struct(*map(column, flow.schema.names))
        _, *sides = target.fields
        values = [
            (own if number == is_right else F.lit(None)).cast(each.dataType).alias(each.name)
            for number, each in enumerate(sides)
        ]
        return flow.native().select(F.lit(is_right).alias("_is_right"), *values)

    def on_rows(self, inputs: Sequence[RowFlow], batch_id: TransactionAttempt | None) -> RowFlow:
        left, right = inputs
        target = self.output([left.schema, right.schema])
        streams = [_Tagged(flow, target, is_right) for flow, is_right in ((left, False), (right, True))]
        travels = left.travels and right.travels
        return RowFlow.of(Chained(streams, arrow_schema(target)), target, travels=travels)


@frozen
class _Tagged:
    """The rows of one stream, as `Sides` gives them."""

    flow: RowFlow
    target: StructType
    is_right: bool

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        own = list(arrow_schema(self.flow.schema))
        for batch in self.flow.made():
            sides = [pa.nulls(batch.num_rows, arrow_type(each.dataType)) for each in self.target.fields[1:]]
            sides[self.is_right] = pa.StructArray.from_arrays(batch.columns, fields=own)
            tags = pa.array([self.is_right] * batch.num_rows, pa.bool_())
            yield pa.RecordBatch.from_arrays([tags, *sides], schema=arrow_schema(self.target))


@frozen(kw_only=True)
class JoinState(TimedState):
    """A join over time: the state that keeps the rows of both sides; its new values are what is joined.

    Attributes:
        join: the keys and the fields of the result.
        within: by how much the times of two joined rows may differ, in microseconds.
    """

    join: Join
    within: int

    kind: ClassVar[str] = "join"

    @property
    def fixed(self) -> frozenset[str]:
        """The facts that the stored rows depend on."""
        return frozenset({"join", "left", "right", "keys", "timestamps", "groups"})

    def identity(self, source: StructType, shards: int) -> dict[str, Json]:
        """Return the fields of both sides, how they are joined, and the facts of the factory."""
        if self.factory.volatile:
            return {}
        left, right = _sides_of(source)
        of = {
            "join": f"{self.join.how} {self.join_of(source).slug}",
            "left": fields_text(left),
            "right": fields_text(right),
            "keys": " and ".join(", ".join(side.keys) for side in self.join.sides),
            "timestamps": " and ".join(each.timestamp for each in self.times),
        }
        return {"kind": class_names(self.factory), **of, **self.stored_identity}

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """Return the fields of the join."""
        sides = _sides_of(inputs[0])
        for name, side, time in zip(_SIDES, sides, self.times, strict=True):
            time.check(side, f"timestamps= of the {name} side")
        result = self.join.output(sides)
        self.typed(inputs[0])
        return result

    def late_fields(self, source: StructType) -> StructType:
        """Return the fields of the join, then the side, the reason and the watermark of that side."""
        return super().late_fields(append(StructType(nullable(self.output([source]))), _LATE_SIDE))

    def value_field(self, source: StructType) -> StructField:
        return self.join_of(source).value

    def updater(self, source: StructType) -> JoinUpdater:
        left, right = _sides_of(source)
        return JoinUpdater(join=self.join_of(source), result=JoinedFields.of(self.join, left, right), times=self.times)

    def streams(self, node: Node) -> tuple[Node, ...]:
        return node.inputs

    def _carried(self, node: Node) -> Node:
        inputs = [carry(each) if time.is_carrying else each for time, each in zip(self.times, node.inputs, strict=True)]
        return evolve(node, inputs=tuple(inputs), schema=node.operation.output([each.fields for each in inputs]))

    def carried_fields(self, source: StructType) -> StructType:
        *before, left, right = source.fields
        sides = [
            StructField(each.name, with_partition(side)) if time.is_carrying and PARTITION not in side.names else each
            for each, side, time in zip((left, right), _sides_of(source), self.times, strict=True)
        ]
        return StructType([*before, *sides])

    def join_of(self, source: StructType) -> TimeJoin:
        """Return the join over the rows of these fields."""
        # A side is kept if the fields of the *other* one may be missing.
        left, right = (
            JoinSide(
                schema=schema,
                keys=side.keys,
                timestamp=time.timestamp,
                rules=time.rules,
                is_kept=other.is_optional,
            )
            for schema, side, other, time in zip(
                _sides_of(source), self.join.sides, reversed(self.join.sides), self.times, strict=True
            )
        )
        return TimeJoin(within=self.within, sides=(left, right))


def _sides_of(source: StructType) -> tuple[StructType, StructType]:
    """Return the fields of each side, from those of `Sides`."""
    left, right = (each.dataType for each in source.fields[-2:])
    if not isinstance(left, StructType) or not isinstance(right, StructType):
        raise AssertionError(f"{source} has no two sides")
    return left, right


@frozen
class JoinedFields:
    """The places of the fields of the result.

    Attributes:
        keys: for each side, the places of the keys in its rows; empty if the result has no separate keys.
        rest: for each side, the places of its other fields in its rows.
    """

    keys: tuple[tuple[int, ...], tuple[int, ...]]
    rest: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, join: Join, left: StructType, right: StructType) -> JoinedFields:
        """Return the places for the fields of these sides."""
        one, other = join.sides
        if join.preserve:
            return cls(((), ()), (tuple(range(len(left))), tuple(range(len(right)))))
        return cls((_places(left, one.keys), _places(right, other.keys)), (_rest(left, one), _rest(right, other)))

    def values(self, left: Sequence[Any] | None, right: Sequence[Any] | None) -> tuple[Any, ...]:
        """Return a row of the result; None stands for a missing partner."""
        keys = (
            [left[at] for at in self.keys[0]]
            if left is not None
            else [right[at] for at in self.keys[1]]
            if right is not None
            else []
        )
        for side, places in zip((left, right), self.rest, strict=True):
            keys += [None] * len(places) if side is None else [side[at] for at in places]
        return tuple(keys)


def _places(schema: StructType, names: Sequence[str]) -> tuple[int, ...]:
    return tuple(map(schema.names.index, names))


def _rest(schema: StructType, side: Side) -> tuple[int, ...]:
    return _places(schema, [each.name for each in side.rest(schema)])


@frozen(kw_only=True)
class JoinUpdater(TimedUpdater):
    """Updates a join over time. It emits pairs: whether a row is late, and the row of that stream."""

    join: TimeJoin
    result: JoinedFields
    times: tuple[EventTime, ...]

    def feed(
        self,
        state: RemovableMapState[bytes],
        tuples: Sequence[Row],
        time: int,
        collector: TridentCollector,
        newest: Newests | None = None,
    ) -> None:
        rows, timed = self._sides(tuples)
        fed = self.join.feed(state, timed, time * (MICROS // MILLIS), newest)
        for number, refused in enumerate(fed.refused):
            passed = fed.watermarks[number]
            watermark = None if passed is None else moment(passed)
            for place, why in refused:
                row = rows[number][place]
                values = self.result.values(*((row, None) if number == 0 else (None, row)))
                collector.emit((True, (*values, _SIDES[number], why.value, watermark)))
        for left, right in fed.joined:
            collector.emit((False, self.result.values(left, right)))

    def keys(self, rows: pa.Table) -> Sequence[Key]:
        is_right, left, right = rows.columns
        names = zip(*(side.keys for side in self.join.sides), strict=True)
        pairs = ((pc.struct_field(left, one), pc.struct_field(right, other)) for one, other in names)
        keys = [column_values(pc.if_else(is_right, theirs, ours)) for ours, theirs in pairs]
        return list(zip(*keys, strict=True))

    def newest(self, rows: pa.Table, time: int) -> Newests:
        found = []
        for number, (side, its) in enumerate(zip(self.join.sides, self.times, strict=True)):
            values = rows.filter(pc.equal(rows.column(0), bool(number))).column(1 + number)
            given = pa.table({name: pc.struct_field(values, name) for name in {*its.by, side.timestamp}})
            timed = WholeRows(by=its.by, keys=(), timestamp=side.timestamp, fields=())
            found.append(timed.newest(given, side.rules, time * (MICROS // MILLIS)))
        return found

    def next_window_at(self, state: RemovableMapState[bytes]) -> int | None:
        return in_millis(self.join.next_due_at(state))

    def _sides(self, tuples: Sequence[Row]) -> tuple[list[list[Row]], list[list[TimedRow]]]:
        """Return the rows of each side, and those as the join takes them."""
        rows = [[row[1 + number] for row in tuples if row[0] == number] for number in (0, 1)]
        partitions = [encode_keys(values_of(given, time.by)) for time, given in zip(self.times, rows, strict=True)]
        rows = [
            without_partition(given) if time.is_carrying else given
            for time, given in zip(self.times, rows, strict=True)
        ]
        return rows, [_timed(*each) for each in zip(self.join.sides, rows, partitions, strict=True)]

    def watermarks(self, state: RemovableMapState[bytes]) -> dict[str, float]:
        found = zip(_SIDES, self.join.watermarks(state), strict=True)
        return {f"{name}.watermark": micros / MICROS for name, micros in found if micros is not None}


def _timed(side: JoinSide, rows: Sequence[Row], partitions: Sequence[str]) -> list[TimedRow]:
    keys = values_of(rows, side.keys)
    texts = [NO_KEY if None in key else text for key, text in zip(keys, encode_keys(keys), strict=True)]
    times = [None if at is None else micros_of(at) for (at,) in values_of(rows, [side.timestamp])]
    return [
        TimedRow(at, at, partition, text, row)
        for row, at, partition, text in zip(rows, times, partitions, texts, strict=True)
    ]


def join_state(
    join: Join, name: str, factory: StateFactory, times: tuple[int, tuple[EventTime, EventTime]]
) -> JoinState:
    """Make a join over time, after the checks that need no knowledge of the inputs."""
    check_fenced(factory, "a join over time")
    check_keeps(factory, "joins over time")
    within, sides = times
    return JoinState(title=join.title, name=name, factory=factory, join=join, within=within, times=sides)
