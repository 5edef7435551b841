"""How others than commits get at the states: on the commit thread, between two commits.

States of a user's need not be safe for threads, nor for being read while they are written. So whoever reads them goes
where they are written, and waits for its turn. A commit waits for a read in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from attrs import define, field

from trident_py.engine.commit_thread import CommitThread
from trident_py.engine.threads import Threads
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
    _commits: Threads | None = field(default=None, init=False)
    _asked: set[Future[Any]] = field(factory=set, init=False)
    _waiting: list[Callable[[], None]] = field(factory=list, init=False)
    _running: int = field(default=0, init=False)

    def open(self, commits: Threads) -> None:
        """``commits`` is the one thread that states are used on."""
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
        """The topology has stopped: nobody reads any more, and who waits is told so, even if a read doesn't return."""
        self._commits = None
        for future in list(self._asked):
            with suppress(InvalidStateError):  # it has just been answered
                future.set_exception(self._stopped())

    def close_states(self) -> None:
        """Close the states that nothing but reads uses; called on the commit thread, last."""
        for state in self.states.values():
            if isinstance(state, ReadOnlyState):
                state.close()

    def _submitted(self, read: Callable[[States], A], what: str, *, whole: bool) -> Future[A]:
        future: Future[A] = Future()
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)

        def run() -> None:
            if whole and self.torn_upto:
                self._waiting.append(run)
            elif not future.done():  # whoever asked has given up, or was told that it is over
                with self.thread.doing(f"a read of states by {what}"):
                    self._answer(future, read)

        commits = self._commits  # looked at after the question was noted: `close` sees one or the other
        if commits is None or not commits.submit(run):
            with suppress(InvalidStateError):
                future.set_exception(self._stopped())
        return future

    def _answer(self, future: Future[A], read: Callable[[States], A]) -> None:
        self._running += 1
        try:
            answer = read(self.states)
        except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
            with suppress(InvalidStateError):
                future.set_exception(error)
        else:
            with suppress(InvalidStateError):  # the topology has ended meanwhile
                future.set_result(answer)
        finally:
            self._running -= 1

    def _stopped(self) -> TridentError:
        return TridentError(f"topology {self.topology!r} was stopped, its states can't be read any more")
