"""What a leadership's settings are: what the user has set, and in which way all that commits can do so."""

from __future__ import annotations

from collections.abc import Sequence

from coordinators.values.settings import LeadershipSettings
from trident_py.graph.queries import state_queries
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.spouts import Replay
from trident_py.participants.participant import Participant
from trident_py.planner.plan import Plan
from trident_py.spouts.partition_executor import PartitionedSpoutAdapter


def settings_of(
    plan: Plan, config: TridentConfig, participants: Sequence[Participant], *, has_committer_spouts: bool
) -> LeadershipSettings:
    """Return the settings of a leadership over ``plan``, whose outputs are ``participants``."""
    store_intents = _needs_intents(plan, participants)
    alone = store_intents or has_committer_spouts
    return LeadershipSettings(
        max_spout_pending=config.max_spout_pending,
        message_timeout=config.message_timeout,
        batch_interval=config.batch_interval,
        idle_turn=min(1.0, config.session_timeout / 6),
        store_intents=store_intents,
        group_max=config.max_spout_pending if _take_groups(participants) and not alone else 1,
        attempts=config.retry.attempts,
        backoff=config.retry.backoff,
        backoff_max=config.retry.backoff_max,
        source_patience=config.source_patience,
        store_patience=config.store_patience,
    )


def _take_groups(participants: Sequence[Participant]) -> bool:
    """Tell whether all that commit, if anything does, can commit several transactions in one step."""
    committing = [participant for participant in participants if participant.capabilities.commits]
    return bool(committing) and all(participant.takes_groups for participant in committing)


def _needs_intents(plan: Plan, participants: Sequence[Participant]) -> bool:
    """Tell whether it adds anything to store which attempt is about to commit."""
    opaque = any(spout.spout.replay is not Replay.EXACT for spout in plan.spouts)
    resolving = any(isinstance(spout.spout, PartitionedSpoutAdapter) for spout in plan.spouts)
    asking = bool(state_queries(plan.graph))  # and what they answer depends on when they are asked
    unfenced = not all(participant.capabilities.is_fenced for participant in participants)
    return opaque or resolving or asking or unfenced
