"""Shared transactions: the states and sinks of each database, including those of new values, that commit together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from attrs import define, field

from trident_py.interfaces.sinks import SinkTransaction
from trident_py.participants.participant import Participant, everything
from trident_py.states.sql.fenced_table import FencedTable
from trident_py.states.sql.shared import SharedTransaction


@define(eq=False)
class SharedTransactions:
    """The databases that hold several states and sinks of a topology, which commit in one transaction per database.

    Attributes:
        together: the sets of branches that commit in one step, because they share a database.
    """

    together: tuple[frozenset[int], ...] = field(default=(), init=False)
    _by_branch: tuple[tuple[SharedTransaction, ...], ...] = field(default=(), init=False)
    _later: list[Callable[[], None]] | None = field(default=None, init=False)  # None: no transaction is open

    def join(self, participants: Sequence[Participant]) -> None:
        """Find the databases that several outputs share.

        ``participants`` are the outputs by branch. All of them, and their downstream outputs, have been recovered.
        """
        members: dict[object, list[tuple[Participant, FencedTable]]] = {}
        for each in everything(participants):
            each.shared = None
            if (table := each.table) is not None:
                members.setdefault(table.identity, []).append((each, table))
        for found in members.values():
            shared = SharedTransaction([table for _, table in found]) if len(found) > 1 else None
            for participant, _ in found:
                participant.shared = shared
        self._by_branch = tuple(tuple(_used_by([each])) for each in participants)
        self.together = tuple(_joined(self._by_branch))

    def is_in(self, participant: Participant) -> bool:
        """Return whether it, or an output of its new values, commits with others in a transaction that is open now."""
        return self._later is None or bool(_used_by([participant]))

    @contextmanager
    def committing(self, branches: Sequence[int], tx: SinkTransaction) -> Iterator[None]:
        """Commit the changes of these branches at the end of the block, or none of them if the block raises.

        Args:
            branches: the branches of one step.
            tx: its last transaction, for messages.
        """
        used = dict.fromkeys(shared for branch in branches for shared in self._of(branch))
        later: list[Callable[[], None]] = []
        with ExitStack() as open_transactions:
            for shared in used:
                open_transactions.enter_context(shared.committing(tx))
            self._later = later if used else None
            open_transactions.callback(self._end)
            yield
        for call in later:
            call()

    def after(self, call: Callable[[], None]) -> None:
        """Call ``call`` when the open transactions have been committed; at once if none is open."""
        if self._later is None:
            call()
        else:
            self._later.append(call)

    def _of(self, branch: int) -> tuple[SharedTransaction, ...]:
        return self._by_branch[branch] if self._by_branch else ()

    def _end(self) -> None:
        self._later = None


def _used_by(participants: Sequence[Participant]) -> dict[SharedTransaction, None]:
    """Return the transactions in which these, or the outputs of their new values, commit; as an ordered set."""
    return dict.fromkeys(each.shared for each in everything(participants) if each.shared is not None)


def _joined(by_branch: Sequence[Sequence[SharedTransaction]]) -> list[frozenset[int]]:
    """Return the sets of branches that share a transaction, directly or through other branches."""
    found: list[tuple[frozenset[int], frozenset[SharedTransaction]]] = []
    for branch, shared in enumerate(by_branch):
        joined = [each for each in found if not each[1].isdisjoint(shared)]
        found = [each for each in found if each not in joined]
        branches = frozenset({branch}).union(*(each[0] for each in joined))
        found.append((branches, frozenset(shared).union(*(each[1] for each in joined))))
    return sorted((branches for branches, _ in found if len(branches) > 1), key=min)
