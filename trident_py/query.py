"""`TridentQuery`: a running topology, in the vocabulary of a ``StreamingQuery``."""

from __future__ import annotations

import atexit
import time
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from attrs import define, frozen

from coordinators.attempt import TransactionAttempt
from coordinators.candidate import Candidate
from coordinators.driver import CoordinatorDriver
from coordinators.errors import located
from coordinators.loop import DriverLoop
from coordinators.notices import IdleWanted, PauseRequested, ResumeRequested
from coordinators.transaction_time import MILLIS
from trident_py.engine.progress import Progress
from trident_py.engine.requests import Requests
from trident_py.errors import FencedError, TridentError

EXIT_SECS = 10.0
"""For all topologies to end that still run at the end of the program; the process ends them by ending itself."""


@frozen
class TransactionStatus:
    """An active transaction.

    Attributes:
        attempt: the live attempt of it.
        status: ``processing``, ``processed`` or ``committing``.
        failures: how often it has failed so far.
    """

    attempt: TransactionAttempt
    status: str
    failures: int


@define(eq=False, repr=False)
class TridentQuery:
    """A running topology; made by ``TridentTopology.start``.

    As a context manager it stops at the end of the block: after what is under way has committed, or at once if the
    block raised.
    """

    name: str
    _loop: DriverLoop
    _progress: Progress
    _candidate: Candidate
    _requests: Requests
    _place: str = ""  # where its record is: two topologies of one name elsewhere have nothing to do with each other

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

    def resume(self) -> None:
        """Go on after a `pause`."""
        self._loop.inbox.post(ResumeRequested())

    # --- asking -------------------------------------------------------------------------------------------------------

    def execute(self, function: str, args: str, timeout: float | None = None) -> list[list[Any]]:
        """The answer of ``function``, which ``TridentTopology.new_drpc_stream`` declared: a list of rows, each a list.

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
        if not self.is_active:
            raise TridentError(f"topology {self.name!r} was stopped", topology=self.name) from self._loop.error
        try:
            with located(topology=self.name):
                return self._requests.execute(function, args, timeout)
        except TridentError:
            if not self._loop.inbox.is_open:  # whoever is told so may start the topology again at once
                self._loop.ended.wait(timeout)
            raise

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
    def status(self) -> dict[str, Any]:
        """Where it is now: a message for people, and the numbers behind it.

        While it stands by, ``epoch`` and ``current_txid`` are None; ``leader`` says whom it waits for. ``failing`` has
        the cause by transaction, ``waiting`` what is known by spout of sources that can't be reached, ``seconds_ahead``
        by how much the time of transactions is ahead of the clock.
        """
        driver, rival = self._loop.driver, self._candidate.rival
        status: dict[str, Any] = {
            "message": self._message(),
            "is_active": self.is_active,
            "is_leading": self.is_leading,
            "is_paused": False,
            "leader": str(rival) if rival and driver is None else None,
            "epoch": None,
            "current_txid": None,
            "active": {status.attempt.txid: str(status.attempt) for status in self.transactions()},
            "failing": {},
            "waiting": {},
            "seconds_ahead": 0.0,
        }
        if driver is not None:
            status["is_paused"] = driver.machine.paused and not driver.stopping
            status["epoch"] = driver.store.epoch
            status["current_txid"] = driver.machine.current_txid
            status["failing"] = driver.failures.retries.causes
            status["waiting"] = self._waiting(driver)
            status["seconds_ahead"] = driver.times.ahead / MILLIS
        return status

    @property
    def last_progress(self) -> dict[str, Any] | None:
        """The last transaction that this run committed; None before the first."""
        recent = self._progress.recent()
        return recent[-1] if recent else None

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """The last hundred transactions that this run committed, oldest first."""
        return self._progress.recent()

    def transactions(self) -> list[TransactionStatus]:
        """The active transactions, lowest first."""
        driver = self._loop.driver
        if driver is None:
            return []
        return [
            TransactionStatus(entry.attempt, str(entry.status), driver.failures.retries.failures(txid))
            for txid, entry in list(driver.machine.active.items())
        ]

    def exception(self) -> BaseException | None:
        """What ended the topology, or None."""
        return self._loop.error

    def __repr__(self) -> str:
        """One line: what it does, how far it is, and since when it leads."""
        said = [self._message()]
        driver = self._loop.driver
        if driver is not None:
            said.append(f"{counted(driver.machine.current_txid - 1, 'transaction')} committed")
        if self.is_active and (since := self._since("leads since ")):
            said.append(since)
        return f"<TridentQuery {self.name}: {', '.join(said)}>"

    # --- context manager ----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(drain=error is None)

    # ------------------------------------------------------------------------------------------------------------------

    def _since(self, text: str) -> str:
        since = self._loop.leads_since
        return "" if since is None else f"{text}{time.strftime('%H:%M:%S', time.localtime(since))}"

    def _message(self) -> str:
        shutdown = self._loop.shutdown
        if shutdown.held_by:
            return shutdown.held_by
        if self._loop.error is not None:
            return f"failed: {self._loop.error}"
        if not self.is_active:
            return "stopped" + "".join(f"; left behind: thread {each}" for each in shutdown.left_behind)
        driver = self._loop.driver
        if driver is None:
            rival = self._candidate.rival
            return f"standing by; {rival} leads" if rival else "taking over"
        return self._progress.late() or self._message_of(driver)

    def _message_of(self, driver: CoordinatorDriver) -> str:
        if driver.stopping:
            return "stopping: committing what is being processed"
        if driver.machine.paused:
            return "paused"
        if waiting := self._waiting(driver):
            return "; ".join(waiting.values())
        failing = driver.failures.retries.causes
        if failing:
            txid, cause = min(failing.items())
            return f"transaction {txid} has failed and is tried again: {cause}"
        return "processing" if driver.machine.active else "waiting for data"

    def _waiting(self, driver: CoordinatorDriver) -> dict[str, str]:
        now = self._loop.clock()
        return {spout: wait.message(spout, now) for spout, wait in dict(driver.failures.patience.waits).items()}


def counted(number: int, what: str) -> str:
    """So many of what ``what`` is one of, for people."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


_started: list[TridentQuery] = []


def active() -> dict[str, TridentQuery]:
    """The topologies that run or stand by in this process, by name; of two with one name, the one started last."""
    return {query.name: query for query in list(_started) if query.is_active}


def ensure_not_leading_here(name: str, place: str) -> None:
    """Return if no topology of this process leads under ``name``, with its record at ``place``.

    Raises:
        FencedError: one does; says how to get hold of it.
    """
    for query in _started:
        if query.is_active and (query.name, query._place) == (name, place) and query._loop.driver is not None:  # noqa: SLF001
            raise FencedError(
                f"topology {name!r} runs in this process already{query._since(', since ')}; "  # noqa: SLF001
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
    until = time.monotonic() + EXIT_SECS
    for query in _started:
        query._loop.ask_to_stop(drain=False)  # noqa: SLF001 - it is a handle of it
    for query in _started:
        query._loop.ended.wait(max(0.0, until - time.monotonic()))  # noqa: SLF001
