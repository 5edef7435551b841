"""Reads of states on the commit thread, between two commits: for state queries and requests.

User states need not be thread-safe, nor readable while they are written. So a read runs on the thread that writes them,
and waits for its turn. A commit waits for a read in the same way; `CommitLane` decides their order.
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
from trident_py.interfaces.states import ReadOnlyState, State, TaskReadableState, TaskReader
from trident_py.worker.pipeline import Values

A = TypeVar("A")

States: TypeAlias = Mapping[str, State]
"""The states of a topology by name, including those that no branch writes."""


@define(eq=False)
class Read(Generic[A]):
    """A read with a waiting caller.

    Attributes:
        read: reads the states.
        who: names the reader.
        future: receives the result.
        committed_txid: the last transaction of all states at that time, if the read requires all states at one
            transaction.
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
        states: to read.
        thread: the current work of the commit thread.
    """

    topology: str
    states: States
    thread: CommitThread = field(factory=CommitThread)
    _want: Callable[[ReadWanted], object] | None = field(default=None, init=False)
    _asked: set[Read[Any]] = field(factory=set, init=False)

    def open(self, want: Callable[[ReadWanted], object]) -> None:
        """Pass requests to ``want`` from now on, which must call `answer` on the commit thread in their turn."""
        self._want = want

    def now(self, read: Callable[[States], A], who: str = "a reader") -> A:
        """Run ``read(states)`` at the next moment in which no commit runs; ``who`` names the reader.

        Each state is at one transaction then, but different states may be at different ones. A batch can't wait for a
        common one: a transaction that failed in mid-commit is repaired only by processing its batch again.
        """
        return self._wanted(Read(read, who), whole=False).result()

    def answered(self, query: StateQuery, rows: Sequence[Values], source: StructType) -> Sequence[Values]:
        """Return the answers of ``query`` to ``rows``, which have the fields of ``source``.

        Counts in the query belong to the caller.
        """
        caller = copy_context()
        return self.now(
            lambda states: caller.run(query.answered, states[query.state], rows, source),
            query.title,
        )

    def task_reader(self, query: StateQuery) -> TaskReader | None:
        """Return the reader of the state in tasks; None: the query reads it on the driver."""
        state = self.states[query.state]
        reader = state.task_reader if isinstance(state, TaskReadableState) else None
        return reader if reader is not None and issubclass(reader.kind, query.function.needs) else None

    def consistent(self, read: Callable[[States], A], timeout: float | None, who: str = "a reader") -> tuple[A, int]:
        """Run ``read(states)`` at the next moment in which all states are at the same committed transaction.

        Return its result, and that transaction.

        Raises:
            TimeoutError: ``timeout`` seconds have passed; if ``read`` was not called yet, it never will be.
        """
        wanted = Read(read, who)
        future = self._wanted(wanted, whole=True)
        try:
            return future.result(timeout), wanted.committed_txid
        finally:
            future.cancel()

    def answer(self, wanted: Read[Any], committed_txid: int, ensure_leading: Callable[[], None]) -> None:
        """Run a read, on the commit thread.

        If another process may lead and commit, before or after the read, the caller gets an error.
        """
        if wanted.future.done():  # the caller has stopped waiting, or was notified of the end
            return
        with (
            self.thread.doing(f"a read of states by {wanted.who}"),
            suppress(InvalidStateError),
        ):  # or is notified meanwhile
            try:
                ensure_leading()
                wanted.committed_txid = committed_txid
                answer = wanted.read(self.states)
                ensure_leading()
            except BaseException as error:  # noqa: BLE001 - passed to the waiting caller
                wanted.future.set_exception(error)
            else:
                wanted.future.set_result(answer)

    def refuse(self, wanted: Read[Any]) -> None:
        """Notify the caller of a read that the topology has ended."""
        with suppress(InvalidStateError):  # it has just been answered
            wanted.future.set_exception(
                TridentError(
                    f"topology {self.topology!r} was stopped, its states can't be read any more", topology=self.topology
                )
            )

    def close(self) -> None:
        """Close: the topology has stopped.

        No read starts any more, and waiting callers get an error, even if a running read doesn't return.
        """
        self._want = None
        for wanted in list(self._asked):
            self.refuse(wanted)

    def close_states(self) -> None:
        """Close the states that only reads use; called on the commit thread, last."""
        for state in self.states.values():
            if isinstance(state, ReadOnlyState):
                state.close()

    def _wanted(self, wanted: Read[A], *, whole: bool) -> Future[A]:
        self._asked.add(wanted)
        wanted.future.add_done_callback(lambda _: self._asked.discard(wanted))
        want = self._want  # read after the request was recorded: `close` finds one or the other
        if want is None:
            self.refuse(wanted)
        else:
            want(ReadWanted(wanted, whole))
        return wanted.future
