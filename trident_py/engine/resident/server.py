"""`ResidentServer`: the connections of resident tasks, on one thread that never waits for one of them."""

from __future__ import annotations

import hmac
import logging
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from attrs import define, field, frozen

from coordinators.values.error_text import quoted
from trident_py.worker.wire import GREETING_BYTES_MAX, BadFrame, Frame, FrameReader, proof, tuned

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
GREETING_SECONDS_MAX = 5.0
"""A peer that hasn't shown the secret after this time is disconnected."""

_RECEIVED_AT_ONCE = 1 << 18


@frozen(kw_only=True)
class Handlers:
    """Called on the server's thread; none of them waits.

    Attributes:
        joined: a task has connected: the number of the connection, and that of the task.
        received: a frame has come over a connection.
        left: a connection has ended.
        ticked: some time has passed.
    """

    joined: Callable[[int, int], object]
    received: Callable[[int, Frame], object]
    left: Callable[[int], object]
    ticked: Callable[[], object]


@define(kw_only=True, eq=False)
class _Peer:
    number: int
    socket: socket.socket
    nonce: str
    since: float
    reader: FrameReader = field(factory=lambda: FrameReader(GREETING_BYTES_MAX))
    task: int | None = None  # None: it has not shown the secret
    unsent: bytearray = field(factory=bytearray)
    is_closing: bool = False  # after the unsent bytes
    lock: threading.Lock = field(factory=threading.Lock)


# large: the only place that knows the sockets of resident tasks
@define(kw_only=True, eq=False)
class ResidentServer:
    """Listens, and passes frames on. `send` and `close` may be called on any thread.

    Attributes:
        host: to listen at.
        secret: of this process and its tasks.
        name: of the thread.
    """

    host: str
    secret: bytes = field(repr=False)
    name: str
    handlers: Handlers
    _listening: socket.socket = field(init=False)
    _selector: selectors.BaseSelector = field(factory=selectors.DefaultSelector, init=False)
    _waking: socket.socket = field(init=False)
    _woken: socket.socket = field(init=False)
    _peers: dict[int, _Peer] = field(factory=dict, init=False)
    _last: int = field(default=0, init=False)
    _is_open: bool = field(default=True, init=False)
    _thread: threading.Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._listening = socket.create_server((self.host, 0), family=_family(self.host), backlog=128)
        self._waking, self._woken = socket.socketpair()
        for each in (self._listening, self._waking, self._woken):
            each.setblocking(False)
        self._selector.register(self._listening, selectors.EVENT_READ, None)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port at which it listens."""
        port: int = self._listening.getsockname()[1]
        return port

    def send(self, link: int, frame: Frame) -> None:
        """Send a frame over connection ``link``; it is lost if that has ended."""
        peer = self._peers.get(link)
        if peer is not None and self._put(peer, frame.encoded()):
            self._wake()

    def end(self, link: int) -> None:
        """End the task of connection ``link``, and close the connection."""
        peer = self._peers.get(link)
        if peer is not None:
            self._put(peer, Frame({"end": True}).encoded())
            peer.is_closing = True
            self._wake()

    def drop(self, link: int) -> None:
        """Close connection ``link`` at once."""
        peer = self._peers.get(link)
        if peer is not None:
            with suppress(OSError):
                peer.socket.shutdown(socket.SHUT_RDWR)  # its thread sees the end, and closes it

    def end_all(self) -> None:
        """End the tasks of all connections."""
        for link in list(self._peers):
            self.end(link)

    def close(self) -> None:
        """End all tasks, stop listening, and wait for the thread."""
        self.end_all()
        self._is_open = False
        self._wake()
        self._thread.join()

    def _put(self, peer: _Peer, frame: bytes) -> bool:
        """Send as many bytes as the network accepts now; return true if some are left for the thread."""
        with peer.lock:
            sent = 0
            if not peer.unsent:
                with suppress(OSError):
                    sent = peer.socket.send(frame)
            peer.unsent += frame[sent:]
            return bool(peer.unsent)

    def _wake(self) -> None:
        with suppress(OSError):  # it is full, so it wakes all the same; or closed
            self._waking.send(b"x")

    # --- on the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            due = time.monotonic()
            while self._is_open:
                self._turn(max(0.0, due - time.monotonic()))
                if time.monotonic() >= due:
                    due = time.monotonic() + TICK_SECONDS
                    self._drop_strangers()
                    self.handlers.ticked()
        except Exception as error:
            log.error("%s: the connections of resident tasks have ended", self.name, exc_info=quoted(error))
        finally:
            for peer in list(self._peers.values()):
                self._forget(peer)
            for each in (self._listening, self._waking, self._woken):
                each.close()
            self._selector.close()

    def _turn(self, seconds: float) -> None:
        for key, events in self._selector.select(seconds):
            if key.fileobj is self._listening:
                self._accept()
            elif key.fileobj is self._woken:
                self._woken.recv(_RECEIVED_AT_ONCE)
            else:
                self._serve(key.data, events)
        for peer in list(self._peers.values()):
            if peer.is_closing and not peer.unsent:
                self._forget(peer)
            elif peer.unsent:
                self._selector.modify(peer.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, peer)

    def _accept(self) -> None:
        with suppress(OSError):  # it is gone again
            accepted, _ = self._listening.accept()
            accepted.setblocking(False)
            tuned(accepted)
            self._last += 1
            peer = _Peer(number=self._last, socket=accepted, nonce=secrets.token_hex(16), since=time.monotonic())
            self._peers[peer.number] = peer
            self._selector.register(accepted, selectors.EVENT_READ, peer)
            self._put(peer, Frame({"nonce": peer.nonce}).encoded())

    def _serve(self, peer: _Peer, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(peer)
            if events & selectors.EVENT_READ:
                self._read(peer)
        except BlockingIOError:
            pass
        except (OSError, BadFrame) as error:
            log.debug("%s: connection %d ends: %s", self.name, peer.number, error)
            self._forget(peer)

    def _flush(self, peer: _Peer) -> None:
        with peer.lock:
            del peer.unsent[: peer.socket.send(peer.unsent)]
            if not peer.unsent:
                self._selector.modify(peer.socket, selectors.EVENT_READ, peer)

    def _read(self, peer: _Peer) -> None:
        received = peer.socket.recv(_RECEIVED_AT_ONCE)
        if not received:
            self._forget(peer)
            return
        for frame in peer.reader.take(received):
            if peer.task is None:
                self._greet(peer, frame.head)
            else:
                self.handlers.received(peer.number, frame)

    def _greet(self, peer: _Peer, head: Any) -> None:
        facts = (peer.nonce, head.get("nonce"), head.get("task"))
        shown = str(head.get("proof"))
        if not hmac.compare_digest(shown.encode(), proof(self.secret, "task", *facts).encode()):
            raise BadFrame("the secret was not shown")
        if not isinstance(head.get("task"), int):
            raise BadFrame("a task has a number")
        peer.task, peer.reader = head["task"], FrameReader()
        self._put(peer, Frame({"proof": proof(self.secret, "driver", *facts)}).encoded())
        self.handlers.joined(peer.number, head["task"])

    def _drop_strangers(self) -> None:
        before = time.monotonic() - GREETING_SECONDS_MAX
        for peer in [each for each in self._peers.values() if each.task is None and each.since < before]:
            self._forget(peer)

    def _forget(self, peer: _Peer) -> None:
        if self._peers.pop(peer.number, None) is None:
            return
        with suppress(KeyError, ValueError):
            self._selector.unregister(peer.socket)
        with peer.lock:
            peer.socket.close()
        if peer.task is not None:
            self.handlers.left(peer.number)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
