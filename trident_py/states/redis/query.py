"""`RedisQuery`: strings, sets and hashes of a Redis server, looked up for the rows of a stream."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from attrs import frozen
from pyspark.sql import types as t

from coordinators.values.secret import Secret, as_secret
from trident_py.errors import ConfigError, StateError, StoreBusyException, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import QueryFunction, ReadOnlyState, StateFactory
from trident_py.rows.schema import shown
from trident_py.worker.pipeline import RowCollector

if TYPE_CHECKING:
    from trident_py.states.redis.server import Server

_TEXT = ("utf-8", "strict")
Place: TypeAlias = tuple[str, str | None]
"""The name of a key, and a field if it is one of a hash."""

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


@frozen
class Found:
    """The stored value of a key.

    Attributes:
        key: the key's name, for messages.
        kind: ``string``, ``set`` or ``hash``; ``none``: there is no such key.
        values: the string, the members of the set in order, or the fields of the hash.
    """

    key: str
    kind: str
    values: Any = None


class RedisLookup(ReadOnlyState):
    """A Redis server for look-ups; each batch makes its own connection."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def find(self, places: Sequence[Place]) -> list[Found]:
        """Return the stored value of each of ``places``, in their order; makes two requests to the server.

        Raises:
            StateError: a key holds neither a string, a set nor a hash, or has no fields.
            StoreBusyException: the server is unavailable, or the type of a key changed between the two requests.
        """
        from trident_py.states.redis.server import explained

        with explained("RedisQuery"), closing(self._server.client(decode_responses=False)) as client:
            kinds = [kind.decode() for kind in self._visit(client, [("TYPE", key) for key, _ in places])]
            calls = [_call(place, kind) for place, kind in zip(places, kinds, strict=True) if kind != "none"]
            answers = iter(self._visit(client, calls))
        return [
            _found(place, kind, None if kind == "none" else next(answers))
            for place, kind in zip(places, kinds, strict=True)
        ]

    def _visit(self, client: Any, calls: Sequence[tuple[str, ...]]) -> list[Any]:
        pipeline = client.pipeline(transaction=False)
        for call in calls:
            pipeline.execute_command(*call)
        answers: list[Any] = pipeline.execute(raise_on_error=False)
        if failed := next((each for each in answers if isinstance(each, Exception)), None):
            if str(getattr(failed, "args", [""])[0]).startswith("WRONGTYPE"):
                raise StoreBusyException(f"RedisQuery: {failed}; a key was replaced meanwhile, and is looked up again")
            raise failed
        return answers

    def close(self) -> None:
        """Do nothing: no connection is kept."""


_READ: Mapping[str, str] = {"string": "GET", "set": "SMEMBERS", "hash": "HGETALL"}
"""The command that reads each type of value."""


def _call(place: Place, kind: str) -> tuple[str, ...]:
    """Return the command that reads a place.

    Raises:
        StateError: no command can.
    """
    key, part = place
    if kind not in _READ:
        raise StateError(f"RedisQuery: key {key!r} holds a {kind}; it looks up strings, sets and hashes only")
    if part is None:
        return (_READ[kind], key)
    if kind != "hash":
        raise StateError(f"RedisQuery: key {key!r} holds a {kind}, which has no fields; to fix this: leave field= out")
    return ("HGET", key, part)


def _found(place: Place, kind: str, value: Any) -> Found:
    key, part = place
    if part is None:
        return Found(key, kind, value)
    return Found(f"{key} {part}", "none" if value is None else "string", value)


@frozen
class RedisQuery(StateFactory, QueryFunction[RedisLookup, Found]):
    """Looks up values that other programs keep in Redis: both the static state and the function that queries it.

    ``prices = RedisQuery(url, key="price:{item}")``, then ``stream.state_query(topology.new_static_state(prices),
    "item", prices, "price double")``. The input fields of each row make the name of the key. The type of the key's
    value decides:

    - a string: one row, with its value as the only output field;
    - a set: a row for each member, in order, likewise;
    - a hash: one row; the output fields are the fields of the same names, NULL for one that the hash lacks.

    As in an inner join, the row is emitted once with each row that is found. If there is no such key, or a field of its
    name is NULL, the row is dropped. Each key is looked up once in a batch, on the commit thread.

    Args:
        url: as for `RedisState`; a replica is sufficient.
        key: the name of the key; ``{item}`` stands for the value of the input field ``item``, ``{{`` for a brace.
        field: the name of a field, in the same way: looks up only this field of a hash, like a string.

    Raises:
        TopologyError: ``key`` or ``field`` is not such a text.
        StateError: ``url`` is not a Redis URL.
        ConfigError: redis-py is not installed.
    """

    needs = (RedisLookup,)

    url: Secret = attrs.field(converter=as_secret)
    key: str = attrs.field(kw_only=True)
    field: str | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self._server()

    @key.validator
    def _check_key(self, _: object, key: object) -> None:
        _check_template("key", "price:{item}", key)

    @field.validator
    def _check_field(self, _: object, name: object) -> None:
        if name is not None:
            _check_template("field", "{item}", name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the input fields that key and field are made of."""
        parts = [*string.Formatter().parse(self.key), *string.Formatter().parse(self.field or "")]
        return tuple(name for _, name, _, _ in parts if name is not None)

    def ensure_usable(self) -> None:
        """Check that the server answers and accepts the user."""
        from trident_py.states.redis.server import explained

        with explained("RedisQuery"), closing(self._server().client()) as client:
            client.ping()

    def make_state(
        self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int
    ) -> RedisLookup:
        """Return the look-up state for the server."""
        return RedisLookup(self._server())

    def check(self, seen: t.StructType | None, keys: t.StructType | None, out: t.StructType) -> None:
        """Check that the key is made of input fields, and that values can be of the output fields' types."""
        for name in self.names if seen is not None else ():
            if name not in seen.names:  # type: ignore[union-attr]
                raise TopologyError(f"the key has {{{name}}}, and the input fields are {', '.join(seen.names)}")  # type: ignore[union-attr]
        for each in out.fields:
            if type(each.dataType) not in _FROM_TEXT:
                raise TopologyError(
                    f"the field {each.name!r} is {each.dataType.simpleString()}, and Redis keeps texts; to fix this: "
                    f"declare it as a string, and convert it by `map`"
                )

    def batch_retrieve(self, state: RedisLookup, args: Sequence[Any]) -> Sequence[Found]:
        """Return the stored value for each of ``args``; a key is looked up once."""
        wanted = [self._place_of(row) for row in args]
        places = list(dict.fromkeys(place for place in wanted if place is not None))
        found = dict(zip(places, state.find(places) if places else (), strict=True))
        return [Found("", "none") if place is None else found[place] for place in wanted]

    def execute(self, row: Any, result: Found, collector: TridentCollector) -> None:
        """Emit each row that was found."""
        if not isinstance(collector, RowCollector):
            raise TypeError(f"RedisQuery emits to the collector of a state_query, not to {collector!r}")
        for values in _rows(result, collector.schema):
            collector.emit(values)

    def _place_of(self, row: Any) -> Place | None:
        values = {name: row[name] for name in self.names}
        if None in values.values():
            return None
        return self.key.format(**values), None if self.field is None else self.field.format(**values)

    def _server(self) -> Server:
        try:
            from trident_py.states.redis.server import Server
        except ImportError as error:
            raise ConfigError(f"RedisQuery needs redis ({error}): pip install 'trident-py[redis]'") from error
        return Server(self.url)


def _check_template(argument: str, example: str, text: object) -> None:
    """Check a text with names of input fields in braces.

    Raises:
        TopologyError: it is not such a text.
    """
    refused = TopologyError(f"{argument}= of RedisQuery is a text such as {example!r}, not {shown(text)}")
    try:
        parts = list(string.Formatter().parse(text)) if isinstance(text, str) else []
    except ValueError as error:
        raise refused from error
    if not parts or any(name is not None and (not name.isidentifier() or spec) for _, name, spec, _ in parts):
        raise refused


def _rows(found: Found, out: t.StructType) -> list[tuple[Any, ...]]:
    """Return the stored value as rows of the output fields."""
    if found.kind == "hash":
        return [tuple(_value(found, found.values.get(each.name.encode()), each) for each in out.fields)]
    if found.kind == "none":
        return []
    if len(out.fields) != 1:
        raise ValueError(f"RedisQuery: key {found.key!r} holds a {found.kind}: one output field, not {out.names}")
    values = [found.values] if found.kind == "string" else sorted(found.values)
    return [(_value(found, value, out.fields[0]),) for value in values]


def _value(found: Found, raw: bytes | None, target: t.StructField) -> Any:
    if raw is None:
        return None
    try:
        return _FROM_TEXT[type(target.dataType)](raw)
    except (ArithmeticError, LookupError, ValueError) as error:
        raise ValueError(
            f"RedisQuery: key {found.key!r} holds {shown(raw)}, which is no {target.dataType.simpleString()} for the "
            f"field {target.name!r}"
        ) from error


_FROM_TEXT: Mapping[type[t.DataType], Callable[[bytes], Any]] = {
    t.StringType: lambda raw: raw.decode(*_TEXT),
    t.BinaryType: bytes,
    t.BooleanType: lambda raw: _BOOLEANS[raw.decode(*_TEXT).lower()],
    **dict.fromkeys((t.ByteType, t.ShortType, t.IntegerType, t.LongType), int),
    **dict.fromkeys((t.FloatType, t.DoubleType), float),
    t.DecimalType: lambda raw: Decimal(raw.decode(*_TEXT)),
}
"""The conversions from Redis' bytes to values, by the type of the output field."""
