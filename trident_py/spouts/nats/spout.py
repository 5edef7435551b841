"""`NATSSpout`: the messages of a stream of NATS JetStream, by ranges of their sequence numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql import types as t

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import CursorCoordinator
from coordinators.values.canonical import Json
from coordinators.values.secret import as_secret
from trident_py.errors import ConfigError, SpoutError, StoreBusyException, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout
from trident_py.rows.schema import arrow_schema, shown
from trident_py.spouts.kafka.values import UNDECODED, ValueFormat, decoder_of
from trident_py.spouts.nats.positions import MessageRange, StreamLook, StreamPosition
from trident_py.spouts.rest import Rest

if TYPE_CHECKING:
    from trident_py.spouts.nats.client import Client, Message, Server

PORTION = 5_000
"""The number of messages of one reading."""

SMALL = 1_000
"""The number of messages of a batch that the driver reads itself."""

_HEADERS = t.MapType(t.StringType(), t.StringType(), valueContainsNull=False)
_NOT_IN_NAMES = set(" \t\r\n.*>/\\")


class NATSSpout(ITridentSpout[list[MessageRange]]):
    """Emits the messages of a stream of NATS JetStream. Nothing is acknowledged, and no consumer of others is changed.

    A batch is a range of sequence numbers, and its number of messages is stored with it. The server numbers messages
    and never changes one, so the spout is exact. If messages are trimmed, purged or deleted before they are read, or
    the stream is replaced, or its server has lost messages, the topology stops and names it.

    Fields: ``subject string, sequence bigint, time timestamp, headers map<string,string>``, and ``value`` with the type
    of its format. If a header is there several times, it has the last value.

    Args:
        servers: ``"nats://[user:password@]host:port"`` or ``"tls://…"``, or several of a cluster; never printed.
        stream: the name of the stream. Its retention must be ``limits``.
        subjects: the subject of the messages that are wanted, or several; wildcards are ``*`` and ``>``. None: all.
            Several need NATS 2.10 or later.
        start: ``"earliest"``: the first batch of all begins with the first message that is there; ``"latest"``: after
            the last one, or with the first one of a stream that appears later.
        max_records_per_batch: the greatest number of messages in a batch.
        value: the format of ``value``: ``"binary"``, ``"string"`` (UTF-8), ``"json"`` or ``"avro"``, as for
            `KafkaSpout`.
        schema: for JSON the fields, as DDL or a StructType; for Avro the schema's own JSON text.
        on_decode_error: the treatment of a value that is not in this format. With ``"fail"``, the topology ends, and
            names it. With ``"null"``, it is NULL. With ``"skip"``, its message is left out. With ``"quarantine"``, the
            message is a dead letter.
        options: further arguments of ``nats.connect``, such as ``user_credentials="/path/app.creds"``; never printed.
            A file must be on all machines. ``tls`` is a function that returns an SSL context.

    Raises:
        ConfigError: nats-py, or fastavro for Avro, is not installed.
        TopologyError: an argument can't work.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        stream: str,
        *,
        subjects: str | Sequence[str] | None = None,
        start: str = "earliest",
        max_records_per_batch: int = 10_000,
        value: str = "binary",
        schema: str | t.StructType | None = None,
        on_decode_error: str = "fail",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            from trident_py.spouts.nats.client import Server
        except ImportError as error:
            raise ConfigError(f"NATSSpout needs nats-py ({error}): pip install 'trident-py[nats]'") from error
        urls = _texts("servers", servers)
        self._server = Server(tuple(map(as_secret, urls)), dict(options or {}))
        if not isinstance(stream, str) or not stream or _NOT_IN_NAMES & {*stream}:
            raise TopologyError(f"stream is the name of a stream, not {shown(stream)}")
        if start not in ("earliest", "latest"):
            raise TopologyError(f"start is 'earliest' or 'latest', not {shown(start)}")
        if type(max_records_per_batch) is not int or max_records_per_batch < 1:
            raise TopologyError(f"max_records_per_batch is at least 1, not {shown(max_records_per_batch)}")
        self._subjects = () if subjects is None else _texts("subjects", subjects)
        self._stream, self._start, self._most = stream, start, max_records_per_batch
        self._values = ValueFormat.of(value, schema, on_decode_error)
        self.decoder = decoder_of(self._values, fields_of)
        self.output_schema = fields_of(self._values)

    def __repr__(self) -> str:
        return f"NATSSpout(servers=***, stream={self._stream!r})"

    def details(self) -> Mapping[str, Json]:
        """Return the stream, the subjects and the format of values."""
        subjects: list[Json] = list(self._subjects)
        return {"stream": self._stream, "subjects": subjects, "start": self._start, "value": self._values.kind}

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> StreamCoordinator:
        from trident_py.spouts.nats.client import Client

        where = self._where(tx_state_id, context)
        return StreamCoordinator(
            where=where,
            client=Client(where, self._server),
            stream=self._stream,
            subjects=self._subjects,
            begins_at_end=self._start == "latest",
            most=self._most,
        )

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> StreamEmitter:
        where = self._where(tx_state_id, context)
        return StreamEmitter(MessageReader(where, self._server, self._subjects, self._values))

    def _where(self, tx_state_id: str, context: TopologyContext) -> str:
        return f"topology {context.topology!r}, spout {tx_state_id!r}: stream {self._stream!r}"


def _texts(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else tuple(given)
    if not texts or not all(isinstance(each, str) and each and not each.isspace() for each in texts):
        raise TopologyError(f"{name} are a text or a list of texts")
    return texts


def fields_of(values: ValueFormat) -> t.StructType:
    """Return the fields of the rows."""
    return t.StructType(
        [
            t.StructField("subject", t.StringType()),
            t.StructField("sequence", t.LongType()),
            t.StructField("time", t.TimestampType()),
            t.StructField("headers", _HEADERS),
            values.field,
            *([UNDECODED] if values.quarantines else []),
        ]
    )


@define(kw_only=True)
class StreamCoordinator(CursorCoordinator[list[MessageRange]]):
    """Finds new messages, and divides them into batches.

    Attributes:
        subjects: the wanted subjects; none: all.
        begins_at_end: whether the first batch of all begins after the last message.
        most: the maximum number of messages in a batch.
    """

    where: str
    client: Client
    stream: str
    subjects: Sequence[str]
    begins_at_end: bool
    most: int
    _stored: StreamPosition | None = field(default=None, init=False)
    _here: StreamPosition | None = field(default=None, init=False)  # after messages of other subjects, too
    _next: MessageRange | None = field(default=None, init=False)
    _lag: int = field(default=0, init=False)
    _rows_max: int | None = field(default=None, init=False)
    _rest: Rest = field(factory=Rest, init=False)

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Continue after the last batch."""
        stored: Any = cursors.get(self.stream)
        if stored is not None:
            self._stored = self._here = StreamPosition.of(stored)

    def moved(self, metadata: list[MessageRange]) -> Mapping[str, Json]:
        """Return the end of the range."""
        return {each["stream"]: StreamPosition.of(each).cursor for each in metadata}

    def limit_batches(self, max_rows: int | None) -> None:
        """Limit batches to ``max_rows`` messages."""
        self._rows_max, self._next = max_rows, None

    def lag(self) -> Mapping[str, int]:
        """Return the number of messages that no batch has."""
        return {self.stream: self._lag}

    def is_ready(self, txid: int) -> bool:
        """Return whether there are new messages, or a position that must be stored."""
        if self._next is None:
            with self._rest.looking():
                self._next = self._found()
        return self._next is not None

    def initialize_transaction(
        self, txid: int, prev_metadata: list[MessageRange] | None, curr_metadata: list[MessageRange] | None
    ) -> list[MessageRange]:
        if curr_metadata is not None:
            return curr_metadata
        found, self._next = self._next, None
        if found is None:
            return []
        self._stored = self._here = StreamPosition.of(found)
        return [found]

    def close(self) -> None:
        self.client.close()

    def _found(self) -> MessageRange | None:
        look = self._look()
        if look is None:
            self.begins_at_end = False  # if it appears later, all of its messages are new
            return None
        here = self._here
        if here is None:
            here = self._beginning(look)
            if self.begins_at_end:
                return look.range(self.stream, here, here, 0)
        self._check(look, here)
        if look.last == here.upto:
            self._lag = 0
            return None
        self._check_last(here)
        end, count = self._some(look, here) if self.subjects else self._all(look, here)
        if not count:
            self._here = end
            if self._stored is not None and not look.endangers(self._stored):
                return None
        return look.range(self.stream, here, end, count)

    def _beginning(self, look: StreamLook) -> StreamPosition:
        if self.begins_at_end:
            return look.position(look.last, self.client.time_of(self.stream, look.last) if look.last else 0)
        return look.position(look.first - 1, 0)

    @property
    def _limit(self) -> int:
        return self.most if self._rows_max is None else min(self.most, self._rows_max)

    def _all(self, look: StreamLook, here: StreamPosition) -> tuple[StreamPosition, int]:
        """Return the end of the next range of a stream that is read whole, and the number of its messages."""
        upto, count = look.end_after(here.upto, self._limit)
        end = look.position(upto, self.client.time_of(self.stream, upto))
        self._lag = look.last - upto - end.gaps
        return end, count

    def _some(self, look: StreamLook, here: StreamPosition) -> tuple[StreamPosition, int]:
        """Return the same if some subjects are wanted; only the server knows the numbers of their messages."""
        found: list[Message] = []
        if has_any := self.client.has_any(self.stream, self.subjects, here.upto + 1):
            found = self.client.numbers(self.stream, self.subjects, here.upto + 1, self._limit)
        again = self._look() or look
        self._check(again, here)  # that nothing was deleted meanwhile, and so not found
        self._lag = found[-1].pending if found else 0
        if found:
            return again.position(found[-1].sequence, found[-1].micros), len(found)
        return (here if has_any else again.position(look.last, self.client.time_of(self.stream, look.last))), 0

    # --- what must not be ---------------------------------------------------------------------------------------------

    def _look(self) -> StreamLook | None:
        """Return the state of the stream; if it has new messages, with the numbers of the deleted ones.

        Raises:
            SpoutError: the stream was deleted, or removes messages that were read.
        """
        look = self.client.look(self.stream)
        is_new = look is not None and (self._here is None or look.last > self._here.upto)
        if look is not None and look.gaps and is_new:
            look = self.client.look(self.stream, with_deleted=True)
        if look is None and self._here is not None:
            raise SpoutError(f"{self.where} was deleted; {self._way_out}")
        if look is not None and look.retention != "limits":
            raise SpoutError(
                f"{self.where} has the retention {look.retention!r}, so it removes messages that others acknowledge; "
                f"to fix this: read a stream with the retention limits that has it as a source or mirror"
            )
        return look

    def _check(self, look: StreamLook, here: StreamPosition) -> None:
        if lost := look.lost_after(here):
            raise SpoutError(f"{self.where}: {lost}; {self._way_out}")

    def _check_last(self, here: StreamPosition) -> None:
        found = self.client.time_of(self.stream, here.upto) if here.time else 0
        if found not in (0, here.time):
            raise SpoutError(
                f"{self.where}: message {here.upto} is not the one that was read: its server has lost messages, and "
                f"numbered others again; {self._way_out}"
            )

    @property
    def _way_out(self) -> str:
        return (
            "to fix this: keep messages longer (max_age, max_msgs, max_bytes), set deny_delete and deny_purge, and "
            "`trident reset` this topology"
        )


@frozen
class MessageReader:
    """Reads the messages of a range, in a task.

    Attributes:
        subjects: the wanted subjects; none: all.
    """

    where: str
    server: Server
    subjects: Sequence[str]
    values: ValueFormat

    def __call__(self, given: MessageRange) -> Iterator[pa.RecordBatch]:
        """Yield the messages in their order.

        Raises:
            SpoutError: some of them are gone, or are others, or a value can't be decoded.
            StoreBusyException: the servers don't answer.
        """
        from trident_py.spouts.nats.client import Client

        end, missing = (given["after"], 0), given["count"]
        with closing(Client(self.where, self.server)) as client:
            while missing > 0:
                most = min(PORTION, missing)
                found = client.read(given["stream"], self.subjects, end[0] + 1, most)
                found = [each for each in found if each.sequence <= given["upto"]]
                if not found:
                    break
                yield self._batch(found)
                end, missing = (found[-1].sequence, found[-1].micros), missing - len(found)
            look = client.look(given["stream"], with_deleted=missing > 0)
        if gone := _gone(look, given, missing, end):
            raise SpoutError(
                f"{self.where}: {gone}, and are needed again; to fix this: keep messages longer (max_age, max_msgs, "
                f"max_bytes), set deny_delete and deny_purge, and skip the transaction"
            )
        if missing:
            raise StoreBusyException(f"{self.where}: the server doesn't return {missing} messages of {given} now")

    def _batch(self, found: Sequence[Message]) -> pa.RecordBatch:
        values, kept = self.values.array(
            [each.data for each in found], lambda number: f"{self.where}: message {found[number].sequence}"
        )
        rows = [found[number] for number in kept]
        schema = arrow_schema(fields_of(self.values))
        columns = [
            pa.array([each.subject for each in rows], pa.string()),
            pa.array([each.sequence for each in rows], pa.int64()),
            pa.array([each.micros for each in rows], pa.int64()).cast(schema.field("time").type),
            pa.array([list(each.headers.items()) for each in rows], schema.field("headers").type),
            values,
        ]
        if self.values.quarantines:
            columns.append(self.values.undecoded([each.data for each in rows], values))
        return pa.RecordBatch.from_arrays([a.cast(f.type) for a, f in zip(columns, schema, strict=True)], schema=schema)


def _gone(look: StreamLook | None, given: MessageRange, missing: int, end: tuple[int, int]) -> str:
    """Return the reason why the messages that were read don't belong to the range; empty: they may be."""
    span = f"the {given['count']} messages after {given['after']} up to {given['upto']}"
    if look is None or look.created != given["created"]:
        return f"it was deleted, so {span} are gone"
    if missing:
        return f"{missing} of {span} were trimmed, purged or deleted" if look.has_lost(given) else ""
    if given["time"] and end != (given["upto"], given["time"]):
        return f"its server has lost messages, so {span} are others"
    return ""


@define
class StreamEmitter(Emitter[list[MessageRange]]):
    """Emits ranges: a task reads each."""

    reader: MessageReader

    def emit_batch(
        self, attempt: TransactionAttempt, metadata: list[MessageRange], collector: TridentCollector
    ) -> None:
        ranges = [each for each in metadata if each["count"]]
        if ranges:
            collector.emit_splits(ranges, self.reader, on_driver=sum(each["count"] for each in ranges) <= SMALL)
