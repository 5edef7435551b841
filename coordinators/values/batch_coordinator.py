"""The half of a spout that decides what each batch contains: the interface users implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from attrs import field, frozen

from coordinators.values.canonical import Json

M = TypeVar("M")
"""Metadata of one batch: whatever JSON holds and gives back equal (no tuples, string keys, finite numbers)."""


@frozen(kw_only=True)
class Correction(Generic[M]):
    """What a spout would give now instead of batches that are not committed, as their data were corrected.

    Attributes:
        what: what has changed, for people.
        checked: what is known to be as it was, and what is the user's word.
        before, now: what tells the data as they were read, and as they are.
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

    One instance exists in the leading driver. All methods run on one thread of their own, so they may block and
    share fields, and are called in txid order.

    What ``is_ready`` and ``initialize_transaction`` raise means that the source can't be reached: they are called
    again, up to 30 s apart, for as long as ``TridentConfig.source_patience`` says, and nothing is counted against a
    batch. A `TridentError`, such as `SpoutError`, ends the topology, once the transactions before this one are
    committed.
    """

    @abstractmethod
    def initialize_transaction(self, txid: int, prev_metadata: M | None, curr_metadata: M | None) -> M:
        """Define the batch of ``txid``; called once for every attempt of it.

        Args:
            txid: the number of the transaction, from 1 on without gaps. States, sinks and errors go by a txid that is
                higher where windows by time have closed without input before: spouts don't hear of those.
            prev_metadata: what the transaction before this one was defined as; None for the first.
            curr_metadata: what this one was defined as in an earlier attempt, also before a crash; None if never.

        Returns:
            Metadata from which the emitter can give the batch, stored as JSON before anything of it is emitted. A
            spout with ``Replay.EXACT`` must return ``curr_metadata`` where that is not None.
        """

    @abstractmethod
    def is_ready(self, txid: int) -> bool:
        """Tell whether there is something to define ``txid`` with. Asked again, soon, after False; must not block long.

        In a new process the first question comes before `initialize_transaction` has told where the last batch ended.
        Say True until it has: a batch may be empty.
        """

    def has_pending_input(self) -> bool:
        """Tell whether some input is known that was not ready when `is_ready` said False, and soon will be of itself.

        As a line whose writer may not be done. Asked right after that; whoever waits for all input waits for it.
        """
        return False

    def limit_batches(self, max_rows: int | None) -> None:
        """Give batches that are defined from now on ``max_rows`` rows at most; None: as many as before any limit.

        Called when an operator wishes it (``trident rate --max-batch``), also in a new process, before the first other
        question. A spout that can't tell how many rows a batch will have leaves it as it is. What was defined stays:
        `initialize_transaction` goes on returning ``curr_metadata``.
        """

    def lag(self) -> Mapping[str, int]:
        """Return, by part of the source, how many records there are that no batch has been defined with yet.

        As Kafka's by ``topic/partition``, for `TopologyStatus.lag`. Asked after every answer, so it says what was found
        when `is_ready` looked last, and doesn't look itself.
        """
        return {}

    def corrected(self, definitions: Mapping[int, M]) -> Correction[M] | None:
        """Return what it would give instead of ``definitions`` if their data were changed in place; None: they weren't.

        Called at a start, if one of these batches has failed and none of them is committed. What it returns is used if
        the user accepts it, and no output has such a transaction.

        Args:
            definitions: by number, what is stored of the batches that are not committed.
        """
        return None

    def success(self, txid: int) -> None:
        """Hear that ``txid`` is committed for good. Called at least once, in txid order."""

    def close(self) -> None:
        """Close: the topology stops. Nothing is called afterwards."""


class CursorCoordinator(BatchCoordinator[M]):
    """A coordinator with more positions than one batch's metadata should carry, as the offsets of a thousand files.

    The positions are cursors: one JSON value a key, durable in the same write as the definition that moved them.
    """

    @abstractmethod
    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Take up the positions after the last stored definition; called once, before anything else."""

    @abstractmethod
    def moved(self, metadata: M) -> Mapping[str, Json]:
        """Return the cursors that the batch defined as ``metadata`` moves, and where to; a pure function."""
