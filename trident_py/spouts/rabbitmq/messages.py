"""Messages of a queue as records of a spool, and as rows. Pure."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import pyarrow as pa
from attrs import asdict, frozen
from pyspark.sql.types import StructType

from trident_py.errors import SpoutError
from trident_py.rows.moments import moment
from trident_py.rows.schema import arrow_table
from trident_py.spouts.spool.records import Received, Record

FIELDS = "message_id string, routing_key string, timestamp timestamp, headers map<string,string>, body {}"
_SIZE = struct.Struct("<I")


@frozen(kw_only=True)
class Message:
    """A message without its body.

    Attributes:
        message_id: as its publisher has set it; None: it has none.
        timestamp: seconds since 1970; None: it has none.
        headers: values that are not texts are written as Python writes them.
    """

    message_id: str | None
    routing_key: str
    timestamp: int | None
    headers: Mapping[str, str]

    def received(self, body: bytes) -> Received:
        """Return it as a record, with its id as the key."""
        facts = json.dumps(asdict(self)).encode()
        content = b"".join((_SIZE.pack(len(facts)), facts, body))
        return Received(key=self.message_id, digest=sha256(body).hexdigest()[:32], rows=1, content=content)


@frozen
class MessageRows:
    """Reads records as rows.

    Attributes:
        where: names topology and spout in errors.
        schema: the fields.
        are_texts: whether bodies are texts in UTF-8; else they are bytes.
    """

    where: str
    schema: StructType
    are_texts: bool

    def __call__(self, records: Sequence[Record]) -> Iterator[pa.Table]:
        """Yield the rows of records.

        Raises:
            SpoutError: a body is no text.
        """
        yield arrow_table([self._row(record.received.content) for record in records], self.schema)

    def _row(self, content: bytes) -> tuple[Any, ...]:
        (size,) = _SIZE.unpack_from(content)
        facts, body = json.loads(content[_SIZE.size : _SIZE.size + size]), content[_SIZE.size + size :]
        at = facts["timestamp"]
        when = None if at is None else moment(at * 1_000_000)
        try:
            value = body.decode() if self.are_texts else body
        except UnicodeDecodeError as error:
            raise SpoutError(
                f"{self.where}: the message {facts['message_id']!r} with the routing key {facts['routing_key']!r} has "
                f"a body that is no text in UTF-8: {error}; to fix this: read the queue with value='binary'"
            ) from error
        return facts["message_id"], facts["routing_key"], when, facts["headers"], value
