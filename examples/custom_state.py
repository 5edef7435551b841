"""Counts words into a key-value store of our own, exactly once: a directory with a JSON file for each key.

The store knows nothing of transactions: it gets and puts. `OpaqueMap` makes a state of it, by keeping the transaction
and the value before it beside each value, so that a batch that is replayed starts from there and is not counted again.
Whatever holds values by key can take the place of the files::

    python examples/custom_state.py      kill it whenever you like, and start it again
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trident_py import TridentTopology
from trident_py.operations import Count
from trident_py.spouts import FileSpout
from trident_py.states import IBackingMap, JSONOpaqueSerializer, OpaqueMap, OpaqueValue


class Directory(IBackingMap[OpaqueValue[int]]):
    """A file for each key."""

    def __init__(self, path: Path) -> None:
        self.path, self.json = path, JSONOpaqueSerializer()
        path.mkdir(exist_ok=True)

    def multi_get(self, keys: Sequence[Sequence[Any]]) -> list[OpaqueValue[int] | None]:
        files = [self.file(key) for key in keys]
        return [self.json.deserialize(file.read_bytes()) if file.exists() else None for file in files]

    def multi_put(self, keys: Sequence[Sequence[Any]], values: Sequence[OpaqueValue[int]]) -> None:
        for key, value in zip(keys, values, strict=True):
            with open(draft := self.path / "_draft", "wb") as file:
                file.write(self.json.serialize(value))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.file(key))  # whole or not at all
        directory = os.open(self.path, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)

    def file(self, key: Sequence[Any]) -> Path:
        return self.path / (quote("/".join(map(str, key)), safe="") + ".json")


topology = TridentTopology("custom-state")
(
    topology.new_stream("lines", FileSpout("logs/*.txt"))
    .flat_map(lambda line: [(word,) for word in line.value.split()], "word string")
    .group_by("word")
    .persistent_aggregate(OpaqueMap.factory(lambda: Directory(Path("counts")), cache_size=10_000), Count(), "count")
)

if __name__ == "__main__":
    print(topology.explain())
    with topology.start() as query:
        query.process_all_available()
    for file in sorted(Path("counts").glob("*.json")):
        print(file.stem, JSONOpaqueSerializer().deserialize(file.read_bytes()).curr)
