"""A client of NATS JetStream: the state of a stream, and ranges of its messages. It leaves nothing on the server.

It uses nats-py for the connection, and speaks JetStream's JSON itself, because nats-py rounds times.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from attrs import define, field, frozen
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError
from nats.errors import Error as NATSError

from coordinators.values.secret import Secret
from trident_py.errors import SpoutError, StoreBusyException, TopologyError
from trident_py.rows.schema import shown
from trident_py.spouts.nats.positions import StreamLook, micros_of

ANSWER_SECONDS = 5.0
"""The timeout for an answer."""

READ_SECONDS = 60.0
"""The timeout for the messages of one reading."""

WAIT_SECONDS = 2.0
"""The time that a replica has to catch up with the messages of a reading."""

PAUSES_SECONDS = (0.05, 0.2, 0.5)
"""The pauses after which a new consumer is asked again. In a cluster, other servers may not know it at once."""

CONNECT_SECONDS = 5

IDLE_SECONDS = 60.0
"""The time without a call after which the connection is made anew: meanwhile it answers no pings of the server."""

CONSUMER_SECONDS = 30
"""The time after which the server removes a consumer of ours, if we couldn't."""

READ_BYTES = 8 << 20
"""The most that the server sends for one reading, if its messages may not be larger than half of that."""

T = TypeVar("T")

_OURS = {"self", "servers", "allow_reconnect", "max_reconnect_attempts", "reconnect_time_wait", "connect_timeout"}
_NO_STREAM, _NO_MESSAGE = 10059, 10037
_SERVER_ERROR, _LATER = 500, {408, 429}
_END = {"404", "408"}
"""The statuses that end a reading because there are no more messages."""


@frozen
class Server:
    """How to connect.

    Attributes:
        urls: the addresses of the servers of a cluster.
        options: further arguments of ``nats.connect``; ``tls`` is a function that returns the SSL context.
    """

    urls: tuple[Secret, ...]
    options: Mapping[str, Any] = field(repr=False)

    def __attrs_post_init__(self) -> None:
        known = {name for name in inspect.signature(Connection.connect).parameters if not name.endswith("_cb")} - _OURS
        if unknown := sorted(self.options.keys() - known):
            raise TopologyError(f"options are some of {', '.join(sorted(known))}, not {', '.join(unknown)}")
        tls = self.options.get("tls")
        if tls is not None and not callable(tls):
            raise TopologyError(
                f"the option tls is a function that returns an SSL context, because a context can't be sent to tasks, "
                f"not {shown(tls)}"
            )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``nats.connect``."""
        made = {"tls": self.options["tls"]()} if self.options.get("tls") else {}
        return {
            "name": "trident",
            **self.options,
            **made,
            "servers": [url.reveal() for url in self.urls],
            "allow_reconnect": False,  # an error comes at once, and the next call connects again
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0,
            "connect_timeout": CONNECT_SECONDS,
        }


@frozen
class Message:
    """A message of a stream; ``micros`` is its time, and ``pending`` how many messages were left after it."""

    subject: str
    sequence: int
    micros: int
    headers: Mapping[str, str]
    data: bytes
    pending: int

    @classmethod
    def of(cls, given: Msg) -> Message:
        """Return the message that a consumer has sent; the subject for its acknowledgement has the numbers."""
        tokens = given.reply.split(".")
        first = 5 if len(tokens) == 9 else 7  # after `$JS.ACK`, newer servers may send a domain and an account
        sequence, _, nanos, pending = map(int, tokens[first : first + 4])
        return cls(given.subject, sequence, nanos // 1000, given.headers or {}, given.data, pending)


class RefusedError(Exception):
    """An error that JetStream answers: its HTTP-like code, its own number, and its text."""

    def __init__(self, code: int, number: int, text: str) -> None:
        super().__init__(f"{text} ({number})")
        self.code, self.number = code, number


@define
class Client:
    """A connection, for use by one thread. Its event loop only runs during a call.

    Every method raises StoreBusyException if the servers don't answer, and SpoutError if they refuse.

    Attributes:
        where: the topology and the spout, for errors.
    """

    where: str
    server: Server
    _runner: asyncio.Runner = field(factory=asyncio.Runner, init=False)
    _connection: Connection | None = field(default=None, init=False)
    _closed: asyncio.Event = field(factory=asyncio.Event, init=False)
    _used_at: float = field(default=0.0, init=False)
    _cause: Exception | None = field(default=None, init=False)

    def look(self, stream: str, *, with_deleted: bool = False) -> StreamLook | None:
        """Return the state of a stream; None: there is no such stream.

        Args:
            stream: its name.
            with_deleted: also ask for the numbers of deleted messages, which may be many.
        """
        request = {"deleted_details": True} if with_deleted else {}
        found = self._run(lambda connection: _ask(connection, f"STREAM.INFO.{stream}", request), _NO_STREAM)
        return StreamLook.of(found) if found else None

    def time_of(self, stream: str, sequence: int) -> int:
        """Return the time of a message, in microseconds since 1970; 0: there is no such message."""
        found = self._message(stream, {"seq": sequence})
        return micros_of(found["time"]) if found else 0

    def has_any(self, stream: str, subjects: Sequence[str], begin: int) -> bool:
        """Return whether the stream has a message with one of the subjects, from a sequence number on."""
        return any(self._message(stream, {"seq": begin, "next_by_subj": each}) for each in subjects)

    def numbers(self, stream: str, subjects: Sequence[str], begin: int, most: int) -> list[Message]:
        """Return the messages that there are now, from a sequence number on, without their data.

        If a replica of the stream answers that has not caught up, the last ones are missing.
        """
        consumer = {**_consumer(subjects, begin), "headers_only": True}
        return self._read(stream, consumer, {"batch": most, "no_wait": True})

    def read(self, stream: str, subjects: Sequence[str], begin: int, most: int) -> list[Message]:
        """Return the messages from a sequence number on, in order: ``most`` of them, or fewer if they are large.

        A consumer in the server's memory reads them, which is removed afterwards.

        Args:
            stream: its name.
            subjects: the wanted subjects, with wildcards; none: all.
            begin: the first number.
            most: the number of messages, which should all be there.

        Returns:
            An empty list if there are no more messages, or no such stream.
        """
        pull = {"batch": most, "expires": int(WAIT_SECONDS * 10**9)}
        return self._read(stream, _consumer(subjects, begin), pull)

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()
        self._runner.close()

    def _message(self, stream: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
        found = self._run(lambda connection: _ask(connection, f"STREAM.MSG.GET.{stream}", request), _NO_MESSAGE)
        message: dict[str, Any] | None = found and found["message"]
        return message

    def _read(self, stream: str, consumer: Mapping[str, Any], pull: Mapping[str, Any]) -> list[Message]:
        return self._run(lambda connection: self._messages(connection, stream, consumer, pull), _NO_STREAM) or []

    async def _messages(
        self, connection: Connection, stream: str, consumer: Mapping[str, Any], pull: Mapping[str, Any]
    ) -> list[Message]:
        request = {"stream_name": stream, "config": consumer}
        made = await _ask(connection, f"CONSUMER.CREATE.{stream}", request)
        if "filter_subjects" in consumer and "filter_subjects" not in made["config"]:
            raise SpoutError(
                f"{self.where}: the server can't read several subjects; to fix this: use NATS 2.10 or later, or one "
                f"subject"
            )
        for pause in PAUSES_SECONDS:
            found, status = await _pull(connection, f"{stream}.{made['name']}", pull)
            if found or status in _END:
                break
            await asyncio.sleep(pause)
        else:
            raise StoreBusyException(f"{self.where}: the server returns no messages now: status {status}")
        with suppress(RefusedError):  # the server may have removed it already
            await _ask(connection, f"CONSUMER.DELETE.{stream}.{made['name']}", {})
        return found

    # --- the connection -----------------------------------------------------------------------------------------------

    def _run(self, call: Callable[[Connection], Awaitable[T]], absent: int) -> T | None:
        """Return the result of a call; None: the server refuses it with the number ``absent``."""
        try:
            return self._runner.run(self._connected(call))
        except RefusedError as error:
            if error.number == absent:
                return None
            if error.code >= _SERVER_ERROR or error.code in _LATER:
                raise StoreBusyException(f"{self.where}: the server can't answer now: {error}") from error
            raise SpoutError(f"{self.where}: the server refuses: {error}") from error
        except (NATSError, OSError) as error:
            self._disconnect()
            text = str(error) or type(error).__name__
            cause = f" ({self._cause})" if self._cause and str(self._cause) != text else ""
            raise StoreBusyException(f"{self.where}: the server doesn't answer: {text}{cause}") from error
        finally:
            self._used_at = time.monotonic()

    async def _connected(self, call: Callable[[Connection], Awaitable[T]]) -> T:
        self._cause = None
        if self._connection is not None and time.monotonic() - self._used_at > IDLE_SECONDS:
            await self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection, self._closed = Connection(), asyncio.Event()
            arguments = self.server.arguments
            await self._connection.connect(**arguments, error_cb=self._note_error, closed_cb=self._note_close)
        return await self._unless_closed(call(self._connection))

    async def _unless_closed(self, answer: Awaitable[T]) -> T:
        """Return an answer. nats-py waits for it until its timeout, even if the connection is lost meanwhile."""
        answered, closed = asyncio.ensure_future(answer), asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({answered, closed}, return_when=asyncio.FIRST_COMPLETED)
            if not answered.done():
                raise ConnectionClosedError
            return answered.result()
        finally:
            answered.cancel()
            closed.cancel()

    async def _note_error(self, error: Exception) -> None:
        self._cause = error

    async def _note_close(self) -> None:
        self._closed.set()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(NATSError, OSError):
                self._runner.run(connection.close())


def _consumer(subjects: Sequence[str], begin: int) -> dict[str, Any]:
    return {
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": begin,
        "ack_policy": "none",
        "replay_policy": "instant",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": CONSUMER_SECONDS * 10**9,
        **filter_of(subjects),
    }


def filter_of(subjects: Sequence[str]) -> dict[str, Any]:
    """Return the part of a consumer's configuration that names the wanted subjects."""
    match subjects:
        case []:
            return {}
        case [subject]:
            return {"filter_subject": subject}  # servers before 2.10 know only this
    return {"filter_subjects": list(subjects)}


async def _ask(connection: Connection, subject: str, request: Mapping[str, Any]) -> dict[str, Any]:
    answer = await connection.request(f"$JS.API.{subject}", json.dumps(request).encode(), timeout=ANSWER_SECONDS)
    found: dict[str, Any] = json.loads(answer.data)
    if error := found.get("error"):
        raise RefusedError(error["code"], error.get("err_code", 0), error.get("description", ""))
    return found


async def _pull(connection: Connection, consumer: str, pull: Mapping[str, Any]) -> tuple[list[Message], str]:
    """Return the messages of a consumer, and the status with which the server has ended the pull early, if it has."""
    found: list[Message] = []
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def receive(message: Msg) -> None:
        if message.reply:
            found.append(Message.of(message))
        if not done.done() and (len(found) == pull["batch"] or not message.reply):
            done.set_result("" if message.reply else (message.headers or {}).get("Status", ""))

    size = max(READ_BYTES, 2 * connection.max_payload)
    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox, cb=receive, pending_bytes_limit=2 * size)
    request = json.dumps({**pull, "max_bytes": size}).encode()
    await connection.publish(f"$JS.API.CONSUMER.MSG.NEXT.{consumer}", request, reply=inbox)
    try:
        return found, await asyncio.wait_for(done, READ_SECONDS)
    finally:
        with suppress(NATSError):
            await subscription.unsubscribe()
