"""`TridentQuery`: a running topology, in the vocabulary of a ``StreamingQuery``."""

from __future__ import annotations

import atexit
import logging
import time
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from attrs import define, evolve, field

from coordinators.backends.coordination import Coordination
from coordinators.driver.loop import DriverLoop
from coordinators.protocol.messages import IdleWanted, PauseRequested, ResumeRequested
from coordinators.record.wishes import Hold
from coordinators.status.candidate import Candidate, Leader
from coordinators.status.status import TopologyStatus, TransactionStatus
from coordinators.values.errors import located
from coordinators.values.log_fields import logging_about
from trident_py.engine.monitoring.listeners import Listeners
from trident_py.engine.monitoring.progress import TransactionProgress
from trident_py.engine.ports.requests import RequestAnswer, Requests
from trident_py.errors import FencedError, TridentError

log = logging.getLogger(__name__)

EXIT_SECONDS = 10.0
"""For all topologies to end that still run at the end of the program; the process ends them by ending itself."""


@define(eq=False, repr=False)
class TridentQuery:
    """A running topology; made by ``TridentTopology.start``.

    As a context manager it stops at the end of the block: after what is under way has committed, or at once if the
    block raised.

    Attributes:
        name: the topology's.
        coordination: where its record is, and who leads it is decided.
        page: the URL of its page, with the token that lets you in; empty: `TridentConfig.serve` names no place for one.
    """

    name: str
    _loop: DriverLoop
    _listeners: Listeners
    _candidate: Candidate
    _requests: Requests
    coordination: Coordination = field(kw_only=True)
    _place: str = field(
        default="", kw_only=True
    )  # where its record is: two topologies of one name elsewhere have nothing to do with each other

    page: str = field(default="", init=False)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def process_all_available(self, timeout: float | None = None) -> None:
        """Return when everything that the spouts have now is committed.

        More exactly: when, in a check begun after the call, no spout is ready for the next transaction, nothing is
        active, and every success was delivered. With a spout that is always ready, that is never.

        Args:
            timeout: seconds to wait; None: as long as it takes.

        Raises:
            TridentError: the topology has failed (its own error, with the cause), was stopped, or is paused.
            TimeoutError: ``timeout`` has passed; the topology goes on.
        """
        answer: SimpleQueue[BaseException | None] = SimpleQueue()
        busy = TimeoutError(f"topology {self.name!r} was still busy after {timeout} s")
        if not self._loop.inbox.post(IdleWanted(answer.put)):
            if not self._loop.ended.wait(timeout):
                raise busy
            raise self._loop.error or TridentError(f"topology {self.name!r} was stopped", topology=self.name)
        try:
            error = answer.get(timeout=timeout)
        except Empty:
            busy.add_note(str(self.status))
            raise busy from None
        if error is not None:
            raise error

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the topology ends; True if it has, False if ``timeout`` seconds passed first.

        Raises:
            TridentError: it ended by an error, namely this one.
        """
        ended = self._loop.ended.wait(timeout)
        if ended and self._loop.error is not None:
            raise self._loop.error
        return ended

    def stop(self, drain: bool = True, force: bool = False) -> None:
        """End the topology and return when it has ended; its position is durable, so the next start goes on there.

        User code that doesn't return is waited for some seconds, less than ``session_timeout``. Then leadership is
        given up, the thread is named in the log, and what comes of it is refused. Only a state of yours, or a
        committer spout, can't refuse anything: while one commits, leadership is kept.

        Args:
            drain: first commit what is being processed; otherwise give it up, it is processed again next time.
            force: don't drain, and give up leadership even while such a state commits. If it writes on when another
                process leads, its transaction may count twice.

        Raises:
            TridentError: leadership is kept, for the reason given; the topology ends when that commit has returned.
        """
        with located(topology=self.name):
            self._loop.stop(drain, force)

    # --- control ------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Start no new batches and no replays, from when this returns; what is being processed goes on and commits."""
        driver = self._loop.driver
        self._loop.inbox.post(PauseRequested())
        if driver is not None and not driver.stopping:
            # Whoever waits for idleness is told of the pause, or of an end, in the turn that begins it.
            answer: SimpleQueue[BaseException | None] = SimpleQueue()
            if self._loop.inbox.post(IdleWanted(answer.put)):
                answer.get()

    def resume(self) -> bool:
        """Go on after a `pause`; returns whether the topology is held back all the same.

        It is while what an operator wished stands: ``trident pause`` or ``trident drain``. ``trident resume`` lifts
        that, this method doesn't.
        """
        self._loop.inbox.post(ResumeRequested())
        driver = self._loop.driver
        hold = Hold.NOTHING if driver is None else driver.machine.standing.hold
        if hold is not Hold.NOTHING:
            with logging_about(topology=self.name, epoch=self.status.epoch):
                log.warning(
                    "topology %s: still %s, as an operator wishes: `trident resume %s` lifts it",
                    *(self.name, hold, self.name),
                )
        return hold is not Hold.NOTHING

    # --- asking -------------------------------------------------------------------------------------------------------

    def execute(self, function: str, args: str, timeout: float | None = None) -> list[list[Any]]:
        """Return the answer of ``function``, which ``TridentTopology.new_drpc_stream`` declared.

        A list of rows, each a list.

        From any thread, while batches run. All queries of one request see all states at the same committed
        transaction: they run on the commit thread, after one commit and before the next, which waits for them; where a
        commit has failed half-way, they wait for its replay. Everything before the first query and behind the last one
        runs on the calling thread. A request is never replayed. Don't call it from a state or query: it waits for them.

        Args:
            function: its name.
            args: the request's field ``args``.
            timeout: seconds to wait for the states; None: as long as it takes. A query that is running goes on, and
                commits wait for it: beyond ``message_timeout``, ``status`` and a warning say for which.

        Raises:
            RequestError: there is no such function, or its code raised; the topology goes on.
            TimeoutError: ``timeout`` has passed.
            TridentError: the topology stands by, or has stopped.
        """
        try:
            return self.answer(function, args, timeout).rows
        except TridentError:
            if not self._loop.inbox.is_open:  # whoever is told so may start the topology again at once
                self._loop.ended.wait(timeout)
            raise

    def answer(self, function: str, args: str, timeout: float | None = None) -> RequestAnswer:
        """Return what `execute` does, with the epoch and the committed transaction that it is about."""
        if not self.is_active:
            raise TridentError(f"topology {self.name!r} was stopped", topology=self.name) from self._loop.error
        with located(topology=self.name):
            return self._requests.execute(function, args, timeout)

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether the topology runs here, or stands by to."""
        return not self._loop.ended.is_set()

    @property
    def is_leading(self) -> bool:
        """Whether no other process can lead the topology at this moment, by our own clock."""
        driver = self._loop.driver
        if driver is None or not self.is_active:
            return False
        try:
            driver.store.ensure_leading()
        except TridentError:
            return False
        return True

    @property
    def rival(self) -> Leader | None:
        """Another process that leads, as last seen, while this one stands by; None: it doesn't."""
        return self._candidate.rival if self.is_active and self._loop.driver is None else None

    @property
    def status(self) -> TopologyStatus:
        """Where it is, as its driver has published it last; a mapping of the same names, too, as it was before.

        While it stands by, ``epoch`` and ``current_txid`` are None; ``leader`` says whom it waits for.
        """
        status, rival = self._loop.status, self._candidate.rival
        return evolve(
            status,
            is_leading=self.is_leading,
            leader=str(rival) if rival and status.epoch is None else None,
            events_dropped=self._listeners.dropped,
            history_error=self._listeners.history_error(),
            waits_for=self._listeners.standstill.waits_for,
        )

    @property
    def last_progress(self) -> dict[str, Any] | None:
        """The last transaction that this run committed; None before the first."""
        recent = self._listeners.progress.recent()
        return recent[-1] if recent else None

    @property
    def recent_progress(self) -> list[TransactionProgress]:
        """The last hundred transactions that this run committed, oldest first."""
        return self._listeners.progress.recent()

    def transactions(self) -> list[TransactionStatus]:
        """Return the transactions in flight, lowest first."""
        return list(self._loop.status.transactions)

    def exception(self) -> BaseException | None:
        """Return what ended the topology, or None."""
        return self._loop.error

    def __repr__(self) -> str:
        """Say in one line what it does, how far it is, and since when it leads."""
        status = self.status
        said = [status.message]
        if status.last_committed is not None:
            said.append(f"{counted(status.last_committed, 'transaction')} committed")
        if self.is_active and status.leads_since is not None:
            said.append(f"leads since {clock(status.leads_since)}")
        return f"<TridentQuery {self.name}: {', '.join(said)}>"

    # --- context manager ----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(drain=error is None)


def counted(number: int, what: str) -> str:
    """Show how many there are of something, such as ``1 row`` or ``2,000 rows``, to people."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def clock(moment: float) -> str:
    """Show a time of day to people."""
    return time.strftime("%H:%M:%S", time.localtime(moment))


_started: list[TridentQuery] = []


def active() -> dict[str, TridentQuery]:
    """Return the topologies that run or stand by in this process, by name.

    Of two with one name, the one started last.
    """
    return {query.name: query for query in list(_started) if query.is_active}


def ensure_not_leading_here(name: str, place: str) -> None:
    """Return if no topology of this process leads under ``name``, with its record at ``place``.

    Raises:
        FencedError: one does; says how to get hold of it.
    """
    for query in _started:
        if query.is_active and (query.name, query._place) == (name, place) and query._loop.driver is not None:  # noqa: SLF001
            since = query.status.leads_since
            raise FencedError(
                f"topology {name!r} runs in this process already{f', since {clock(since)}' if since else ''}; "
                f"stop() it first: trident_py.active()[{name!r}].stop()",
                topology=name,
            )


def started(query: TridentQuery) -> TridentQuery:
    """Count ``query`` among the active ones."""
    _started[:] = [*(each for each in _started if each.is_active), query]
    return query


@atexit.register
def _give_up_all() -> None:
    """Have what was not stopped give up leadership in time; a commit without fence keeps it until the process ends."""
    until = time.monotonic() + EXIT_SECONDS
    for query in _started:
        query._loop.ask_to_stop(drain=False)  # noqa: SLF001 - it is a handle of it
    for query in _started:
        query._loop.ended.wait(max(0.0, until - time.monotonic()))  # noqa: SLF001
