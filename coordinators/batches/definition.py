"""The definition of one transaction: the part of each spout, and how far it has come."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum

from attrs import define, field

from coordinators.values.canonical import Json
from coordinators.values.fingerprint import Fingerprint


class Stage(IntEnum):
    """How far a transaction has come. No transaction is further than the one before it."""

    OPEN = 0
    """A spout has to be asked for it, or the one before it is open."""

    DEFINED = 1
    """The parts of all spouts stand: an attempt may start."""

    ATTEMPTED = 2
    """An attempt is live."""

    CLOSED = 3
    """It is committed."""


@define(kw_only=True)
class SpoutPart:
    """What one spout has said about a transaction.

    Attributes:
        metadata: what it consists of.
        bytes: how long ``metadata`` was as JSON when the spout returned it; 0: a record has it.
        moves: the cursors that move when its first attempt starts; None: that has been, so the part is durable.
        stands: the next attempt goes by it. Otherwise the spout is asked again, and is told ``metadata``.
        resolved: the cursors that move when the live attempt is closed.
        fingerprint: what the rows of an attempt were, where the spout has promised the same.
    """

    metadata: Json
    bytes: int = 0
    moves: Mapping[str, Json] | None = None
    stands: bool = False
    resolved: Mapping[str, Json] = field(factory=dict)
    fingerprint: Fingerprint | None = None

    @property
    def was_attempted(self) -> bool:
        """Whether an attempt was ever made with it, by whatever leader."""
        return self.moves is None


@define
class Definition:
    """All that is known about what a transaction consists of; ``parts`` are by spout."""

    parts: dict[str, SpoutPart] = field(factory=dict)
    stage: Stage = Stage.OPEN

    @property
    def is_new(self) -> bool:
        """Whether no attempt was ever made of it, by whatever leader."""
        return self.stage < Stage.ATTEMPTED and not any(part.was_attempted for part in self.parts.values())

    @property
    def metadata(self) -> dict[str, Json]:
        """What each spout's part consists of."""
        return {spout: part.metadata for spout, part in self.parts.items()}

    @property
    def attempted_metadata(self) -> dict[str, Json]:
        """What the parts consist of with which an attempt was made."""
        return {spout: part.metadata for spout, part in self.parts.items() if part.was_attempted}

    @property
    def fingerprints(self) -> dict[str, Fingerprint]:
        """What the rows of an attempt were, of the parts where that is known."""
        return {spout: part.fingerprint for spout, part in self.parts.items() if part.fingerprint is not None}

    @property
    def bytes(self) -> int:
        """How much there is to store of it."""
        return sum(part.bytes for part in self.parts.values())

    def stands_for(self, spouts: Collection[str]) -> bool:
        """Tell whether none of ``spouts`` has to be asked."""
        return all(spout in self.parts and self.parts[spout].stands for spout in spouts)

    def reopen(self, exact: Collection[str]) -> None:
        """Ask for it again, but for what one of the ``exact`` spouts has said and no attempt was made of."""
        self.stage = Stage.OPEN
        for spout, part in self.parts.items():
            part.resolved = {}
            part.stands = spout in exact and not part.was_attempted

    def check(self, spouts: Collection[str], exact: Collection[str]) -> None:
        """Assert what holds between any two transitions."""
        parts = self.parts.items()
        if self.stage in (Stage.DEFINED, Stage.ATTEMPTED):
            assert self.stands_for(spouts), f"a spout has to be asked, and it is {self.stage.name}: {self}"
        if self.stage >= Stage.ATTEMPTED:
            assert all(part.was_attempted for _, part in parts), (
                f"an attempt was made, and cursors haven't moved: {self}"
            )
        if self.stage is not Stage.ATTEMPTED:
            assert not any(part.resolved for _, part in parts), f"no attempt is live, and one has moved cursors: {self}"
        for spout, part in parts:
            if spout in exact and not part.was_attempted:
                assert part.stands, f"spout {spout!r} says a thing once, and would be asked again: {self}"

    def check_behind(self, before: Definition, number: int) -> None:
        """Assert what holds between this transaction, ``number``, and the one before it."""
        assert before.stage >= self.stage, f"{number} is ahead of the one before it: {before}, {self}"
        is_next = before.stage is Stage.CLOSED or not before.is_new or self.is_new
        assert is_next, f"{number} was attempted, and the one before it never: {before}, {self}"
