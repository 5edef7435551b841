"""A topology that doesn't run in this process, as its page shows it: read from its history and its record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field

from coordinators.backends.coordination import Coordination
from coordinators.record.wishes import Wish
from coordinators.status.candidate import Leader
from coordinators.status.description import TopologyDescription
from coordinators.values.canonical import Json
from coordinators.values.secret import Secret
from trident_py.engine.ports.requests import RequestAnswer
from trident_py.errors import TridentError
from trident_py.history.entries import LeadershipEntry
from trident_py.history.topology import TopologyHistory
from trident_py.history.transactions import TransactionHistory
from trident_py.interfaces.ingest import RETRY_SECONDS, IngestAnswer, IngestRequest
from trident_py.web.facts import Snapshot, status_facts, wait_facts
from trident_py.web.shown import TRANSACTIONS_SHOWN
from trident_py.wishing import WishAnswer, answer_to

LOOK_AGAIN_SECONDS = 2.0
"""Seconds between two reads from the coordination, each of which needs a new connection."""


@define(eq=False)
class StoredTopology:
    """Reads the stored data of a topology.

    Attributes:
        place: the place of its history, which one thread reads.
        coordination: reads its record, and stores wishes; None: it is unreachable.
    """

    name: str
    place: Path | Secret | None
    coordination: Coordination | None
    _opened: TopologyHistory | None = field(default=None, init=False)
    _description: TopologyDescription | None = field(default=None, init=False)
    _look_at: float = field(default=0.0, init=False)

    @property
    def epoch(self) -> None:
        """None: this process doesn't lead."""
        return

    def snapshot(self) -> Snapshot:
        """Return the topology as it was last stored."""
        history = self._history
        leadership, now = history.leaderships[-1], time.time()
        status = self._status(leadership, now)
        return Snapshot(self.name, now, bool(status["leader"]), status, history.last(TRANSACTIONS_SHOWN))

    @property
    def _history(self) -> TopologyHistory:
        """Its history, with its present leaderships."""
        self._opened = self._opened.refreshed() if self._opened else TopologyHistory.of(self.name, self.place)
        return self._opened

    def _status(self, leadership: LeadershipEntry, now: float) -> dict[str, object]:
        description = self._described(now)
        if description is None:
            return {**_ended(leadership), "hold": "nothing", "rate": {}, "reason": ""}
        facts = status_facts(description.status(now), description.leader)
        if description.leader is None:
            return {**facts, **_ended(leadership)}
        is_its = (leadership.life, leadership.epoch) == (description.identity, description.epoch)
        return {**facts, "waits_for": wait_facts(leadership.waits_for) if is_its else []}

    def _described(self, now: float) -> TopologyDescription | None:
        if self.coordination is not None and time.monotonic() >= self._look_at:
            try:
                self._description = self.coordination.describe(self.name)
            except TridentError:
                self._description = None
            self._look_at = time.monotonic() + LOOK_AGAIN_SECONDS
        return self._description

    def last(self, transactions_max: int, *, failed: bool) -> Sequence[TransactionHistory]:
        """Return the last transactions."""
        return self._history.last(transactions_max, failed=failed)

    def transaction(self, txid: int) -> TransactionHistory:
        """Return one transaction."""
        return self._history.transaction(txid)

    def plan(self) -> Sequence[Json]:
        """Return the nodes of the graph that ran last."""
        return self._history.leaderships[-1].program.plan

    def wish(self, wish: Wish, seconds: float) -> WishAnswer:
        """Store a wish for its present or next leader."""
        if self.coordination is None:
            raise TridentError(f"topology {self.name!r}: where its record is can't be reached from here")
        return answer_to(wish, self.name, self.coordination, seconds)

    def elsewhere(self) -> Leader | None:
        """Return the process that leads it."""
        return self.coordination.describe(self.name).leader if self.coordination else None

    def ingest(self, stream: str, request: IngestRequest) -> IngestAnswer:
        """Refuse rows, since no process runs the topology."""
        return IngestAnswer(503, {"error": f"no process leads topology {self.name!r}"}, RETRY_SECONDS)

    def answer(self, function: str, args: str, seconds: float) -> RequestAnswer:
        """Refuse the request, since this process doesn't have the topology's states.

        Raises:
            TridentError: always.
        """
        raise TridentError(f"no process leads topology {self.name!r}, so there is no answer", topology=self.name)

    def metrics(self) -> None:
        """Return None: only the leader measures."""
        return


def _ended(leadership: LeadershipEntry) -> dict[str, object]:
    """Return the facts of the last leadership, if no process leads now, or if that is unknown."""
    state = "failed" if leadership.error else "not running" if leadership.ended else "not known"
    message = {
        "failed": f"ended: {leadership.error}",
        "not running": "not running",
        "not known": "how it is now isn't known here: only its history can be read",
    }[state]
    return {"state": state, "message": message, "error": leadership.error or None, "waits_for": [], "leader": None}
