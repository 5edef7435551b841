"""An output that notes how it is asked to commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from coordinators.protocol.protocol import StreamId
from tests.unit.trident_py.engine.driving import Driven
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.participants.capabilities import Capabilities
from trident_py.participants.participant import Participant

SECS, PATIENCE_SECONDS = 7, 5
"""What each commit takes, and what is taken for granted."""


_OURS = Capabilities(keeps_alive=True, takes_groups=True)


@define
class Steps(Participant):
    """Notes what commits in one step, of which group, and who is said to be alive meanwhile."""

    name: str = "steps"
    capabilities: Capabilities = _OURS
    taken: list[list[int]] = field(factory=list)
    groups: set[int | None] = field(factory=set)
    alive: list[set[int]] = field(factory=list)
    breaks: int = 0
    world: Driven | None = None
    now: list[float] = field(factory=lambda: [0.0])

    def prepare(self, tx: SinkTransaction, frame: Any, collect: Any) -> None:
        raise NotImplementedError

    def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
        assert self.world
        if group[0][0].key.txid == self.breaks:
            raise KeyboardInterrupt
        self.now[0] += SECS
        self.taken.append([tx.key.txid for tx, _ in group])
        self.groups |= {tx.group_first for tx, _ in group}
        streams = self.world.streams
        self.alive.append(
            {attempt.txid for attempt, stream in self.world.turn(streams.alive) if stream is StreamId.COMMIT}
        )
