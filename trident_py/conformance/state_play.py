"""The leaders of a topology that aggregates into one state: the calls, and the promises of the state.

A ledger follows the values that a reader may see, and `Aggregated` derives them from the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, TypeAlias

from attrs import define, evolve, field, frozen
from pyspark.sql import types as t

from coordinators.values.attempt import CommitToken, TransactionAttempt
from trident_py.conformance.child_process import On, Subject
from trident_py.conformance.children import Child
from trident_py.conformance.ledger import Broken, Ledger, Outcome, Row, listed
from trident_py.conformance.report import Rule
from trident_py.conformance.sample_rows import comparable, sample_rows
from trident_py.conformance.sink_play import TOPOLOGY, Needs, Prepared, SinkPlay, transaction
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import StateFactory, StateKind
from trident_py.operations.builtin import NativeAggregator
from trident_py.participants.states import AggregateParticipant
from trident_py.rows.row import row_class
from trident_py.rows.schema import arrow_table, select

Values = Mapping[Row, Any]

RECENT = 8
"""The number of recent commits that are searched for the reason of wrong values."""


@define
class StateLedger(Ledger):
    """Follows one state.

    Attributes:
        accumulator: returns the values by key after some rows, from the values before.
    """

    accumulator: Callable[[Values, Sequence[Row]], Values] = field(kw_only=True)

    def changed(self, before: Counter[Row], rows: Sequence[Row]) -> Counter[Row]:
        values = self.accumulator({row[:-1]: row[-1] for row in before}, rows)
        return Counter((*key, value) for key, value in values.items())

    def begun(self, token: CommitToken, rows: Sequence[Row]) -> None:
        """Record the call of a commit; if its transaction is committed already, these rows may replace the old ones."""
        again = [each for each in self.outcomes if each.last == token.txid] if token.epoch >= self.fence else []
        super().begun(token, rows)
        self._rows[token] = rows
        while len(self._rows) > RECENT:
            del self._rows[next(iter(self._rows))]
        for each in again:
            after = self.changed(each.before, rows)
            if not any(known.last == token.txid and known.rows == after for known in self.outcomes):
                self.outcomes.append(Outcome(token.txid, frozenset([token]), after, each.before))

    def answered(self, token: CommitToken) -> None:
        super().answered(token)
        rows = self._rows[token]
        done = [each for each in self.outcomes if each.rows == self.changed(each.before, rows)]
        self.outcomes = [each for each in done if token in each.tokens] or self.outcomes

    _rows: dict[CommitToken, Sequence[Row]] = field(factory=dict, init=False)

    def _explained(self, rows: Counter[Row], among: Sequence[Outcome]) -> Broken:
        """Return the rule broken by values that match no outcome."""
        newest = among[-1]
        seen = "; ".join(
            f"{what} {listed(each)}"
            for what, each in (("a reader sees", rows - newest.rows), ("and should see", newest.rows - rows))
            if each
        )
        return Broken(self._rule(rows, among), seen)

    def _rule(self, rows: Counter[Row], among: Sequence[Outcome]) -> Rule:
        late = [(token, its) for token, its in self._rows.items() if token.epoch < self.fence]
        for outcome in among:
            if any(rows == self.changed(outcome.rows, its) for token, its in late if token.txid > outcome.last):
                return Rule.FENCED
            if any(rows == self.changed(outcome.rows, its) for its in [*self._rows.values()][-4:]):
                return Rule.COMMITTED_ONCE
            if rows == outcome.before and outcome.last:
                return Rule.COMMITTED_STAYS
        newest = among[-1]
        if set(rows) <= set(newest.rows) | set(newest.before) and rows != newest.rows:
            return Rule.ALL_OR_NOTHING
        return Rule.COMMITTED_ONCE


AnyAggregator: TypeAlias = CombinerAggregator[Any] | ReducerAggregator[Any]


@frozen(kw_only=True)
class Aggregated:
    """The aggregation of a check: its fields and its aggregator.

    Attributes:
        rows: the fields of the rows.
        keys: the fields of the key.
        inputs: the fields that the aggregator receives.
        value: the field of the result.
    """

    rows: t.StructType
    keys: t.StructType
    inputs: t.StructType
    value: t.StructField
    aggregator: AnyAggregator

    @classmethod
    def of(cls, schema: t.StructType, aggregator: AnyAggregator) -> Aggregated:
        """Derive the aggregation.

        The aggregator's fields are its input. A field with its name (``count``) is the result's, and all others are the
        key.
        """
        name = type(aggregator).__name__.lower()
        named = [each for each in schema.fields if each.name.lower() == name and each.name not in aggregator.in_fields]
        rows = t.StructType([each for each in schema.fields if each not in named])
        inputs = select(rows, aggregator.in_fields) if aggregator.in_fields else rows
        keys = t.StructType([each for each in rows.fields if each.name not in aggregator.in_fields])
        out = inputs.names[0] if len(aggregator.in_fields) == 1 else name
        value = named[0] if named else t.StructField(out, t.LongType())
        found = cls(rows=rows, keys=keys, inputs=inputs, value=value, aggregator=aggregator)
        return evolve(found, value=t.StructField(value.name, found._kind(declared=bool(named))))

    def _kind(self, *, declared: bool) -> t.DataType:
        if isinstance(self.aggregator, NativeAggregator):
            return self.aggregator.result_type(self.inputs)
        if declared:
            return self.value.dataType
        value = next(iter(self.accumulator({}, sample_rows(self.rows, 1)).values()), 0)
        return next(kind for python, kind in _KINDS if isinstance(value, python))

    def accumulator(self, before: Values, rows: Sequence[Row]) -> Values:
        """Return the values by key after ``rows``."""
        values = dict(before)
        for key, group in self._groups(rows).items():
            partial = self._partial(group)
            if isinstance(self.aggregator, ReducerAggregator):
                partial = values.get(key, self.aggregator.init())
                for row in group:
                    partial = self.aggregator.reduce(self.aggregator.init() if partial is REMOVE else partial, row)
            elif partial is REMOVE:
                continue  # its rows cancel each other out
            elif key in values:
                partial = self.aggregator.combine(values[key], partial)
            values[key] = partial
            if partial is REMOVE:
                del values[key]
        return values

    def change(self, rows: Sequence[Row]) -> Any:
        """Return the change as Spark's job makes it: keys with partial values, or with the rows for a reducer."""
        if isinstance(self.aggregator, ReducerAggregator):
            fields = [*self.keys.fields, *(evolve_name(each) for each in self.inputs.fields)]
            order = [self.rows.names.index(each) for each in [*self.keys.names, *self.inputs.names]]
            return arrow_table([tuple(row[place] for place in order) for row in rows], t.StructType(fields))
        partials = [(*key, self._partial(group)) for key, group in self._groups(rows).items()]
        partials = [row for row in partials if row[-1] is not REMOVE]
        return arrow_table(partials, t.StructType([*self.keys.fields, t.StructField("_partial", self.value.dataType)]))

    def _groups(self, rows: Sequence[Row]) -> dict[Row, list[Any]]:
        make = row_class(tuple(self.inputs.names))._make
        keys, inputs = ([self.rows.names.index(each) for each in fields.names] for fields in (self.keys, self.inputs))
        groups: dict[Row, list[Any]] = {} if self.keys.fields else {(): []}
        for row in rows:
            groups.setdefault(tuple(row[place] for place in keys), []).append(make(row[place] for place in inputs))
        return groups

    def _partial(self, group: Sequence[Any]) -> Any:
        if isinstance(self.aggregator, ReducerAggregator):
            return None
        partial = self.aggregator.zero() if not group else self.aggregator.init(group[0])
        for row in group[1:]:
            own = self.aggregator.init(row)
            partial = own if partial is REMOVE else self.aggregator.combine(partial, own)
        return self.aggregator.zero() if partial is REMOVE and not self.keys.fields else partial


def evolve_name(each: t.StructField) -> t.StructField:
    """Return a field of the same type under a name that differs from any key's."""
    return t.StructField(f"_{each.name}", each.dataType, each.nullable)


_KINDS: Sequence[tuple[type, t.DataType]] = (
    (bool, t.BooleanType()),
    (int, t.LongType()),
    (float, t.DoubleType()),
    (Decimal, t.DecimalType(38, 9)),
    (str, t.StringType()),
    (bytes, t.BinaryType()),
    (list, t.ArrayType(t.StringType())),
    (object, t.StringType()),
)


class StateSubject(Subject):
    """A user's state in a child process, called as the engine's participant does."""

    threads: Mapping[str, On] = {"commit": On.COMMIT}

    def __init__(
        self,
        make_factory: Callable[[], StateFactory],
        read_rows: Callable[[], Sequence[Sequence[Any]]],
        aggregated: Aggregated,
    ) -> None:
        self._make, self._read, self._aggregated = make_factory, read_rows, aggregated

    def make(self) -> Needs:
        """Make the state."""
        given, aggregated = self._make(), self._aggregated
        factory = given.for_fields(aggregated.keys, aggregated.value)
        state = factory.make_state(TridentConfig(), Metrics(), 0, 1)
        self._participant = AggregateParticipant(
            name=factory.name or "state",
            state=state,
            aggregator=aggregated.aggregator,
            keys=len(aggregated.keys.fields),
            inputs=aggregated.inputs.names,
        )
        self._participant.check_state()
        backing = getattr(state, "backing", state)
        self.things = [state, factory, backing, getattr(backing, "delegate", backing)]
        return Needs()

    def recover(self, epoch: int) -> Any:
        """Recover, as a new leader does."""
        return self._participant.recover(TOPOLOGY, epoch)

    def commit(self, tx: SinkTransaction, rows: Sequence[Row]) -> None:
        """Commit a group of one transaction."""
        self._participant.commit_group([(tx, self._aggregated.change(rows))])

    def read(self) -> list[Row]:
        """Return the values in this process's memory."""
        return [comparable(row) for row in self._read()]


@define(eq=False)
class StatePlay(SinkPlay):
    """Experiments with a state."""

    kind: StateKind = field(kw_only=True)
    volatile: bool = field(kw_only=True)
    aggregated: Aggregated = field(kw_only=True)
    noun: ClassVar[str] = "state"

    def _judge(self, epoch: int, token: Any) -> None:
        if self.volatile:
            self.ledger.fence = epoch
            self.ledger.start_over(self.ledger.last, Counter())
        elif self.kind is StateKind.FENCED:
            super()._judge(epoch, token)
        else:
            self.steps.pop()  # such a state has no token
            self.ledger.fence = epoch
            if self._lenient:
                self._lenient = False
                self.ledger.start_over(self.ledger.last, self.read())

    def prepare(self, leader: Child, txid: int, *, fails: bool = False) -> Prepared | None:
        """Return the next attempt of ``txid``; the state receives nothing before its commit."""
        attempt = TransactionAttempt(txid, self._attempts[txid])
        self._attempts[txid] += 1
        variant = attempt.attempt_id if self.kind in (StateKind.FENCED, StateKind.OPAQUE) else 0
        if self.kind is StateKind.FENCED:
            variant = self._fixed.get(txid, variant)
        tx = transaction(attempt, self.epochs[leader.pid])
        self._variants[tx.token] = variant
        return None if fails else Prepared(tx, [] if txid in self.sizes else self._rows(txid, variant))

    def _rows(self, txid: int, variant: int) -> list[Row]:
        """Return rows with some keys of all transactions and one of this transaction only; variants repeat them."""
        own = variant if self.kind is StateKind.FENCED else 0
        fields = self.aggregated.rows
        keys = [sample_rows(fields, txid, own)[0], sample_rows(fields, 0)[0], sample_rows(fields, 0)[-1]]
        inputs = [*sample_rows(fields, txid, variant)[:2], sample_rows(fields, txid, variant)[0]]
        rows = [
            tuple(
                (key if name in self.aggregated.keys.names else its)[place] for place, name in enumerate(fields.names)
            )
            for key, its in zip(keys, inputs, strict=True)
        ]
        return rows + rows[:2] * (variant % 3)

    def commit(self, leader: Child, prepared: Prepared) -> bool:
        """Commit an attempt; all earlier transactions are recorded as committed, so they will not come again."""
        self.first = max(self.first, prepared.tx.txid)
        return super().commit(leader, prepared)

    def _commit_call(self, prepared: Prepared) -> tuple[str, tuple[Any, ...]]:
        rows = ", ".join(map(str, prepared.rows)) or "no rows"
        return f"attempt {prepared.tx.attempt} of {rows}", (prepared.tx, prepared.rows)

    def abort(self, leader: Child, tx: SinkTransaction) -> None:
        """Do nothing: the state doesn't know the attempt."""

    def look_after_death(self) -> None:
        """Read the store if it is fenced: others may be read in mid-write, and data in memory is gone."""
        if self.kind is StateKind.FENCED and not self.volatile:
            super().look_after_death()

    def look(self) -> None:
        """Read the store; if the state promises nothing about replays, accept all values after a replay."""
        if self.kind is StateKind.NON_TRANSACTIONAL and (self.lossy or self.ledger.in_doubt):
            self.ledger.start_over(max(each.last for each in self.ledger.outcomes), self.read())
            return
        super().look()

    def read(self) -> Counter[Row]:
        """Return the values that a reader sees; for a state in memory, a reader in its process."""
        if not self.volatile:
            return super().read()
        answer = self.call(self.leading(), "a reader looks", "read")
        self.steps.pop()
        return Counter(answer.value)


def state_ledger(aggregated: Aggregated) -> StateLedger:
    """Return a ledger for the values of this aggregation."""

    def accumulator(before: Values, rows: Sequence[Row]) -> Values:
        return {comparable(key): comparable([value])[0] for key, value in aggregated.accumulator(before, rows).items()}

    return StateLedger(accumulator=accumulator)
