"""A state in several parts, as Storm has one for each task: ``parallelism_hint`` says how many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar
from zlib import crc32

from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import Key, State, StateFactory
from trident_py.states.keys import encode_keys

V = TypeVar("V")


def made(factory: StateFactory, config: TridentConfig, metrics: Metrics, parts: int = 1) -> State:
    """The state of a factory, in so many parts."""
    states = [factory.make_state(config, metrics, number, parts) for number in range(parts)]
    return states[0] if parts == 1 else PartitionedState(states)


class PartitionedState(State):
    """The parts of one state, each of which its factory has made; all take part in every transaction, in order.

    Which part a key is in depends on the key and the number of parts only. So with another number keys move: parts over
    one store don't mind, parts with a store of their own do (as in Storm).
    """

    def __init__(self, parts: Sequence[State]) -> None:
        self.parts = tuple(parts)

    def begin_commit(self, txid: int) -> None:
        """Of every part, also one that gets nothing."""
        for part in self.parts:
            part.begin_commit(txid)

    def commit(self, txid: int) -> None:
        """Of every part."""
        for part in self.parts:
            part.commit(txid)


def parts_of(state: State) -> tuple[State, ...]:
    """What factories made: the parts of a state, or the state itself."""
    return state.parts if isinstance(state, PartitionedState) else (state,)


def spread(state: State, keys: Sequence[Key]) -> Iterator[tuple[State, list[int]]]:
    """Every part of ``state``, and the positions of its keys in ``keys``."""
    parts = parts_of(state)
    if len(parts) == 1:
        yield parts[0], list(range(len(keys)))
        return
    numbers = [crc32(text.encode()) % len(parts) for text in encode_keys(keys)]
    for number, part in enumerate(parts):
        yield part, [position for position, its in enumerate(numbers) if its == number]


def gathered(found: Sequence[tuple[Sequence[int], Sequence[V]]], count: int) -> list[V]:
    """What was found for each part's positions, in the order of the ``count`` keys."""
    values: list[Any] = [None] * count
    for positions, its in found:
        for position, value in zip(positions, its, strict=True):
            values[position] = value
    return values
