"""Frames between the driver and resident tasks: a head of JSON and a body of bytes, both of limited length.

Each side shows first that it knows the secret of the driver. Nothing that comes from a connection is unpickled.
"""

from __future__ import annotations

import hmac
import json
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen

FRAME_BYTES_MAX = 64 << 20
"""The length of a frame; a longer answer is not sent, and its batch takes a job."""

GREETING_BYTES_MAX = 4 << 10
"""The length of a frame from a peer that has not shown the secret."""

CUT_SECONDS = 6
"""After this time without a sign of the other machine, a connection counts as cut; a busy process is no such case."""

_LENGTHS = struct.Struct("!II")


class BadFrame(Exception):
    """A peer has sent something that is no frame, or one that is too long."""


@frozen
class Frame:
    """One message: a head, and the rows that belong to it, if any."""

    head: Mapping[str, Any]
    body: bytes = b""

    def encoded(self) -> bytes:
        """Return it as bytes."""
        head = json.dumps(self.head).encode()
        return b"".join([_LENGTHS.pack(len(head), len(self.body)), head, self.body])


@define
class FrameReader:
    """Collects received bytes into frames of at most ``bytes_max``."""

    bytes_max: int = FRAME_BYTES_MAX
    _received: bytearray = field(factory=bytearray, init=False)

    def take(self, received: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete with these bytes.

        Raises:
            BadFrame: these are no frames, or one is too long.
        """
        self._received += received
        while len(self._received) >= _LENGTHS.size:
            head, body = _LENGTHS.unpack_from(self._received)
            begin, end = _LENGTHS.size + head, _LENGTHS.size + head + body
            if end > self.bytes_max:
                raise BadFrame(f"a frame of {end:,} bytes")
            if len(self._received) < end:
                return
            with memoryview(self._received) as whole:  # so that a large body is copied once
                frame = Frame(_head(bytes(whole[_LENGTHS.size : begin])), bytes(whole[begin:end]))
            del self._received[:end]
            yield frame


def _head(text: bytes) -> dict[str, Any]:
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"a head that is no JSON: {error}") from error
    if not isinstance(head, dict):
        raise BadFrame("a head that is no object")
    return head


def proof(secret: bytes, side: str, *facts: object) -> str:
    """Return the text that only a peer with ``secret`` can make; ``facts`` contain random text of the other side."""
    return hmac.new(secret, "\n".join([side, *map(str, facts)]).encode(), "sha256").hexdigest()


def packed(table: pa.Table) -> bytes:
    """Return rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(body: bytes) -> pa.Table:
    """Return the rows of `packed`.

    Raises:
        pyarrow.ArrowInvalid: ``body`` has another form.
    """
    with pa.ipc.open_stream(body) as reader:
        return reader.read_all()


def tuned(peer: socket.socket) -> None:
    """Send small frames at once, and end the connection if the network is cut."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEPT_ALIVE.items():
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


_KEPT_ALIVE = {
    "TCP_KEEPIDLE": CUT_SECONDS // 3,
    "TCP_KEEPINTVL": CUT_SECONDS // 3,
    "TCP_KEEPCNT": 2,
    "TCP_USER_TIMEOUT": CUT_SECONDS * 1000 - 500,  # it is looked at when a probe is due, so not after the last one
}
