"""A user's own state, adapted to the commit protocol of fenced states: it has no token and no rollback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from trident_py.errors import StateError
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.interfaces.states import (
    GroupState,
    Key,
    MapState,
    RemovableMapState,
    Snapshottable,
    State,
    ValueUpdater,
    combiner_updater,
)
from trident_py.rows.schema import shown
from trident_py.states.maps import SnapshottableMap
from trident_py.states.shards import gathered, shards_of, spread


def group_state(state: State) -> GroupState[Any]:
    """Return ``state`` as commits use it: itself if it is fenced, else adapted."""
    return state if isinstance(state, GroupState) else UnfencedState(state)


def check_values(state: State, *, by_key: bool) -> None:
    """Check that a state has values by key, or the one value that is needed.

    Raises:
        StateError: it hasn't.
    """
    for shard in shards_of(state):
        if not isinstance(shard, MapState if by_key else Snapshottable | MapState):
            names = "a MapState" if by_key else "a Snapshottable or MapState"
            raise StateError(f"persistent_aggregate needs {names}, its factory made {shown(shard)}")


@define(eq=False)
class UnfencedState(GroupState[Any]):
    """Runs Storm's ``begin_commit`` and ``commit`` under the commit protocol, one transaction after the other."""

    state: State
    _open: SinkTransaction | None = field(default=None, init=False)

    is_fenced = False

    @property
    def can_remove(self) -> bool:
        """Whether an updater may return `REMOVE`."""
        inner = [shard.state if isinstance(shard, SnapshottableMap) else shard for shard in shards_of(self.state)]
        return all(isinstance(each, RemovableMapState) for each in inner)

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Return None: a user's state keeps no token."""
        return None

    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Return all members: a user's state handles replays itself."""
        self._open = None
        return members

    def begin_member(self, tx: SinkTransaction) -> None:
        """End the previous member, and begin with ``tx``."""
        if self._open is not None:
            self.commit_group()
        self.state.begin_commit(tx.txid)
        self._open = tx

    def commit_group(self) -> None:
        """End the last member."""
        if self._open is not None:
            self.state.commit(self._open.txid)
        self._open = None

    def rollback(self) -> None:
        """Drop the open transaction; the user's state keeps its writes."""
        self._open = None

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        """Raise an error: a user's state is queried by its own methods."""
        raise AssertionError("commits ask only fenced states for values")

    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[Any]]) -> list[Any]:
        """Update each shard in one call, in the order of the shards; a value that is not grouped by its own method."""
        if not keys:
            return []
        found = [
            (
                positions,
                _update_shard(shard, [keys[each] for each in positions], [updaters[each] for each in positions]),
            )
            for shard, positions in spread(self.state, keys)
            if positions
        ]
        return gathered(found, len(keys))

    def multi_merge(
        self, keys: Sequence[Key], values: Sequence[Any], aggregator: CombinerAggregator[Any], *, returns: bool = False
    ) -> list[Any]:
        """Combine by updaters, as Storm does."""
        return self.multi_update(keys, [combiner_updater(aggregator, value) for value in values])

    def close(self) -> None:
        """Do nothing: a user's state is the user's to close."""


def _update_shard(shard: State, keys: list[Key], updaters: list[ValueUpdater[Any]]) -> list[Any]:
    if isinstance(shard, Snapshottable) and not any(map(len, keys)):
        return [shard.update(updater) for updater in updaters]
    assert isinstance(shard, MapState)  # check_values
    return shard.multi_update([list(key) for key in keys], updaters)
