"""`TridentQuery`: a running topology, in the vocabulary of a ``StreamingQuery``."""

from __future__ import annotations

import atexit
import logging
import time
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from attrs import define, evolve, field

from coordinators.backends.coordination import Coordination
from coordinators.driver.loop import DriverLoop
from coordinators.protocol.messages import IdleWanted, PauseRequested, ResumeRequested
from coordinators.record.parking import Parked
from coordinators.record.wishes import Action, Hold, Outcome, Wish
from coordinators.status.candidate import Candidate, Leader
from coordinators.status.status import TopologyStatus, TransactionStatus
from coordinators.values.error_text import counted
from coordinators.values.errors import located
from coordinators.values.log_fields import logging_about
from trident_py.engine.monitoring.listeners import Listeners, TransactionProgress
from trident_py.engine.ports.requests import RequestAnswer, Requests
from trident_py.errors import FencedError, TridentError
from trident_py.wishing import ANSWER_SECONDS, SEARCH_SECONDS, carried_out

log = logging.getLogger(__name__)

EXIT_SECONDS = 10.0
"""Seconds for all running topologies to end when the program ends; after that, the process ends without waiting for
them."""


# large: one short method for each thing that a user may ask of a running topology
@define(eq=False, repr=False)
class TridentQuery:
    """A running topology; made by ``TridentTopology.start``.

    As a context manager, it stops the topology at the end of the block. It first commits the batches in flight; if
    the block raised, it stops at once.

    Attributes:
        name: the name of the topology.
        coordination: stores the record and elects the leader.
        page: the URL of its page, including the access token; empty if `TridentConfig.serve` is not set.
    """

    name: str
    _loop: DriverLoop
    _listeners: Listeners
    _candidate: Candidate
    _requests: Requests
    coordination: Coordination = field(kw_only=True)
    _place: str = field(
        default="", kw_only=True
    )  # the place of its record: topologies of one name with different places are independent

    page: str = field(default="", init=False)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def process_all_available(self, timeout: float | None = None) -> None:
        """Return when everything that the spouts have now is committed.

        More exactly, it returns when a check begun after this call finds three things: no spout is ready for the next
        transaction, nothing is active, and every success was delivered. If a spout is always ready, this never happens.

        Args:
            timeout: seconds to wait; None: without limit.

        Raises:
            TridentError: the topology has failed (its own error, with the cause), was stopped, or is paused.
            TimeoutError: ``timeout`` has passed; the topology continues.
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
        """Wait until the topology ends. Return True if it has ended, False if ``timeout`` seconds passed first.

        Raises:
            TridentError: the error with which it ended.
        """
        ended = self._loop.ended.wait(timeout)
        if ended and self._loop.error is not None:
            raise self._loop.error
        return ended

    def stop(self, drain: bool = True, force: bool = False) -> None:
        """End the topology, and return when it has ended. Its position is durable: the next start continues there.

        If user code doesn't return, this waits for some seconds, less than ``session_timeout``. Then leadership is
        released, the log names the thread, and later results of that code are refused. Only a user's state or a
        committer spout can't refuse anything: leadership is kept while one commits.

        Args:
            drain: first commit the batches in flight; if False, abort them: the next start processes them again.
            force: don't drain, and release leadership even while such a state commits. If it still writes when another
                process leads, its transaction may count twice.

        Raises:
            TridentError: leadership is kept, for the reason given; the topology ends when that commit has returned.
        """
        with located(topology=self.name):
            self._loop.stop(drain, force)

    # --- control ------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Start no new batches or replays once this has returned. Batches in flight continue and commit."""
        driver = self._loop.driver
        self._loop.inbox.post(PauseRequested())
        if driver is not None and not driver.stopping:
            # Each waiter for idleness is notified of the pause, or of the end, in the turn that begins it.
            answer: SimpleQueue[BaseException | None] = SimpleQueue()
            if self._loop.inbox.post(IdleWanted(answer.put)):
                answer.get()

    def resume(self) -> bool:
        """Continue after a `pause`; return whether an operator still holds the topology.

        ``trident pause`` and ``trident drain`` hold it until ``trident resume``; this method doesn't lift that hold.
        """
        self._loop.inbox.post(ResumeRequested())
        driver = self._loop.driver
        hold = Hold.NOTHING if driver is None else driver.machine.standing.hold
        if hold is not Hold.NOTHING:
            with logging_about(topology=self.name, epoch=self.status.epoch):
                log.warning(
                    "topology %s: still %s by an operator's command; to resume: `trident resume %s`",
                    *(self.name, hold, self.name),
                )
        return hold is not Hold.NOTHING

    # --- mending ------------------------------------------------------------------------------------------------------

    def parked(self) -> tuple[Parked, ...]:
        """Return the transactions that are left out until they are released, lowest first."""
        return self._loop.status.parked

    def park(self, txid: int, reason: str = "", *, timeout: float = ANSWER_SECONDS) -> Outcome:
        """Leave ``txid`` out, which was begun and is not committed; return once that is decided.

        It is decided when all transactions before ``txid`` are committed. From then on its rows count nowhere, until
        they are released.

        Raises:
            TridentError: it can't be parked; the message says why.
            TimeoutError: it was not decided within ``timeout`` seconds; it still may be.
        """
        return self._wished(Action.PARK, (txid,), timeout, reason=reason)

    def release(self, *txids: int, late: bool = False, timeout: float = ANSWER_SECONDS) -> Outcome:
        """Process these parked transactions, or all of them without ids: each as a new transaction.

        Args:
            txids: the transactions.
            late: release them even if rows are late for a window by event time, and nothing reads its late rows.
            timeout: seconds to wait.

        Raises:
            TridentError, TimeoutError: as for `park`.
        """
        return self._wished(Action.RELEASE, txids, timeout, late=late)

    def skip(self, txid: int, reason: str = "", *, timeout: float = ANSWER_SECONDS) -> Outcome:
        """Take the parked transaction ``txid`` off the list, with all its parts: the rows never count.

        Raises:
            TridentError, TimeoutError: as for `park`.
        """
        return self._wished(Action.SKIP, (txid,), timeout, reason=reason)

    def bisect(self, txid: int, *, late: bool = False, timeout: float = SEARCH_SECONDS) -> Outcome:
        """Find the rows of the parked transaction ``txid`` that fail; return once they are found.

        `Outcome.found` has their positions in the batch. They stay parked, and the other rows are released. It takes
        trials, which commit nothing, while the topology continues. ``late`` is as in `release`.

        Raises:
            TridentError, TimeoutError: as for `park`. It is also refused if all rows pass now.
        """
        return self._wished(Action.BISECT, (txid,), timeout, late=late)

    def release_letters(
        self, *txids: int, branch: str = "", late: bool = False, timeout: float = ANSWER_SECONDS
    ) -> Outcome:
        """Process the dead letters of these transactions again, or all of them without ids.

        Those of each branch are a new transaction. Only this branch has a part in it, and the same transaction takes
        the letters out of the table. A row over which a function still raises stays a dead letter.

        Args:
            txids: the transactions that left the rows out.
            branch: only the letters of this branch.
            late: as in `release`.
            timeout: seconds to wait.

        Raises:
            TridentError, TimeoutError: as for `park`. It is also refused if there are no such letters.
        """
        return self._wished(Action.LETTERS, txids, timeout, branch=branch, late=late)

    def retry(self, txid: int | None = None, *, timeout: float = ANSWER_SECONDS) -> Outcome:
        """Try ``txid``, by default the lowest transaction, without waiting any longer, and count its failures from 0.

        Raises:
            TridentError, TimeoutError: as for `park`.
        """
        return self._wished(Action.RETRY, () if txid is None else (txid,), timeout)

    def _wished(self, action: Action, txids: tuple[int, ...], timeout: float, **facts: Any) -> Outcome:
        wish = Wish(uuid4().hex, action, txids=txids, by="the program", **facts)
        with located(topology=self.name):
            return carried_out(wish, self.name, self.coordination, timeout, lambda: self.is_active)

    # --- asking -------------------------------------------------------------------------------------------------------

    def execute(self, function: str, args: str, timeout: float | None = None) -> list[list[Any]]:
        """Return the answer of ``function``, which ``TridentTopology.new_drpc_stream`` declared.

        The answer is a list of rows, each a list.

        Call it from any thread, also while batches run. All queries of one request see all states at the same committed
        transaction. They run on the commit thread, after one commit and before the next, which waits for them. If a
        commit has failed halfway, they wait for its replay. Operations before the first query and after the last one
        run on the calling thread. A request is never replayed. Don't call it from a state or query, because it would
        wait for itself.

        Args:
            function: the name of the function.
            args: the request's field ``args``.
            timeout: seconds to wait for the states; None: without limit. A running query continues, and commits wait
                for it. If it takes longer than ``message_timeout``, ``status`` and a warning name it.

        Raises:
            RequestError: there is no such function, or its code raised an exception; the topology continues.
            TimeoutError: ``timeout`` has passed.
            TridentError: the topology is a standby, or has stopped.
        """
        try:
            return self.answer(function, args, timeout).rows
        except TridentError:
            if not self._loop.inbox.is_open:  # a caller that gets this error may start the topology again at once
                self._loop.ended.wait(timeout)
            raise

    def answer(self, function: str, args: str, timeout: float | None = None) -> RequestAnswer:
        """Return the answer of `execute`, with its epoch and committed transaction."""
        if not self.is_active:
            raise TridentError(f"topology {self.name!r} was stopped", topology=self.name) from self._loop.error
        with located(topology=self.name):
            return self._requests.execute(function, args, timeout)

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether the topology runs in this process, as leader or standby."""
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
        """The process that leads, as last seen, while this one is a standby; else None."""
        return self._candidate.rival if self.is_active and self._loop.driver is None else None

    @property
    def status(self) -> TopologyStatus:
        """The state of the topology as its driver last published it; it is also a mapping of the same names, as before.

        In a standby, ``epoch`` and ``current_txid`` are ``None``, and ``leader`` names the process that leads.
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
        """Return the error that ended the topology, or None."""
        return self._loop.error

    def __repr__(self) -> str:
        """Return one line: the activity of the topology, its last transaction, and since when it leads."""
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


def clock(moment: float) -> str:
    """Format a time of day for people."""
    return time.strftime("%H:%M:%S", time.localtime(moment))


_started: list[TridentQuery] = []


def active() -> dict[str, TridentQuery]:
    """Return the leading and standby topologies of this process, by name.

    If two have the same name, return the one started last.
    """
    return {query.name: query for query in list(_started) if query.is_active}


def ensure_not_leading_here(name: str, place: str) -> None:
    """Return if no topology of this process leads under ``name`` with its record at ``place``.

    Raises:
        FencedError: one does; the message says how to get its handle.
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
    """Add ``query`` to the active ones."""
    _started[:] = [*(each for each in _started if each.is_active), query]
    return query


@atexit.register
def _give_up_all() -> None:
    """Release the leadership of all running topologies; a commit without fence keeps it until the process ends."""
    until = time.monotonic() + EXIT_SECONDS
    for query in _started:
        query._loop.ask_to_stop(drain=False)  # noqa: SLF001 - it is a handle of it
    for query in _started:
        query._loop.ended.wait(max(0.0, until - time.monotonic()))  # noqa: SLF001
