"""A state in several shards, like Storm's state per task; ``parallelism_hint`` sets their number.

`ShardedSQLMapState` is another thing: one fenced state in several files, whose number its factory sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar
from zlib import crc32

from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import Key, State, StateFactory
from trident_py.states.keys import encode_keys

V = TypeVar("V")


def made(factory: StateFactory, config: TridentConfig, metrics: Metrics, shards: int = 1) -> State:
    """Return the state of a factory, in ``shards`` shards."""
    states = [factory.make_state(config, metrics, number, shards) for number in range(shards)]
    return states[0] if shards == 1 else PartitionedState(states)


class PartitionedState(State):
    """The shards of one state, made by one factory; all take part in every transaction, in order.

    The shard of a key depends only on the key and the number of shards. So keys move if the number changes. This is
    safe if all shards share one store. With a store for each shard, the values
    of the moved keys are no longer found (as in Storm).
    """

    def __init__(self, shards: Sequence[State]) -> None:
        self.shards = tuple(shards)

    def begin_commit(self, txid: int) -> None:
        """Begin in every shard, even in one without changes."""
        for shard in self.shards:
            shard.begin_commit(txid)

    def commit(self, txid: int) -> None:
        for shard in self.shards:
            shard.commit(txid)


def shards_of(state: State) -> tuple[State, ...]:
    """Return the shards of a state; a state without shards is its only shard."""
    return state.shards if isinstance(state, PartitionedState) else (state,)


def spread(state: State, keys: Sequence[Key]) -> Iterator[tuple[State, list[int]]]:
    """Yield every shard of ``state`` with the positions of its keys in ``keys``."""
    return spread_over(shards_of(state), keys)


def spread_over(shards: Sequence[State], keys: Sequence[Key]) -> Iterator[tuple[State, list[int]]]:
    """Yield every shard with the positions of its keys in ``keys``."""
    if len(shards) == 1:
        yield shards[0], list(range(len(keys)))
        return
    numbers = shard_numbers(keys, len(shards))
    for number, shard in enumerate(shards):
        yield shard, [position for position, its in enumerate(numbers) if its == number]


def shard_numbers(keys: Sequence[Key], shards: int) -> list[int]:
    """Return the number of the shard of each key; it depends only on the key and on the number of shards."""
    return numbers_of_texts(encode_keys(keys), shards)


def numbers_of_texts(texts: Sequence[str], shards: int) -> list[int]:
    """Return the same numbers, from the texts of the keys. Stored data depends on it."""
    return [crc32(text.encode()) % shards for text in texts]


def gathered(found: Sequence[tuple[Sequence[int], Sequence[V]]], count: int) -> list[V]:
    """Return the results of all shards in the order of the ``count`` keys."""
    values: list[Any] = [None] * count
    for positions, its in found:
        for position, value in zip(positions, its, strict=True):
            values[position] = value
    return values
