"""The values of a state of Storm in Redis (`RedisMapState`), and the transaction that they are at.

Storm stores a txid with each value, and each task of a state writes its own keys of a batch. So the values of one state
have mixed txids. Let C be the lowest transaction that Storm has not recorded as committed. A state may have a part of
C, if Storm was killed in its commit, and it has nothing after C. Our states have one token for all values. So an import
brings every value to the same transaction, C - 1 or C:

| kind | value with txid C | the state is brought to |
| --- | --- | --- |
| opaque | its previous value is taken | C - 1: C is replayed, and replaces what Storm had of it |
| transactional | taken as it is, if the state had one task | C: all of C is there, and C is skipped |
| transactional | refused, if it had several | unknown: tasks may have it or not, and a value can't be taken back |
| non-transactional | unknown | C - 1: C may count twice, as it does in Storm |

One task writes all its values of a batch by one command of Redis. So if one of them has txid C, all have. An opaque
state of one task may be brought to C, too. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any

from attrs import field, frozen
from pyspark.sql import types as t

from coordinators.values.canonical import Json
from trident_py.errors import StateError, TopologyError
from trident_py.interfaces.states import Key
from trident_py.rows.schema import clipped
from trident_py.states.values import (
    JSONNonTransactionalSerializer,
    JSONOpaqueSerializer,
    JSONTransactionalSerializer,
)


class StormKind(Enum):
    """The kinds of Storm's map states."""

    OPAQUE = "opaque"
    TRANSACTIONAL = "transactional"
    NON_TRANSACTIONAL = "non-transactional"


@frozen(kw_only=True)
class StormState:
    """Where Storm keeps a state, and how.

    Attributes:
        kind: which of the three methods of ``RedisMapState`` made it.
        hash: the name of its hash; empty: its values are strings.
        strings: the prefix of the names of its strings, before ``*``; or the name of its only string.
        has_one_task: whether one task wrote it: Storm's ``parallelismHint`` after it was 1, as by default.
    """

    kind: StormKind
    hash: str = ""
    strings: str = ""
    has_one_task: bool = False

    @classmethod
    def parse(cls, text: str) -> StormState:
        """Return the state that ``KIND,hash=NAME`` or ``KIND,strings=PREFIX*`` says, perhaps with ``,tasks=1``.

        Raises:
            ValueError: it says something else.
        """
        kind, *facts = text.split(",")
        said = dict(fact.split("=", 1) for fact in facts if "=" in fact)
        if len(said) != len(facts) or len(said.keys() & {"hash", "strings"}) != 1 or said.keys() - _FACTS:
            raise ValueError(f"no place of a state: {text!r}")
        tasks = int(said.get("tasks", "0"))
        return cls(
            kind=StormKind(kind),
            hash=said.get("hash", ""),
            strings=said.get("strings", ""),
            has_one_task=tasks == 1,
        )

    @property
    def text(self) -> str:
        """The text that `parse` returns it for."""
        place = f"hash={self.hash}" if self.hash else f"strings={self.strings}"
        return f"{self.kind.value},{place}{',tasks=1' if self.has_one_task else ''}"

    @property
    def shown(self) -> str:
        """Its place, for messages."""
        return f"hash {self.hash!r}" if self.hash else f"strings {self.strings!r}"


_FACTS = {"hash", "strings", "tasks"}


@frozen
class StormValue:
    """A stored value.

    Attributes:
        txid: the transaction that wrote it; None: unknown.
        before: the value before that transaction, if the kind keeps it.
    """

    txid: int | None
    value: Any
    before: Any = None


@frozen
class StormValues:
    """All values of a state.

    Attributes:
        name: the state's name in our topology.
        state: where Storm keeps it.
        by_key: the values by the text of the key.
    """

    name: str
    state: StormState
    by_key: Mapping[str, StormValue] = field(repr=False)

    @classmethod
    def of(cls, name: str, state: StormState, texts: Mapping[str, str]) -> StormValues:
        """Return the values that are stored as ``texts``, by the text of the key.

        Raises:
            StateError: a text was not written by a state of this kind, with Storm's own serializer.
        """
        parsed = {}
        for key, text in texts.items():
            try:
                parsed[key] = _value(state.kind, text.encode())
            except StateError as error:
                raise StateError(
                    f"state {name!r}: key {key!r} of {state.shown} is not of a state that is {state.kind.value} in "
                    f"Storm: {error}. To fix this: name the kind that it has in Storm. Values of a Serializer of your "
                    f"own can't be imported",
                    state=name,
                ) from error
        return cls(name, state, parsed)

    def check(self, current: int) -> None:
        """Check that the state has nothing after the transaction ``current``.

        Raises:
            StateError: it has.
        """
        for key, each in self.by_key.items():
            if each.txid is not None and each.txid > current:
                raise StateError(
                    f"state {self.name!r}: key {key!r} of {self.state.shown} is of transaction {each.txid}, and Storm "
                    f"is at {current}: another topology has written it, or Storm's ZooKeeper was restored from the "
                    f"past; nothing was imported. To fix this: name the hash or strings of this topology",
                    state=self.name,
                )

    def possible(self, current: int) -> frozenset[int]:
        """Return the transactions that it can be brought to; ``current`` is the lowest that may be uncommitted."""
        has_current = any(each.txid == current for each in self.by_key.values())
        before, whole = {current - 1}, {current} if has_current and self.state.has_one_task else set[int]()
        match self.state.kind:
            case StormKind.OPAQUE:
                return frozenset(before | whole)
            case StormKind.TRANSACTIONAL if has_current:
                return frozenset(whole)
            case _:
                return frozenset(before)

    def at(self, txid: int) -> Iterator[tuple[str, Any]]:
        """Yield the text of each key, and its value after transaction ``txid``, one of the possible ones."""
        for key, each in self.by_key.items():
            is_later = each.txid is not None and each.txid > txid
            value = each.before if is_later else each.value
            if value is not None:
                yield key, value


def _value(kind: StormKind, data: bytes) -> StormValue:
    match kind:
        case StormKind.OPAQUE:
            opaque = JSONOpaqueSerializer().deserialize(data)
            return StormValue(opaque.curr_txid, opaque.curr, opaque.prev)
        case StormKind.TRANSACTIONAL:
            transactional = JSONTransactionalSerializer().deserialize(data)
            return StormValue(transactional.txid, transactional.value)
        case StormKind.NON_TRANSACTIONAL:
            return StormValue(None, JSONNonTransactionalSerializer().deserialize(data))


# --- types ------------------------------------------------------------------------------------------------------------


@frozen
class StateFields:
    """The declared fields of our state: of its keys, and of its value."""

    keys: Sequence[t.StructField]
    value: t.StructField

    def rows(self, values: StormValues, txid: int) -> Iterator[tuple[Key, Any]]:
        """Yield keys and values after transaction ``txid``, as values of these fields.

        Raises:
            TopologyError: a field can't have values of Storm's.
            StateError: a value is not of its field.
        """
        if len(self.keys) > 1:
            raise TopologyError(
                f"state {values.name!r} has {len(self.keys)} keys, and Storm's RedisMapState has one, unless it has a "
                f"KeyFactory of your own, which can't be imported"
            )
        if not self.keys and len(values.by_key) > 1:
            raise TopologyError(
                f"state {values.name!r} has one value without a key, and {values.state.shown} has "
                f"{len(values.by_key)} values. To fix this: name the place of that value"
            )
        for key, value in values.at(txid):
            yield (
                tuple(_converted(values.name, key, field, key, _KEYS) for field in self.keys),
                _converted(values.name, key, self.value, value, _VALUES),
            )


def _converted(
    state: str, key: str, column: t.StructField, value: Json, converters: Mapping[type[t.DataType], Any]
) -> Any:
    convert = converters.get(type(column.dataType))
    if convert is None:
        kinds = ", ".join(dict.fromkeys(kind.typeName() for kind in converters))
        raise TopologyError(
            f"state {state!r}: field {column.name!r} is {column.dataType.simpleString()}, and Storm's values can "
            f"become {kinds}"
        )
    try:
        return convert(value)
    except (ValueError, ArithmeticError) as error:
        raise StateError(
            f"state {state!r}, key {key!r}: {clipped(value)} is no {column.dataType.simpleString()}, which field "
            f"{column.name!r} is; nothing was imported. To fix this: declare the type that it has in Storm",
            state=state,
        ) from error


def _only(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise ValueError(value)
    return value


def _integer_of_key(text: str) -> int:
    number = int(text)
    if str(number) != text:
        raise ValueError(text)
    return number


_INTEGERS = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)

_KEYS: Mapping[type[t.DataType], Any] = {t.StringType: str, **dict.fromkeys(_INTEGERS, _integer_of_key)}

_VALUES: Mapping[type[t.DataType], Any] = {
    t.StringType: lambda value: _only(value, str),
    t.BooleanType: lambda value: _only(value, bool),
    **dict.fromkeys(_INTEGERS, lambda value: _only(value, int)),
    **dict.fromkeys((t.FloatType, t.DoubleType), lambda value: float(_only(value, int, float))),
    t.DecimalType: lambda value: Decimal(str(_only(value, int, float))),
}
