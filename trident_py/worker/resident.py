"""`ResidentTask`: a Spark task that stays. It connects to the driver, and answers requests until the driver ends it.

The branches come with the task, as its code. A request has the rows of some transactions, the first field of which is
the txid, and the answer has the rows that the branch makes of them. Each transaction gets its own copy of the user's
objects, as in a job; copies are made ahead while no request is there. A branch whose objects keep nothing needs none.
"""

from __future__ import annotations

import logging
import secrets
import select
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from gc import collect, freeze
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, field, frozen
from pyspark import TaskContext, cloudpickle

from trident_py.worker.counters import CountScope, count_scope, counting_for
from trident_py.worker.failures import TaskFailed
from trident_py.worker.task_watch import TaskWatch
from trident_py.worker.wire import (
    FRAME_BYTES_MAX,
    GREETING_BYTES_MAX,
    BadFrame,
    Frame,
    FrameReader,
    packed,
    proof,
    tuned,
    unpacked,
)

log = logging.getLogger(__name__)

Program: TypeAlias = Callable[[Sequence[pa.RecordBatch]], pa.Table]
"""Runs a branch over rows."""

COPIES_AHEAD = 4
"""How many copies of a branch are made before they are needed."""

ALONE_SECONDS_MAX = 3.0
"""A task ends after this time without a driver that has shown the secret: it is gone, or its host is out of reach.

Together with `CUT_SECONDS`, after which a connection counts as cut, that is less than 10 seconds.
"""

AGAIN_SECONDS = 0.2
"""The pause before a task connects again."""

_RECEIVED_AT_ONCE = 1 << 18


@frozen(kw_only=True)
class ShippedBranch:
    """A branch as it comes with a task.

    Attributes:
        program: a pickled `Program`.
        keeps_nothing: whether one copy may run all batches.
    """

    program: bytes
    keeps_nothing: bool


@define
class _Copies:
    """The copies of the branches in this process."""

    shipped: Mapping[int, ShippedBranch]
    _only: dict[int, Program] = field(factory=dict, init=False)
    _ready: defaultdict[int, deque[Program]] = field(factory=lambda: defaultdict(deque), init=False)
    _used: set[int] = field(factory=set, init=False)

    def only(self, branch: int) -> Program:
        """Return the copy for all batches of a branch that keeps nothing."""
        if branch not in self._only:
            self._only[branch] = self._made(branch)
        return self._only[branch]

    def fresh(self, branch: int) -> Program:
        """Return a copy that has run nothing."""
        self._used.add(branch)
        return self._ready[branch].popleft() if self._ready[branch] else self._made(branch)

    def make_ahead(self, is_wanted: Callable[[], bool]) -> None:
        """Make copies of the branches that were used, until there are enough or a request has come."""
        for branch in self._used:
            while len(self._ready[branch]) < COPIES_AHEAD:
                if is_wanted():
                    return
                self._ready[branch].append(self._made(branch))

    def warm_up(self) -> None:
        """Run each branch without rows, so that what it imports is there when the first request comes."""
        pa.array([""])  # imports pandas, as the first row would
        for branch in self.shipped:
            with suppress(BaseException):  # the first request finds out what it is
                self._made(branch)([])

    def _made(self, branch: int) -> Program:
        program: Program = cloudpickle.loads(self.shipped[branch].program)
        return program


@frozen(kw_only=True)
class ResidentTask:
    """The code of the tasks of one driver, for ``mapInArrow``.

    Attributes:
        address: the driver's host and port.
        secret: of the driver and its tasks; each side shows that it has it.
        branches: by number.
    """

    address: tuple[str, int]
    secret: bytes = field(repr=False)
    branches: Mapping[int, ShippedBranch] = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer requests until the driver says that there will be none, or is gone; yield no rows."""
        for _ in batches:
            pass
        context = TaskContext.get()
        task, copies = context.partitionId() if context else 0, _Copies(self.branches)
        copies.warm_up()
        collect()
        freeze()  # else each collection would look at everything that was imported
        until = time.monotonic() + ALONE_SECONDS_MAX
        while time.monotonic() < (until := self._served(task, copies, until)):
            time.sleep(AGAIN_SECONDS)
        yield from ()

    def _served(self, task: int, copies: _Copies, until: float) -> float:
        """Serve one connection to its end; return until when the driver must be there again.

        ``until`` is that moment if there is no driver at all; it has passed if the driver doesn't need the task.
        """
        is_greeted = False
        try:
            with socket.create_connection(self.address, max(AGAIN_SECONDS, until - time.monotonic())) as peer:
                tuned(peer)
                frames = self._greeted(peer, task)
                is_greeted = True
                peer.settimeout(None)  # the next request may come in an hour
                if not self._answers(peer, frames, copies):
                    return 0.0
        except ConnectionRefusedError:
            return 0.0  # the driver is gone
        except (OSError, BadFrame) as error:
            log.debug("resident task %d connects again: %s", task, error)
        return time.monotonic() + ALONE_SECONDS_MAX if is_greeted else until

    def _answers(self, peer: socket.socket, frames: Iterator[Frame], copies: _Copies) -> bool:
        """Answer requests until the connection ends, and return true; return false if the driver ends the task."""
        sending = threading.Lock()

        def tell(number: int, place: str) -> None:
            with sending:
                if watch.number == number:
                    peer.sendall(Frame({"number": number, "place": place}).encoded())

        watch = TaskWatch(tell)
        with watch.watching():
            for frame in frames:
                if frame.head.get("end"):
                    return False
                if "number" in frame.head:
                    with watch.over(frame.head["number"]):
                        answered = answer(frame, copies).encoded()
                    with sending:
                        peer.sendall(answered)
                    copies.make_ahead(lambda: bool(select.select([peer], [], [], 0)[0]))
        return True

    def _greeted(self, peer: socket.socket, task: int) -> Iterator[Frame]:
        """Return the frames of the driver, after both sides have shown that they know the secret.

        Raises:
            BadFrame: the driver has not.
        """
        mine, reader = secrets.token_hex(16), FrameReader(GREETING_BYTES_MAX)
        frames = received(peer, reader)
        theirs = next(frames, Frame({})).head.get("nonce")
        facts = (theirs, mine, task)
        peer.sendall(Frame({"task": task, "nonce": mine, "proof": proof(self.secret, "task", *facts)}).encoded())
        shown = next(frames, Frame({})).head.get("proof")
        if shown != proof(self.secret, "driver", *facts):
            raise BadFrame("the driver has not shown the secret")
        reader.bytes_max = FRAME_BYTES_MAX
        return frames


def received(peer: socket.socket, reader: FrameReader) -> Iterator[Frame]:
    """Yield the frames of the other side, to the end of the connection."""
    while part := peer.recv(_RECEIVED_AT_ONCE):
        yield from reader.take(part)


def answer(request: Frame, copies: _Copies) -> Frame:
    """Return the answer to a request: the rows and counts, a failure of user code, or that a job must do it."""
    number: dict[str, Any] = {"number": request.head["number"]}
    try:
        made, counts = _made(request, copies)
        head = {**number, "counts": [[txid, node, by_name] for (txid, node), by_name in counts.items()]}
        answered = Frame(head, packed(made))
        if len(answered.body) > FRAME_BYTES_MAX - (1 << 20):
            return Frame({**number, "undone": f"its result has {len(answered.body):,} bytes"})
        return answered
    except TaskFailed as error:
        return Frame({**number, "failure": error.failure.written()})
    except BaseException as error:  # noqa: BLE001 - a job finds out what it is
        return Frame({**number, "undone": repr(error)[:1000]})


def _made(request: Frame, copies: _Copies) -> tuple[pa.Table, Mapping[tuple[int | None, str], Mapping[str, int]]]:
    branch, rows = request.head["branch"], unpacked(request.body)
    with count_scope(CountScope()) as scope:
        if copies.shipped[branch].keeps_nothing:
            return copies.only(branch)(rows.to_batches()), scope.counts
        parts = [_of_one(copies.fresh(branch), rows, txid) for txid in request.head["txids"]]
        return pa.concat_tables(parts), scope.counts


def _of_one(program: Program, rows: pa.Table, txid: int) -> pa.Table:
    counting_for(txid)
    try:
        return program(rows.filter(pc.equal(rows.column(0), txid)).to_batches())
    except TaskFailed as error:
        raise TaskFailed(evolve(error.failure, txid=txid)) from error.__cause__
