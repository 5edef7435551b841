"""A model of Storm's Trident at small scope: everything that it stores, in the order in which it stores it.

Three transactions over one partition, two of them pending at a time. The first attempt of the second one fails in its
commit, and is replayed. An exact spout gives it the same line again, an opaque one gives it two. A test stops the model
after each of its writes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from trident_py.storm.states import StormKind

LINES = ("a x", "b x", "a x", "b x", "a x", "b x", "a x")
EXACT, OPAQUE, FULL = "exact", "opaque", "full"


def counted(lines: int) -> Counter[str]:
    """Return how often each word is in the first lines."""
    return Counter(word for line in LINES[:lines] for word in line.split())


@frozen
class StateModel:
    """A state: each of its tasks has some of the keys."""

    kind: StormKind
    tasks: int

    def has(self, task: int, key: str) -> bool:
        return self.tasks == 1 or (key == "x") == (task == 0)


@define
class StormModel:
    """A topology of Storm and its stores.

    Attributes:
        spout: which kind of spout it has.
        states: its states.
        spout_first: whether the spout commits before the states; Storm lets both happen at once.
        cleans_first: whether the spout is notified of a success before the next transaction is stored.
        nodes: the znodes of the spout.
        values: the stored texts of each state.
    """

    spout: str
    states: Sequence[StateModel]
    spout_first: bool
    cleans_first: bool
    nodes: dict[str, str] = field(factory=dict, init=False)
    values: list[dict[str, str]] = field(init=False)
    _attempts: dict[int, int] = field(factory=dict, init=False)
    _batches: dict[int, dict[str, int]] = field(factory=dict, init=False)  # of the live attempts

    def __attrs_post_init__(self) -> None:
        self.values = [{} for _ in self.states]

    def run(self) -> Iterator[None]:
        """Yield before the first write, and after each one."""
        yield
        yield from self._emit(1, 0)
        yield from self._emit(2, 0)
        yield from self._commit(1)
        yield from self._succeed(1)
        yield from self._emit(3, 0)
        commit = self._commit(2)
        next(commit)
        yield  # and its commit fails
        yield from self._emit(2, 1)
        yield from self._emit(3, 1)
        yield from self._commit(2)
        yield from self._succeed(2)
        yield from self._commit(3)
        yield from self._succeed(3)

    def _emit(self, txid: int, attempt: int) -> Iterator[None]:
        self._attempts[txid] = attempt
        yield from self._put("coordinator/currattempts", {str(each): id for each, id in self._attempts.items()})
        start = self._batches.get(txid - 1, {"to": 0})["to"]
        size = 2 if self._may_differ and attempt else 1
        self._batches[txid] = batch = {"from": start, "to": start + size}
        yield from self._put(f"coordinator/meta/{txid}", batch if self.spout == FULL else 1)
        if self.spout == EXACT and f"user/p/{txid}" not in self.nodes:
            yield from self._put(f"user/p/{txid}", batch)
        elif self.spout == OPAQUE:
            yield from self._delete([f"user/p/{txid}"])

    @property
    def _may_differ(self) -> bool:
        """Whether a replay has another batch; Storm itself counts wrongly if a state is transactional then."""
        return self.spout == OPAQUE and all(state.kind is StormKind.OPAQUE for state in self.states)

    def _commit(self, txid: int) -> Iterator[None]:
        batch = self._batches[txid]
        if self.spout == OPAQUE and self.spout_first:
            yield from self._put(f"user/p/{txid}", batch)
        counts = counted(batch["to"]) - counted(batch["from"])
        for number, state in enumerate(self.states):
            for task in range(state.tasks):
                mine = {key: count for key, count in counts.items() if state.has(task, key)}
                stored = self.values[number]
                stored |= {key: updated(state.kind, txid, stored.get(key), count) for key, count in mine.items()}
                yield
        if self.spout == OPAQUE and not self.spout_first:
            yield from self._put(f"user/p/{txid}", batch)

    def _succeed(self, txid: int) -> Iterator[None]:
        done = [each for each in self.nodes if each.rpartition("/")[2].isdecimal()]
        old = [each for each in done if int(each.rpartition("/")[2]) < txid]
        if self.cleans_first:
            yield from self._delete(old)
        yield from self._put("coordinator/currtx", txid + 1)
        if not self.cleans_first:
            yield from self._delete(old)

    def _put(self, path: str, value: object) -> Iterator[None]:
        self.nodes[path] = json.dumps(value)
        yield

    def _delete(self, paths: Sequence[str]) -> Iterator[None]:
        for path in paths:
            if self.nodes.pop(path, None) is not None:
                yield


def updated(kind: StormKind, txid: int, text: str | None, count: int) -> str:
    """Return the stored text after a batch with so many of a word, as Storm's three maps write it."""
    stored: Any = None if text is None else json.loads(text)
    if kind is StormKind.NON_TRANSACTIONAL:
        return json.dumps((stored or 0) + count)
    if stored is None:
        return json.dumps([txid, count, None] if kind is StormKind.OPAQUE else [txid, count])
    if kind is StormKind.TRANSACTIONAL:
        return json.dumps(stored if stored[0] == txid else [txid, stored[1] + count])
    before = stored[2] if stored[0] == txid else stored[1]
    return json.dumps([txid, (before or 0) + count, before])


def stored_nodes(model: StormModel) -> Mapping[str, bytes]:
    """Return the znodes of the spout."""
    return {path: text.encode() for path, text in model.nodes.items()}
