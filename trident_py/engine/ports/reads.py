"""Read states on the commit thread, between two commits: for state queries and requests.

States of a user's need not be safe for threads, nor for being read while they are written. So whoever reads them goes
where they are written, and waits for its turn. A commit waits for a read in the same way; `CommitLane` says whose turn
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Generic, TypeAlias, TypeVar

from attrs import define, field
from pyspark.sql.types import StructType

from trident_py.engine.plane.stimuli import ReadWanted
from trident_py.engine.ports.commit_thread import CommitThread
from trident_py.errors import TridentError
from trident_py.graph.queries import StateQuery
from trident_py.interfaces.states import ReadOnlyState, State
from trident_py.worker.steps import Values

A = TypeVar("A")

States: TypeAlias = Mapping[str, State]
"""The states of a topology by name, those that nothing writes included."""


@define(eq=False)
class Read(Generic[A]):
    """A read that somebody waits for.

    Attributes:
        read: makes it.
        who: names whoever reads.
        future: gets what was read.
        committed_txid: the last transaction that all states had then, where the read asks for one moment of all.
    """

    read: Callable[[States], A]
    who: str
    committed_txid: int = field(default=0, init=False)
    future: Future[A] = field(factory=Future, init=False)


@define(eq=False)
class StateReads:
    """Reads of the states of one running topology.

    Attributes:
        topology: for messages.
        states: what is read.
        thread: what the commit thread is doing.
    """

    topology: str
    states: States
    thread: CommitThread = field(factory=CommitThread)
    _want: Callable[[ReadWanted], object] | None = field(default=None, init=False)
    _asked: set[Read[Any]] = field(factory=set, init=False)

    def open(self, want: Callable[[ReadWanted], object]) -> None:
        """Hand what is wanted to ``want`` from now on, which has `answer` called in its turn, on the commit thread."""
        self._want = want

    def now(self, read: Callable[[States], A], who: str = "a reader") -> A:
        """Run ``read(states)`` at the next moment in which no commit runs; ``who`` names whoever reads.

        One state is at one transaction then, which need not be that of another: a batch whose transaction has failed
        in mid-commit must be processed again before that is mended, so it can't wait for it.
        """
        return self._wanted(Read(read, who), whole=False).result()

    def answered(self, query: StateQuery, rows: Sequence[Values], source: StructType) -> Sequence[Values]:
        """Return what ``query`` makes of ``rows``, which have the fields of ``source``.

        What it counts is the caller's.
        """
        caller = copy_context()
        return self.now(
            lambda states: caller.run(query.answered, states[query.state], rows, source),
            query.title,
        )

    def consistent(self, read: Callable[[States], A], timeout: float | None, who: str = "a reader") -> tuple[A, int]:
        """Run ``read(states)`` at the next moment in which all states are at the same committed transaction.

        Returns what it gives, and that transaction.

        Raises:
            TimeoutError: ``timeout`` seconds have passed; it will not be called any more, if it was not yet.
        """
        wanted = Read(read, who)
        future = self._wanted(wanted, whole=True)
        try:
            return future.result(timeout), wanted.committed_txid
        finally:
            future.cancel()

    def answer(self, wanted: Read[Any], committed_txid: int, ensure_leading: Callable[[], None]) -> None:
        """Make a read, on the commit thread.

        Where another process may lead, and commit, before or behind it, nobody is answered.
        """
        if wanted.future.done():  # whoever asked has given up, or was told that it is over
            return
        with (
            self.thread.doing(f"a read of states by {wanted.who}"),
            suppress(InvalidStateError),
        ):  # or is told meanwhile
            try:
                ensure_leading()
                wanted.committed_txid = committed_txid
                answer = wanted.read(self.states)
                ensure_leading()
            except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
                wanted.future.set_exception(error)
            else:
                wanted.future.set_result(answer)

    def refuse(self, wanted: Read[Any]) -> None:
        """Tell who wants it that the topology has ended."""
        with suppress(InvalidStateError):  # it has just been answered
            wanted.future.set_exception(
                TridentError(
                    f"topology {self.topology!r} was stopped, its states can't be read any more", topology=self.topology
                )
            )

    def close(self) -> None:
        """Close: the topology has stopped.

        Nobody reads any more, and who waits is told, even if a read doesn't return.
        """
        self._want = None
        for wanted in list(self._asked):
            self.refuse(wanted)

    def close_states(self) -> None:
        """Close the states that nothing but reads uses; called on the commit thread, last."""
        for state in self.states.values():
            if isinstance(state, ReadOnlyState):
                state.close()

    def _wanted(self, wanted: Read[A], *, whole: bool) -> Future[A]:
        self._asked.add(wanted)
        wanted.future.add_done_callback(lambda _: self._asked.discard(wanted))
        want = self._want  # looked at after the question was noted: `close` sees one or the other
        if want is None:
            self.refuse(wanted)
        else:
            want(ReadWanted(wanted, whole))
        return wanted.future
