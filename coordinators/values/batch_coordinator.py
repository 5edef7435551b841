"""`BatchCoordinator`: the half of a spout that decides which rows each batch contains; users implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from attrs import field, frozen

from coordinators.values.canonical import Json

M = TypeVar("M")
"""Metadata of one batch: any JSON value that can be read back equal (no tuples, string keys, finite numbers)."""


@frozen(kw_only=True)
class Correction(Generic[M]):
    """New definitions of batches that are not committed, because their source data were corrected.

    Attributes:
        what: the change, for people.
        checked: which data are known to be unchanged, and which the user vouches for.
        before, now: identify the data as they were read, and as they are now.
        definitions: by number, the new definitions; at least one.
        moved: the positions after the last of them, of a `CursorCoordinator`.
    """

    what: str
    checked: str
    before: Json
    now: Json
    definitions: Mapping[int, M]
    moved: Mapping[str, Json] = field(factory=dict)


class BatchCoordinator(ABC, Generic[M]):
    """Defines batches; never sees their rows. Storm's ``ITridentSpout.BatchCoordinator``.

    One instance exists in the leading driver. All methods are called on one thread, which belongs to this spout, in
    txid order. So they may block and share fields.

    An exception from ``is_ready`` or ``initialize_transaction`` means that the source can't be reached. They are called
    again, up to 30 s apart, for as long as ``TridentConfig.source_patience`` says, and no failure is counted against a
    batch. A `TridentError`, such as `SpoutError`, ends the topology, once the transactions before this one are
    committed.
    """

    @abstractmethod
    def initialize_transaction(self, txid: int, prev_metadata: M | None, curr_metadata: M | None) -> M:
        """Define the batch of ``txid``; called once for every attempt of it.

        Args:
            txid: the number of the transaction, from 1 on without gaps. States, sinks and errors use a higher txid if
                time windows have closed without input before: spouts are not called for those.
            prev_metadata: the definition of the transaction before this one; None for the first.
            curr_metadata: the definition of this one in an earlier attempt, also before a crash; None if there was
                none.

        Returns:
            Metadata from which the emitter can emit the batch, stored as JSON before any row is emitted. A spout with
            ``Replay.EXACT`` must return ``curr_metadata`` if that is not None.
        """

    @abstractmethod
    def is_ready(self, txid: int) -> bool:
        """Return true if there is input to define ``txid`` with. Called again, soon, after False; must not block long.

        In a new process the first call comes before `initialize_transaction` has received where the last batch ended.
        Return true until then: a batch may be empty.
        """

    def has_pending_input(self) -> bool:
        """Return true if known input that was not ready in `is_ready` will soon be ready by itself.

        An example is a line that its writer may not have finished. Called right after `is_ready`; a caller that waits
        for all input waits for this input too.
        """
        return False

    def limit_batches(self, max_rows: int | None) -> None:
        """Limit batches that are defined from now on to ``max_rows`` rows; None: no limit, as before the first call.

        Called when an operator wishes it (``trident rate --max-batch``), also in a new process, before any other
        question. A spout that can't know how many rows a batch will have ignores it. Existing definitions stay:
        `initialize_transaction` still returns ``curr_metadata``.
        """

    def lag(self) -> Mapping[str, int]:
        """Return, by part of the source, how many records there are that no batch has been defined with yet.

        For example Kafka's by ``topic/partition``, for `TopologyStatus.lag`. Called after every answer. So it returns
        the result of the last `is_ready`, without a new look at the source.
        """
        return {}

    def expiring(self, metadata: M) -> str:
        """Return why the source may soon not have the rows of a batch any more; empty: no reason is known.

        Called after every answer for each parked batch whose rows are only in the source. So it returns the result of
        the last `is_ready`, without a new look at the source.
        """
        return ""

    def corrected(self, definitions: Mapping[int, M]) -> Correction[M] | None:
        """Return new definitions if the data of ``definitions`` were changed in place; None: they weren't.

        Called at a start, if one of these batches has failed and none of them is committed. The result is used if the
        user accepts it, and no output has such a transaction.

        Args:
            definitions: by number, the stored definitions of the batches that are not committed.
        """
        return None

    def success(self, txid: int) -> None:
        """Handle that ``txid`` is committed for good. Called at least once, in txid order."""

    def close(self) -> None:
        """Release resources when the topology stops. No method is called afterwards."""


class CursorCoordinator(BatchCoordinator[M]):
    """A coordinator with many positions, such as the offsets of a thousand files.

    They would be too large for one batch's metadata. The positions are cursors: one JSON value per key, durable in the
    same write as the definition that moved them.
    """

    @abstractmethod
    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Set the positions after the last stored definition; called once, before any other method."""

    @abstractmethod
    def moved(self, metadata: M) -> Mapping[str, Json]:
        """Return the new positions of the cursors that the batch defined as ``metadata`` moves; a pure function."""
