"""`RedisStreamsSpout`: the entries of Redis streams, by ranges of their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import CursorCoordinator
from coordinators.values.canonical import Json
from coordinators.values.secret import as_secret
from trident_py.errors import ConfigError, SpoutError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.spouts.rest import Rest

if TYPE_CHECKING:
    from redis import Redis

    from trident_py.states.redis.server import Server

PORTION = 1_000
"""The number of entries that one command reads."""

SMALL = 1_000
"""The number of entries of a batch that the driver reads itself."""

BEGINNING = "0-0"
"""The id before that of every entry."""

_FIELDS = "stream string, id string, time timestamp, entry map<string,{}>"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EntryRange(TypedDict):
    """The entries of a stream after one id, up to another one: how many there are, and how many the stream ever had."""

    stream: str
    after: str
    upto: str
    count: int
    added: int


class RedisStreamsSpout(ITridentSpout[list[EntryRange]]):
    """Emits the entries of Redis streams. Nothing is acknowledged, and consumer groups are neither used nor changed.

    A batch is a range of ids of each stream. The server only adds ids that are greater than all before, so a range
    always has the same entries, and the spout is exact. If entries are trimmed or deleted before they are read, or a
    stream is replaced, the topology stops and names it.

    Fields: ``stream string, id string, time timestamp, entry map<string,string>``. The time is that of the id.

    Args:
        url: ``"redis://[user:password@]host:port/db"``; never printed. The server must be Redis 7 or later.
        streams: the name of a stream, or several.
        start: ``"earliest"``: the first batch of all begins with the first entry that is there; ``"latest"``: after the
            last one, or with the first one of a stream that appears later.
        max_records_per_batch: the greatest number of entries of each stream in a batch.
        value: ``"string"``: values are texts in UTF-8; ``"binary"``: bytes.

    Raises:
        ConfigError: redis-py is not installed.
        TopologyError: an argument can't work.
        StateError: the URL can't be read.
    """

    def __init__(
        self,
        url: str,
        streams: str | Sequence[str],
        *,
        start: str = "earliest",
        max_records_per_batch: int = 10_000,
        value: str = "string",
    ) -> None:
        try:
            from trident_py.states.redis.server import Server
        except ImportError as error:
            raise ConfigError(f"RedisStreamsSpout needs redis ({error}): pip install 'trident-py[redis]'") from error
        self._server = Server(as_secret(url))
        self._streams = (streams,) if isinstance(streams, str) else tuple(streams)
        if not self._streams or len({*self._streams}) < len(self._streams):
            raise TopologyError(f"streams are at least one name, each once, not {streams!r}")
        for name, given, known in (
            ("start", start, ("earliest", "latest")),
            ("value", value, ("string", "binary")),
        ):
            if given not in known:
                raise TopologyError(f"{name} is {known[0]!r} or {known[1]!r}, not {given!r}")
        if max_records_per_batch < 1:
            raise TopologyError(f"max_records_per_batch is at least 1, not {max_records_per_batch}")
        self._start, self._most, self._value = start, max_records_per_batch, value
        self.output_schema = schema_of(_FIELDS.format(value))

    def __repr__(self) -> str:
        return f"RedisStreamsSpout(url=***, streams={list(self._streams)})"

    def details(self) -> Mapping[str, Json]:
        """Return the streams and the form of values."""
        return {"streams": list(self._streams), "start": self._start, "value": self._value}

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> StreamsCoordinator:
        return StreamsCoordinator(
            where=f"topology {context.topology!r}, spout {tx_state_id!r}",
            server=self._server,
            streams=self._streams,
            begins_at_end=self._start == "latest",
            most=self._most,
        )

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> StreamsEmitter:
        where = f"topology {context.topology!r}, spout {tx_state_id!r}"
        return StreamsEmitter(EntryReader(where, self._server, schema_of(self.output_schema), self._value == "string"))


@frozen
class StreamPosition:
    """How far a stream was read.

    Attributes:
        upto: the id of the last entry.
        added: how many entries the stream ever had, up to this one.
    """

    upto: str
    added: int


def _text(given: bytes | str) -> str:
    return given.decode() if isinstance(given, bytes) else given


def id_key(id: str) -> tuple[int, int]:
    """Return the two numbers of an id, by which ids are compared."""
    milliseconds, _, number = id.partition("-")
    return int(milliseconds), int(number or 0)


@frozen(kw_only=True)
class StreamLook:
    """A server's description of a stream at one moment.

    Attributes:
        added: how many entries it ever had.
        length: how many are there.
        first: the id of the first one there; empty: none is there.
        last: the greatest id that it ever had.
        deleted: the greatest id that was deleted singly.
    """

    added: int
    length: int
    first: str
    last: str
    deleted: str

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> StreamLook | None:
        """Return the look; None: the server is too old to count the entries."""
        found = {_text(name): value for name, value in info.items()}
        if "entries-added" not in found:
            return None
        first = found["first-entry"]
        return cls(
            added=found["entries-added"],
            length=found["length"],
            first=_text(first[0]) if first else "",
            last=_text(found["last-generated-id"]),
            deleted=_text(found["max-deleted-entry-id"]),
        )

    def lost_after(self, position: StreamPosition) -> str:
        """Return why entries after ``position`` can't be read any more; empty: all of them are there."""
        if self.added < position.added or id_key(self.last) < id_key(position.upto):
            return (
                f"it had {position.added} entries up to {position.upto}, and now it says {self.added} up to "
                f"{self.last}: it was deleted and made again, or its server has lost entries"
            )
        if id_key(self.deleted) > id_key(position.upto):
            return f"entry {self.deleted} was deleted before it was read"
        are_all_after = not self.first or id_key(self.first) > id_key(position.upto)
        if are_all_after and self.length < self.added - position.added:
            lost = self.added - position.added - self.length
            return f"{lost} entries after {position.upto} were trimmed before they were read"
        return ""


@define(kw_only=True)
class StreamsCoordinator(CursorCoordinator[list[EntryRange]]):
    """Finds new entries, and divides them into batches.

    Attributes:
        begins_at_end: whether the first batch of all begins after the last entry; of a stream that appears later, with
            the first one.
        most: the maximum number of entries of a stream in a batch.
    """

    where: str
    server: Server
    streams: Sequence[str]
    begins_at_end: bool
    most: int
    _positions: dict[str, StreamPosition] = field(factory=dict, init=False)
    _late: set[str] = field(factory=set, init=False)  # those that were not there at the first look
    _next: list[EntryRange] = field(factory=list, init=False)
    _lag: dict[str, int] = field(factory=dict, init=False)
    _rows_max: int | None = field(default=None, init=False)
    _rest: Rest = field(factory=Rest, init=False)
    _client: Redis | None = field(default=None, init=False)

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Continue after the last batch."""
        for stream, stored in cursors.items():
            found: Any = stored
            self._positions[stream] = StreamPosition(found["upto"], found["added"])

    def moved(self, metadata: list[EntryRange]) -> Mapping[str, Json]:
        """Return the end of each range."""
        return {each["stream"]: {"upto": each["upto"], "added": each["added"]} for each in metadata}

    def limit_batches(self, max_rows: int | None) -> None:
        """Limit batches to ``max_rows`` entries of each stream."""
        self._rows_max, self._next = max_rows, []

    def lag(self) -> Mapping[str, int]:
        """Return the number of entries that no batch has, by stream."""
        return self._lag

    def is_ready(self, txid: int) -> bool:
        """Return whether a stream has new entries, or a beginning that must be stored."""
        if not self._next:
            with self._rest.looking():
                self._next = self._found()
        return bool(self._next)

    def initialize_transaction(
        self, txid: int, prev_metadata: list[EntryRange] | None, curr_metadata: list[EntryRange] | None
    ) -> list[EntryRange]:
        if curr_metadata is not None:
            return curr_metadata
        found, self._next = self._next, []
        for each in found:
            self._positions[each["stream"]] = StreamPosition(each["upto"], each["added"])
        return found

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _found(self) -> list[EntryRange]:
        from trident_py.states.redis.server import explained

        if self._client is None:
            self._client = self.server.client(decode_responses=False)  # entries may be any bytes
        with explained(self.where):
            return [each for each in (self._range(self._client, stream) for stream in self.streams) if each]

    def _range(self, client: Redis, stream: str) -> EntryRange | None:
        if stream not in self._positions and not client.exists(stream):
            self._late.add(stream)
            return None
        position = self._positions.get(stream)
        begins_at_end = self.begins_at_end and stream not in self._late
        begin = "-" if position is None else f"({position.upto}"
        most = self.most if self._rows_max is None else min(self.most, self._rows_max)
        with client.pipeline(transaction=True) as both:
            both.xinfo_stream(stream)
            both.xrange(stream, begin, "+", count=most)
            answers: list[Any] = both.execute(raise_on_error=False)
        info, entries = answers
        look = self._look(stream, info)
        if position is None:
            position = self._beginning(look, begins_at_end)
            if begins_at_end:
                return EntryRange(stream=stream, after=position.upto, upto=look.last, count=0, added=look.added)
        if lost := look.lost_after(position):
            raise SpoutError(
                f"{self.where}: stream {stream!r}: {lost}; to fix this: keep entries longer (MAXLEN, MINID), and "
                f"`trident reset` this topology, or give the stream another name"
            )
        self._lag[stream] = look.added - position.added - len(entries)
        if not entries:
            return None
        count, upto = len(entries), _text(entries[-1][0])
        return EntryRange(stream=stream, after=position.upto, upto=upto, count=count, added=position.added + count)

    def _look(self, stream: str, info: Any) -> StreamLook:
        if isinstance(info, Exception):
            raise SpoutError(f"{self.where}: stream {stream!r} can't be read: {info}") from info
        look = StreamLook.of(info)
        if look is None:
            raise SpoutError(
                f"{self.where}: the server doesn't count the entries of stream {stream!r}, so lost ones would not be "
                f"noticed; to fix this: use Redis 7 or later"
            )
        return look

    def _beginning(self, look: StreamLook, begins_at_end: bool) -> StreamPosition:
        if begins_at_end:
            return StreamPosition(look.last, look.added)
        return StreamPosition(BEGINNING, look.added - look.length)


@frozen
class EntryReader:
    """Reads the entries of a range, in a task.

    Attributes:
        are_texts: whether values are texts; else they are bytes.
    """

    where: str
    server: Server
    schema: StructType
    are_texts: bool

    def __call__(self, entries: EntryRange) -> Iterator[pa.RecordBatch]:
        """Yield the entries in their order.

        Raises:
            SpoutError: some of them are gone, or a value is no text.
        """
        from trident_py.states.redis.server import explained

        stream, begin, missing = entries["stream"], entries["after"], entries["count"]
        with explained(self.where), closing(self.server.client(decode_responses=False)) as client:
            while missing > 0:
                found: Any = client.xrange(stream, f"({begin}", entries["upto"], count=min(PORTION, missing))
                if not found:
                    raise SpoutError(
                        f"{self.where}: stream {stream!r} has {entries['count'] - missing} of the {entries['count']} "
                        f"entries after {entries['after']} up to {entries['upto']}: the others were trimmed or "
                        f"deleted, and are needed again; to fix this: keep entries longer (MAXLEN, MINID), and skip "
                        f"the transaction"
                    )
                rows = [self._row(stream, id.decode(), values) for id, values in found]
                yield from arrow_table(rows, self.schema).to_batches()
                begin, missing = rows[-1][1], missing - len(rows)

    def _row(self, stream: str, id: str, values: Mapping[bytes, bytes]) -> tuple[str, str, datetime, dict[str, Any]]:
        try:
            entry = {name.decode(): value.decode() if self.are_texts else value for name, value in values.items()}
        except UnicodeDecodeError as error:
            raise SpoutError(
                f"{self.where}: entry {id} of stream {stream!r} has a value that is no text in UTF-8: {error}; to fix "
                f"this: read the stream with value='binary'"
            ) from error
        return stream, id, _EPOCH + timedelta(milliseconds=id_key(id)[0]), entry


@define
class StreamsEmitter(Emitter[list[EntryRange]]):
    """Emits ranges: a task reads each."""

    reader: EntryReader

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[EntryRange], collector: TridentCollector) -> None:
        ranges = [each for each in metadata if each["count"]]
        if ranges:
            collector.emit_splits(ranges, self.reader, on_driver=sum(each["count"] for each in ranges) <= SMALL)
