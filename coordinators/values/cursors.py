"""Cursors: positions too many to rewrite with every batch, one JSON value per key, in shards of neighbouring keys.

A `Cursors` is a value: an update returns a new one that shares every shard that it did not change. So the cost of
storing a batch depends on the keys it moves, not on their total number. For example, the offsets of 1 790 files are 137
KiB.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

from attrs import field, frozen

from coordinators.values.canonical import Json, canonical_json, content_digest

SHARD_BYTES_MAX = 64 * 1024


@frozen
class CursorShard:
    """The cursors of one range of keys, and their JSON text (an object, keys sorted)."""

    name: str
    first_key: str
    values: Mapping[str, Json]
    text: str = field(eq=False)
    digest: str = field(init=False, eq=False)

    @digest.default
    def _digest_of_text(self) -> str:
        # Computed once per shard, not once per record that contains it: most shards never change.
        return content_digest(self.text)

    @classmethod
    def of(cls, name: str, values: Mapping[str, Json]) -> CursorShard:
        """Return a shard of at least one cursor."""
        return cls(name, min(values), values, canonical_json(dict(values)))

    @classmethod
    def parse(cls, name: str, text: str) -> CursorShard:
        """Return the shard that was stored as ``text``."""
        values = json.loads(text)
        return cls(name, min(values), values, text)


@frozen
class Cursors:
    """All cursors of one spout, sorted by key into shards of at most 64 KiB."""

    shards: tuple[CursorShard, ...] = ()

    def updated(self, changes: Mapping[str, Json]) -> Cursors:
        """Return these cursors with ``changes`` applied; untouched shards are the same objects."""
        if not changes:
            return self
        bounds = [shard.first_key for shard in self.shards[1:]]
        touched: dict[int, dict[str, Json]] = {}
        for key, value in changes.items():
            index = bisect_right(bounds, key)
            values = touched.setdefault(index, dict(self.shards[index].values) if self.shards else {})
            values[key] = value
        names = _fresh_names(shard.name for shard in self.shards)
        shards: list[CursorShard] = []
        for index in range(max(1, len(self.shards))):
            if index not in touched:
                shards.append(self.shards[index])
                continue
            first_name = self.shards[index].name if self.shards else next(names)
            pieces = list(_split(touched[index]))
            shards.append(CursorShard.of(first_name, pieces[0]))
            shards.extend(CursorShard.of(next(names), piece) for piece in pieces[1:])
        return Cursors(tuple(shards))

    def items(self) -> Iterator[tuple[str, Json]]:
        """Yield every cursor, by key."""
        for shard in self.shards:
            yield from shard.values.items()


def _split(values: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """Yield ``values`` in sorted pieces small enough for a shard; halves, so that further keys fit."""
    if len(values) == 1 or len(canonical_json(dict(values)).encode()) <= SHARD_BYTES_MAX:
        yield dict(sorted(values.items()))
        return
    keys = sorted(values)
    middle = len(keys) // 2
    yield from _split({key: values[key] for key in keys[:middle]})
    yield from _split({key: values[key] for key in keys[middle:]})


def _fresh_names(taken: Iterable[str]) -> Iterator[str]:
    number = 1 + max((int(name) for name in taken), default=-1)
    while True:
        yield str(number)
        number += 1
