"""Speed limits and patience of a leadership, as one value."""

from __future__ import annotations

from attrs import frozen


# large: one field for each setting
@frozen(kw_only=True)
class LeadershipSettings:
    """The settings of one leadership. Durations are seconds.

    Attributes:
        max_spout_pending: transactions that may be in progress at once.
        message_timeout: silence after which a phase fails.
        batch_interval: between two new batches, at least.
        idle_turn: after which a turn is taken even if no message arrives, so that leadership is proved in time.
        store_intents: whether the attempts that are about to commit are stored before their commit begins.
        group_max: how many transactions may commit in one step of every state.
        attempts: failures by a batch's own code after which the topology ends.
        backoff: before the first replay; doubles with each further one.
        backoff_max: the longest wait between two replays.
        source_patience: how long to wait for an unreachable source; None: no limit.
        store_patience: the same for the store of a state or sink.
        stored_spouts: the spouts that can't emit a batch again after its success: when a transaction is parked, their
            rows are stored.
        parks_poison: whether a transaction that has failed too often is parked; otherwise the topology ends.
        lettered: the branches whose bad rows the topology keeps as dead letters.
        windows: the outputs that are windows, joins over time or functions with timers: no transaction is parked by
            policy because one of them fails.
        drops_late: those of them, by event time, without a reader of their late rows. A release may have such rows, so
            it is refused, unless the operator accepts the loss.
        park_max: how many transactions may be parked before the next poisoned one ends the topology.
    """

    max_spout_pending: int
    message_timeout: float
    batch_interval: float = 0.0
    idle_turn: float = 1.0
    store_intents: bool = False
    group_max: int = 1
    attempts: int = 5
    backoff: float = 0.1
    backoff_max: float = 30.0
    source_patience: float | None = None
    store_patience: float | None = None
    stored_spouts: frozenset[str] = frozenset()
    parks_poison: bool = False
    lettered: frozenset[str] = frozenset()
    windows: frozenset[str] = frozenset()
    drops_late: frozenset[str] = frozenset()
    park_max: int = 100
