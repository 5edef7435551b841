"""`BatchStreams`: the data plane, as the control plane sees it; `Batch` is an attempt that it processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from coordinators.batches.spout_coordinator import Ask
from coordinators.protocol.messages import Message
from coordinators.protocol.protocol import StreamId
from coordinators.record.bad_rows import BadRow
from coordinators.record.parking import StoredRows
from coordinators.record.wishes import Wish
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json


# large: one field for each fact that the control plane decides about an attempt
@frozen(kw_only=True)
class Batch:
    """An attempt, as it is announced on ``$batch``.

    Attributes:
        attempt: its id for states and sinks.
        number: the transaction's number for spouts; None for an empty transaction: spouts are not called.
        commits: the same number, if spouts that take part in commits are called for it. None: they aren't, because the
            transaction is empty, or releases a batch that was theirs before.
        metadata: the definition of the transaction, by spout.
        time: the transaction's, in milliseconds since 1970.
        edges: one for each consumer, in their order.
        parks: the first attempt id from which on attempts of this transaction are empty, because it is parked; None: it
            is not. No branch runs for an empty attempt, and outputs change nothing but their token.
        stores: whether the spouts in ``metadata`` emit all the same, and their rows are stored. `RowsStored` is posted
            for each.
        sieves: whether no output prepares anything, and the rows that make a row function raise are found. `RowsFailed`
            is posted for each branch and spout that has some.
        stored: by spout, the stored rows of a parked transaction that is released; these spouts don't emit.
        letters_of: the branch that left out these rows before, if they are dead letters: no other branch runs, except
            for the one that keeps them. Outputs of the others change nothing but their token. Empty: each branch runs.
        bad_rows: the rows that branches leave out, if that is fixed because a commit may have begun: any other row that
            makes a row function raise fails the attempt. None: it isn't fixed.
        sifts: whether rows that make a row function raise are left out, as long as that isn't fixed. `BadRowsFound` is
            posted for them. Otherwise they fail the attempt.
    """

    attempt: TransactionAttempt
    number: int | None
    metadata: Mapping[str, Json]
    time: int
    edges: Sequence[int]
    commits: int | None = None
    parks: int | None = None
    stores: bool = False
    sieves: bool = False
    stored: Mapping[str, StoredRows] = field(factory=dict)
    letters_of: str = ""
    bad_rows: tuple[BadRow, ...] | None = None
    sifts: bool = False


class BatchStreams(Protocol):
    """The data plane, as the control plane sees it: three streams and their consumers. No method may block."""

    def consumers(self, stream: StreamId) -> int:
        """Return how many consumers ``$batch`` or ``$commit`` has; each reports the edge that it receives."""
        ...

    def ask(self, spout: str, ask: Ask) -> None:
        """Make the spout's coordinator answer ``ask``, on the spout's own thread."""
        ...

    def emit_batch(self, batch: Batch) -> None:
        """Process an attempt."""
        ...

    def ask_outputs(self, attempt: TransactionAttempt, *, may_have_begun: bool) -> None:
        """Ask each output whether it can commit ``attempt`` as an empty one; `OutputsAnswered` is posted.

        Args:
            attempt: the next attempt of a transaction that is to be parked.
            may_have_begun: whether a commit of the transaction may have begun; False: no output has any of it.
        """
        ...

    def read_letters(self, wish: Wish) -> None:
        """Store the rows of the dead letters that ``wish`` is about, between two commits; `LettersRead` is posted."""
        ...

    def try_commit(self, attempt: TransactionAttempt) -> None:
        """Let each output commit ``attempt``, a trial that is processed, and undo it; the outcome is posted.

        It is `TrialPassed` or `Failed`.
        """
        ...

    def emit_commit(self, group: Mapping[TransactionAttempt, Sequence[int]]) -> None:
        """Commit these consecutive attempts in this order; the values are the edges of each."""
        ...

    def emit_success(self, attempt: TransactionAttempt, number: int | None) -> None:
        """Notify all consumers that ``attempt`` is committed for good; ``number`` is as in `Batch`."""
        ...

    def cancel(self, attempt: TransactionAttempt) -> None:
        """Stop working on ``attempt``, and discard the work that it prepared."""
        ...

    def take(self) -> Sequence[Message]:
        """Return the results since the last call; `Reported` is posted when there are any."""
        ...

    def alive(self) -> Collection[tuple[TransactionAttempt, StreamId]]:
        """Return the phases that some task is visibly working on; they don't time out."""
        ...

    def next_window_at(self) -> int | None:
        """Return when the next time window with committed rows ends; None: no window waits.

        By the times of transactions, in milliseconds since 1970: the first transaction at that time or later lets the
        window fire. Until then, time must not go back.
        """
        ...
