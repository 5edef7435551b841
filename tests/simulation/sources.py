"""A source that grows, and that may give another batch when it is asked again; and its coordinator."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field

from coordinators.values.batch_coordinator import BatchCoordinator, Correction
from tests.simulation.rules import Violation
from tests.simulation.stores import Rows
from trident_py.errors import SpoutError

if TYPE_CHECKING:
    from tests.simulation.world import World

BATCH_ROWS = 3


@define
class Source:
    """Rows that are numbered from 0.

    Attributes:
        exact: whether a transaction is the same batch for ever.
        learns: whether only emitting a batch tells what it consists of; then an exact one is the same from its first
            commit on.
        available: how many rows there are now.
        lost_upto: rows below this can't be read any more.
        splits: for exact ones, what each transaction was when it was first attempted.
        succeeded: the last transaction whose success was delivered.
    """

    name: str
    exact: bool
    available: int
    lost_upto: int = 0
    splits: dict[int, Any] = field(factory=dict)
    succeeded: int = 0
    learns: bool = False

    @property
    def inputs(self) -> dict[str, int]:
        """How many rows there are now, under each name that rows have: one that learns has two partitions."""
        if not self.learns:
            return {self.name: self.available}
        return {f"{self.name}.0": (self.available + 1) // 2, f"{self.name}.1": self.available // 2}

    def committing(self, txid: int, splits: Any) -> None:
        """S8 for those that learn: what may have been written in part is never another batch."""
        if self.exact and self.splits.setdefault(txid, splits) != splits:
            raise Violation("S8", f"{self.name}: {txid} was {self.splits[txid]} at a commit and is now {splits}")

    def read(self, txid: int, split: list[int]) -> Rows:
        """The rows of a batch; S8 and S9: an exact transaction is always the same, and nobody forgets which."""
        start, end = split
        if self.exact and self.splits.setdefault(txid, split) != split:
            raise Violation("S8", f"{self.name}: {txid} was {self.splits[txid]} and is now {split}")
        if start < self.lost_upto:
            raise SpoutError(f"{self.name}: rows {start} to {self.lost_upto} are gone, transaction {txid} needs them")
        return tuple((self.name, position) for position in range(start, end))

    def correct(self, numbers: Collection[int]) -> None:
        """Forget what these batches were: their data were corrected."""
        for number in numbers:
            self.splits.pop(number, None)

    def success(self, txid: int) -> None:
        """Transactions succeed in order, at least once."""
        if txid > self.succeeded + 1:
            raise Violation("S5", f"{self.name}: success of {txid} after that of {self.succeeded}")
        self.succeeded = max(txid, self.succeeded)


@define
class SourceCoordinator(BatchCoordinator[list[int]]):
    """One leader's coordinator of a source: batch by batch, from where the one before ends."""

    world: World
    source: Source
    handed_out: int = 0

    def is_ready(self, txid: int) -> bool:
        """Whether there is more than was handed out; after a restart nobody knows, and the batch may be empty."""
        return self.source.available > self.handed_out

    def corrected(self, definitions: Mapping[int, list[int]]) -> Correction[list[int]] | None:
        """The first batch has a row more now, which the next one has no more."""
        first, *later = sorted(definitions)
        start, end = definitions[first]
        if end >= self.source.available:
            return None
        new = {first: [start, end + 1]}
        for number in later:
            begun, ended = definitions[number]
            new[number] = [max(begun, end + 1), max(ended, end + 1)]
        return Correction(
            what="rows have changed", checked="", before=str([start, end]), now=str(new[first]), definitions=new
        )

    def initialize_transaction(
        self, txid: int, prev_metadata: list[int] | None, curr_metadata: list[int] | None
    ) -> list[int]:
        """From where the one before ends, up to anywhere."""
        if self.world.chance.happens("coordinator fails"):
            raise ValueError("the source is out of reach")
        if curr_metadata is not None and self.source.exact:
            return curr_metadata
        start = prev_metadata[1] if prev_metadata else 0
        most = min(BATCH_ROWS, self.source.available - start)
        end = start + self.world.chance.pick("batch size", range(1, most + 1)) if most > 0 else start
        self.handed_out = end  # what an opaque source gave for a later transaction is given again
        return [start, end]
