"""``process``, its declaration: a state with a value and timers for each key, which a user's function changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen
from pyspark.sql.types import StructField, StructType

from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.graph.event_time import EventTimeArguments
from trident_py.graph.keyed_updater import KeyedCalls, KeyedUpdater
from trident_py.graph.timed_state import TimedState, check_fenced, check_keeps
from trident_py.interfaces.identity import class_names
from trident_py.interfaces.keyed import KeyedFunction
from trident_py.interfaces.states import StateFactory
from trident_py.rows.schema import check_comparable, fields_text, schema_of, select, shown
from trident_py.windows.keyed_store import KeyedStore


@frozen(kw_only=True)
class KeyedState(TimedState):
    """``process``: the state of a function with timers; its new values are what the function returns.

    Attributes:
        function: the user's function.
        keys: the group fields.
        output_schema: the fields of its results.
        value: the fields of a key's value.
    """

    function: KeyedFunction
    keys: tuple[str, ...]
    output_schema: StructType
    value: StructType

    kind: ClassVar[str] = "process"

    @property
    def fixed(self) -> frozenset[str]:
        """The facts that the stored values and timers depend on."""
        return frozenset({"keys", "value", "timestamp", "groups"})

    def identity(self, source: StructType, shards: int) -> dict[str, Json]:
        """Return the function, the keys, the value's fields, and the facts of the factory."""
        if self.factory.volatile:
            return {}
        made_of: dict[str, Json] = {
            "kind": class_names(self.factory),
            "function": class_names(self.function),
            "keys": fields_text(select(source, self.keys)),
            "value": fields_text(self.value),
            **(self.event_time.identity if self.event_time else {}),
        }
        return {**made_of, **self.stored_identity}

    def described(self) -> str:
        return super().described() if self.event_time else f"{super().described()}, by the times of transactions"

    def output(self, inputs: Sequence[StructType]) -> StructType:
        """Return the fields of the function's results."""
        (source,) = inputs
        check_comparable(select(source, self.keys))
        if self.event_time:
            self.event_time.check(source)
        self.typed(source)
        return self.output_schema

    def value_field(self, source: StructType) -> StructField:
        return self._store(source).value

    def updater(self, source: StructType) -> KeyedUpdater:
        calls = KeyedCalls(
            title=self.title,
            function=self.function,
            keys=self.keys,
            output=self.output_schema,
            value=tuple(self.value.names),
        )
        return KeyedUpdater(calls=calls, store=self._store(source), event_time=self.event_time)

    def _store(self, source: StructType) -> KeyedStore:
        timed = [self.event_time.timestamp] if self.event_time else []
        return KeyedStore(schema=self.value, made_of=[fields_text(select(source, self.keys)), timed])


def keyed_state(
    title: str,
    name: str,
    factory: StateFactory,
    function: KeyedFunction,
    keys: tuple[str, ...],
    event_time: EventTimeArguments,
) -> KeyedState:
    """Make the state of a function with timers, after the checks that need no knowledge of the input."""
    if not isinstance(function, KeyedFunction):
        raise TopologyError(f"process takes an instance of KeyedFunction, not {shown(function)}")
    check_fenced(factory, "a KeyedFunction")
    check_keeps(factory, "the values and timers of keys")
    return KeyedState(
        title=title,
        name=name,
        factory=factory,
        function=function,
        keys=keys,
        output_schema=_declared(function, "output_schema", "the rows that it returns"),
        value=_declared(function, "state_schema", "the value of a key"),
        times=event_time.checked(),
    )


def _declared(function: KeyedFunction, name: str, what: str) -> StructType:
    found = getattr(function, name, None)
    if found is None:
        raise TopologyError(f"{type(function).__name__} has no {name}: set it to the fields of {what}")
    return schema_of(found)
