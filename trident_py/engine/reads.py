"""How others than commits get at the states: on the commit thread, between two commits.

States of a user's need not be safe for threads, nor for being read while they are written. So whoever reads them goes
where they are written, and waits for its turn. A commit waits for a read in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import TypeAlias, TypeVar

from attrs import define, field

from trident_py.engine.commit_thread import CommitThread
from trident_py.errors import TridentError
from trident_py.interfaces.states import ReadOnlyState, State

A = TypeVar("A")

States: TypeAlias = Mapping[str, State]
"""The states of a topology by name, those that nothing writes included."""


@define(eq=False)
class StateReads:
    """Reads of the states of one running topology.

    Attributes:
        topology: for messages.
        states: what is read.
        thread: what the commit thread is doing.
        torn_upto: a transaction that some states may have and others don't have yet: its commit has begun, and did not
            get to its end; 0: none. Written on the commit thread only.
    """

    topology: str
    states: States
    thread: CommitThread = field(factory=CommitThread)
    torn_upto: int = 0
    _commits: Executor | None = field(default=None, init=False)
    _waiting: list[Callable[[], None]] = field(factory=list, init=False)
    _running: int = field(default=0, init=False)

    def open(self, commits: Executor) -> None:
        """``commits`` has the one thread that states are used on."""
        self._commits = commits

    def now(self, read: Callable[[States], A], what: str = "a reader") -> A:
        """``read(states)`` at the next moment in which no commit runs; ``what`` names it.

        One state is at one transaction then, which need not be that of another: a batch whose transaction has failed
        in mid-commit must be processed again before that is mended, so it can't wait for it.
        """
        return self._submitted(read, what, whole=False).result()

    def consistent(self, read: Callable[[States], A], timeout: float | None, what: str = "a reader") -> A:
        """``read(states)`` at the next moment in which all states are at the same committed transaction.

        Raises:
            TimeoutError: ``timeout`` seconds have passed; it will not be called any more, if it was not yet.
        """
        future = self._submitted(read, what, whole=True)
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    @property
    def is_busy(self) -> bool:
        """Whether a read runs, and a commit may have to wait for it."""
        return self._running > 0

    def committing(self, txid: int) -> None:
        """From now on, some states may have ``txid``."""
        self.torn_upto = max(txid, self.torn_upto)

    def committed(self, txid: int) -> None:
        """All states have ``txid``; some may have later ones, which an earlier attempt has committed with it."""
        if txid < self.torn_upto:
            return
        self.torn_upto = 0
        waiting, self._waiting = self._waiting, []
        for run in waiting:
            run()

    def close(self) -> None:
        """The topology has stopped; the commit thread is gone."""
        self._commits = None
        waiting, self._waiting = self._waiting, []
        for run in waiting:
            run()
        for state in self.states.values():
            if isinstance(state, ReadOnlyState):
                state.close()

    def _submitted(self, read: Callable[[States], A], what: str, *, whole: bool) -> Future[A]:
        future: Future[A] = Future()

        def run() -> None:
            if whole and self.torn_upto and self._commits is not None:
                self._waiting.append(run)
            elif future.set_running_or_notify_cancel():
                with self.thread.doing(f"a read of states by {what}"):
                    self._answer(future, read)

        try:
            if self._commits is None:
                raise self._stopped()
            self._commits.submit(run)
        except RuntimeError as error:  # its thread was shut down meanwhile
            raise self._stopped() from error
        return future

    def _answer(self, future: Future[A], read: Callable[[States], A]) -> None:
        self._running += 1
        try:
            if self._commits is None:
                raise self._stopped()
            future.set_result(read(self.states))
        except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
            future.set_exception(error)
        finally:
            self._running -= 1

    def _stopped(self) -> TridentError:
        return TridentError(f"topology {self.topology!r} was stopped, its states can't be read any more")
