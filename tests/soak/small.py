"""What the soak of small transactions runs: a topology that stays in resident tasks, thousands of batches a round."""

from __future__ import annotations

from attrs import define, field

from coordinators.record.wishes import Rate
from tests.soak.load import KEYS, PATIENCE_SECONDS, SLOW_PENDING, TOPOLOGY, Updates
from trident_py import MapGet, StateFactory, Sum, TridentQuery, TridentTopology

BATCHES = 5_000


@define(eq=False)
class SmallLoad:
    """A topology and its input.

    Attributes:
        sums: the state in which updates are summed.
        slow: the rate of its slow rounds.
    """

    slow = Rate(batches_per_second=500.0, pending=SLOW_PENDING)
    sums: StateFactory
    _updates: Updates = field(factory=lambda: Updates(large=False), init=False)

    def topology(self) -> TridentTopology:
        """A function over the rows of each batch, a state, and requests."""
        topology = TridentTopology(TOPOLOGY)
        updates = topology.new_stream("updates", self._updates)
        doubled = updates.map(lambda row: (row.key, 2 * row.amount), "key bigint, amount bigint")
        sums = doubled.group_by("key").persistent_aggregate(self.sums, Sum("amount"), "sum")
        asked = topology.new_drpc_stream("sum").map(lambda row: (int(row.args) % KEYS,), "key bigint").group_by("key")
        asked.state_query(sums, "key", MapGet(), "sum bigint")
        return topology

    def burst(self, query: TridentQuery) -> None:
        """Have everything work once; to be called first."""
        self.round(query)

    def round(self, query: TridentQuery) -> None:
        """Hand out batches, ask something, and return when all is committed."""
        self._updates.allow(BATCHES)
        query.process_all_available(PATIENCE_SECONDS)
        query.execute("sum", "1", PATIENCE_SECONDS)
