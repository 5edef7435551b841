"""The protocol of `KafkaSink`: rows and token of transactions, in one transaction of one Kafka producer.

Kafka fences producers in the order in which they call ``init_transactions``. This is not the order of leaderships: a
former leader may call it last. So the token names the leader. A leader reads the token before and after it makes a
producer, and ends if a newer leader has written it. If a leader is fenced, and there is no newer leader, it makes
another producer and continues.

The outcome of a commit may be unknown. Then, as after every failure, the producer is closed. The ``init_transactions``
of the next one ends open transactions, and the token names the last commit.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import confluent_kafka as kafka
import pyarrow as pa
from attrs import define, evolve, field

from trident_py.errors import FailedException, FencedError, SinkError, StoreBusyException
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.interfaces.verdict import Verdict
from trident_py.rows.schema import shown
from trident_py.sinks.kafka.client_log import client_log
from trident_py.sinks.kafka.records import ANY_PARTITION, Record, records, suspect
from trident_py.sinks.kafka.staging import StagedRows
from trident_py.sinks.kafka.token_topic import KEY, KafkaToken, TokenTopic, token_topic, transactional_id
from trident_py.sinks.kafka.verdicts import Call, shown_error, worst_of
from trident_py.sinks.token import Leading

TRIES = 10
"""The maximum number of producers that a commit makes, if each is fenced by another leader's; then it fails for now."""
INIT_SECONDS = 60.0
COMMIT_SECONDS = 60.0
"""The timeouts for making a producer, and for a commit."""
FULL_SECONDS = 0.01
"""The pause between two tries to send a record while the queue is full."""
_ONE_CALL_SECONDS = 10.0
_ABORT_SECONDS = 5.0
_DEFAULTS = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "partitioner": "murmur2_random",  # as Java's producers have it
    "transaction.timeout.ms": 300_000,
}
_E = kafka.KafkaError
_FENCED = {
    _E._FATAL,  # noqa: SLF001 - librdkafka's name for it: what comes after it said that it is fenced
    _E._FENCED,  # noqa: SLF001
    _E.INVALID_PRODUCER_EPOCH,
    _E.INVALID_PRODUCER_ID_MAPPING,
    _E.UNKNOWN_PRODUCER_ID,
}
_PERHAPS_STALE = {
    _E._UNKNOWN_PARTITION,  # noqa: SLF001
    _E._UNKNOWN_TOPIC,  # noqa: SLF001
    _E.UNKNOWN_TOPIC_OR_PART,
}
"""Errors about a topic that a producer may know from before; a new producer queries it again."""
_VAGUE = {
    _E._INVALID_DIFFERENT_RECORD,  # noqa: SLF001
    _E._PURGE_INFLIGHT,  # noqa: SLF001
    _E._PURGE_QUEUE,  # noqa: SLF001
}
"""Errors of records that were refused because of another record."""


class BatchRefusedError(Exception):
    """Kafka refuses the records of this batch."""

    def __init__(self, why: kafka.KafkaError) -> None:
        super().__init__(shown_error(why))
        self.why = why


@define(eq=False)
class KafkaTransactions:
    """Commits a topology's transactions to Kafka.

    Attributes:
        options: librdkafka's options, including ``bootstrap.servers``.
        topic: the topic of rows that name none.
    """

    options: Mapping[str, Any] = field(repr=False)
    topic: str | None
    _number: int = field(factory=lambda: secrets.randbits(62), init=False)
    _leading: Leading[KafkaToken] | None = field(default=None, init=False)
    _id: str = field(default="", init=False)  # the transactional id
    _token_topic: str = field(default="", init=False)
    _has_led: bool = field(default=False, init=False)
    _producer: kafka.Producer | None = field(default=None, init=False)
    _undelivered: kafka.KafkaError | None = field(default=None, init=False)
    _refused: Record | None = field(default=None, init=False)  # that the error is about, where it says so

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Fence older leaders; return the token of the last commit.

        Raises:
            SinkError: the cluster refuses.
            FencedError: a newer leader has taken over.
            StoreBusyException: the cluster doesn't answer.
        """
        self._give_up()
        token = KafkaToken(incarnation=topology.incarnation, fence=epoch, sink=self._number)
        self._leading = leading = Leading(topology, token)
        self._id = transactional_id(topology.uuid, self.topic)
        self._token_topic = token_topic(topology.name, topology.uuid, self.topic)
        self._has_led = False
        self._as_leader(leading, lambda _: None)
        return leading.token.commit

    def commit(self, group: Sequence[tuple[SinkTransaction, StagedRows]]) -> None:
        """Send the rows of these transactions, and the last one's token, in one transaction of Kafka's.

        A transaction that is committed already is skipped.

        Raises:
            SinkError: Kafka will never accept any rows, or the token was changed.
            FencedError: a newer leader has taken over.
            FailedException: Kafka refuses some rows, and nothing of the group is committed.
            StoreBusyException: the cluster doesn't answer; whether the group is committed is still unknown.
        """
        leading = self._leading
        if leading is None:
            raise SinkError("the sink has no leader; call recover() first")

        def due() -> list[tuple[SinkTransaction, StagedRows]]:
            return [each for each in group if each[0].txid > leading.token.txid]

        def send(producer: kafka.Producer) -> None:
            for tx, _ in group:
                tx.ensure_parkable(leading.token.commit)
            if members := due():
                token = evolve(leading.token, commit=members[-1][0].token)
                self._transact(leading, producer, token, _batches(members))

        try:
            self._as_leader(leading, send)
        except BatchRefusedError as refused:
            named = self._refused
            self._as_leader(leading, lambda _: None)  # a producer reads the token when it begins
            if members := due():
                rows = (record for batch in _batches(members) for record in records(batch, self.topic))
                record = _shown_record(named or suspect(refused.why.name(), rows))
                attempts = ", ".join(str(tx.attempt) for tx, _ in members)
                raise FailedException(
                    f"{leading.who}, attempt {attempts}: Kafka refuses a record: {refused}{record}; nothing of the "
                    f"batch is committed; to fix this: correct such rows, or leave them out, before the KafkaSink, or "
                    f"change the topic's settings"
                ) from refused.__cause__

    def last(self) -> CommitToken | None:
        """Return the token of the last commit; a commit whose answer was lost is settled first.

        Raises:
            FencedError, SinkError, StoreBusyException: as for `recover`.
        """
        if self._leading is None:
            raise SinkError("the sink has no leader; call recover() first")
        self._as_leader(self._leading, lambda _: None)
        return self._leading.token.commit

    def close(self) -> None:
        """Close the producer without waiting for an unavailable cluster; the next commit needs a `recover` before."""
        self._leading = None
        self._give_up()

    # --- producers ----------------------------------------------------------------------------------------------------

    def _as_leader(self, leading: Leading[KafkaToken], act: Callable[[kafka.Producer], None]) -> None:
        """Call ``act`` with a producer; if it was fenced, but not by a newer leader, call it with another one."""
        for _ in range(TRIES):
            call, self._undelivered, is_kept = Call.LEAD, None, self._producer is not None
            try:
                producer = self._producer or self._lead(leading)
                call = Call.SEND
                act(producer)
                return
            except kafka.KafkaException as error:
                told, errors = error.args[0], [each for each in (self._undelivered, error.args[0]) if each]
                self._give_up()
                verdict, cause = worst_of(call, errors)
                is_fenced = told.fatal() or any(each.code() in _FENCED for each in errors)
                if is_kept and cause.code() in _PERHAPS_STALE:
                    continue
                if verdict is Verdict.NEVER or not is_fenced:
                    self._judge(leading, verdict, cause, error)
            except BaseException:
                self._give_up()
                raise
        raise StoreBusyException(
            f"{leading.who}: {TRIES} producers of {self._id!r} were fenced, but not by a newer leader"
        )

    def _judge(
        self, leading: Leading[KafkaToken], verdict: Verdict, cause: kafka.KafkaError, error: Exception
    ) -> NoReturn:
        """Raise the error that follows from an error of Kafka's."""
        match verdict:
            case Verdict.NEVER:
                fix = ""
                if cause.code() in _PERHAPS_STALE:  # a new producer has not found it either
                    named = f"topic {self.topic!r}" if self.topic else "the topic that a row names"
                    fix = f"; to fix this: create {named}, with that partition"
                raise SinkError(f"{leading.who}: Kafka refuses: {shown_error(cause)}{fix}") from error
            case Verdict.THIS_BATCH:
                raise BatchRefusedError(cause) from error
        raise StoreBusyException(
            f"{leading.who}: Kafka doesn't answer as expected, and the call is retried: {shown_error(cause)}"
        ) from error

    def _lead(self, leading: Leading[KafkaToken]) -> kafka.Producer:
        """Make a producer, and write this leader into the token."""
        tokens = TokenTopic(self.options, self._token_topic)
        tokens.ensure()
        self._refuse_newer(leading, tokens.read())  # a former leader must not fence the current one
        own = {
            "transactional.id": self._id,
            "delivery.report.only.error": True,
            "on_delivery": self._failed,
        }
        producer = kafka.Producer({**_DEFAULTS, **self.options, **own}, logger=client_log)
        self._producer = producer
        producer.init_transactions(INIT_SECONDS)
        tokens.await_settled()
        found = self._look(leading, tokens.read())
        is_same = found is not None and found.incarnation == leading.token.incarnation
        self._transact(leading, producer, evolve(leading.token, commit=found.commit if found and is_same else None), ())
        self._has_led = True
        return producer

    def _look(self, leading: Leading[KafkaToken], stored: bytes | None) -> KafkaToken | None:
        """Return the token if it allows this leadership; no transaction holds it back any more."""
        ours = leading.token
        found = self._refuse_newer(leading, stored)
        if self._has_led and (found is None or (*found.leadership, found.txid) < (*ours.leadership, ours.txid)):
            raise SinkError(
                f"{leading.who}: topic {self._token_topic!r} had transaction {ours.txid}, and has "
                f"{(found.txid if found else 'none')} now: it was cut, or made again; to fix this: restore it, or "
                f"`trident reset` the topology"
            )
        return found

    def _refuse_newer(self, leading: Leading[KafkaToken], stored: bytes | None) -> KafkaToken | None:
        ours, name = leading.token, self._token_topic
        found = None if stored is None else KafkaToken.parse(stored)
        if found and found.leadership > ours.leadership:
            raise FencedError(
                f"{leading.who}: a leader of epoch {found.fence} has taken over topic {name!r}; to fix this: end this "
                f"leader"
            )
        if found and found.leadership == ours.leadership and found.sink != ours.sink:
            raise SinkError(
                f"{leading.who}: another sink of this topology writes to topic {self.topic!r}, and has its token in "
                f"{name!r}; to fix this: merge the streams, or give each sink its own topic"
            )
        return found

    def _transact(
        self,
        leading: Leading[KafkaToken],
        producer: kafka.Producer,
        token: KafkaToken,
        batches: Iterable[pa.RecordBatch],
    ) -> None:
        self._undelivered = self._refused = None
        producer.begin_transaction()
        for batch in batches:
            for record in records(batch, self.topic):
                try:
                    _send(producer, record)
                except kafka.KafkaException:
                    self._refused = record
                    raise
            producer.poll(0)
        own = Record(topic=self._token_topic, value=token.stored(), key=KEY, partition=0, timestamp=0, headers=None)
        _send(producer, own)
        _commit(producer)
        leading.token = token

    def _failed(self, error: kafka.KafkaError | None, message: kafka.Message) -> None:
        """Keep the reason why a record wasn't delivered; the commit reports only the number of such records."""
        if error is not None and (self._undelivered is None or self._undelivered.code() in _VAGUE):
            self._undelivered = error

    def _give_up(self) -> None:
        """Close the producer, and abort its transaction, so that readers don't wait for its records."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(kafka.KafkaException):  # it is fenced, and was not used since
                producer.poll(0)  # it logs then
            with suppress(kafka.KafkaException):
                producer.abort_transaction(_ABORT_SECONDS)


def _batches(members: Iterable[tuple[SinkTransaction, StagedRows]]) -> Iterator[pa.RecordBatch]:
    return (batch for _, staged in members for batch in staged.batches())


def _send(producer: kafka.Producer, record: Record) -> None:
    while True:
        try:
            if record.timestamp or record.headers:
                producer.produce(*record[:4], timestamp=record.timestamp, headers=record.headers)
            else:
                producer.produce(*record[:4])  # half the time of a call with names
            return
        except BufferError:  # as much is under way as there may be; deliveries, of which we don't hear, make room
            producer.poll(FULL_SECONDS)


def _commit(producer: kafka.Producer) -> None:
    """Commit; if it is unknown whether that was done, repeat the call."""
    deadline = time.monotonic() + COMMIT_SECONDS
    while True:
        try:
            producer.commit_transaction(_ONE_CALL_SECONDS)
            return
        except kafka.KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def _shown_record(record: Record | None) -> str:
    if record is None:
        return ""
    where = record.topic if record.partition == ANY_PARTITION else f"{record.topic}/{record.partition}"
    at = f", timestamp {record.timestamp} ms" if record.timestamp else ""
    return f", for {where}: key {shown(record.key)}, value {shown(record.value)}{at}"
