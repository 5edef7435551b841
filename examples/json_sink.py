"""Writes the words of text files into JSON files, each word exactly once: a sink of our own.

A batch is a file. Its name is the commit token, and it becomes visible by one rename, so rows and token can't part::

    python examples/json_sink.py      kill it whenever you like, and start it again

Drafts are in a directory of the leader's epoch. A new leader moves that of the one before it out of the way, so what
that one may still try to write or to rename fails.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trident_py import (
    CommitToken,
    FencedError,
    SinkError,
    SinkTransaction,
    TopologyKey,
    TransactionalSink,
    TridentTopology,
)
from trident_py.spouts import FileSpout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class JsonFiles(TransactionalSink[Path]):
    """A directory with a file ``txid-epoch-attempt.json`` for each batch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last: CommitToken | None = None

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        self.path.mkdir(exist_ok=True)
        owner, ours = self.path / "_owner", f"{topology.uuid} {topology.incarnation}"
        if not owner.exists():
            write(draft := self.path / "_owner-draft", [ours])
            draft.rename(owner)
        if owner.read_text() != ours:
            raise SinkError(
                f"{self.path} was written by another topology than {topology.name!r}; take another directory"
            )
        self.drafts(epoch).mkdir(exist_ok=True)
        for drafts in self.path.glob("_drafts-*"):
            other = int(drafts.name.removeprefix("_drafts-"))
            if other > epoch:
                raise FencedError(f"a newer leader writes to {self.path}")
            if other < epoch:
                drafts.rename(self.path / f"_swept{drafts.name}")
        for swept in self.path.glob("_swept*"):
            shutil.rmtree(swept)
        self.last = max((token_of(file) for file in self.path.glob("*-*-*.json")), default=None)
        return self.last

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> Path:
        draft = self.drafts(tx.epoch) / f"{tx.txid}-{tx.epoch}-{tx.attempt.attempt_id}.json"
        write(draft, (json.dumps(row.asDict()) + "\n" for row in frame.toLocalIterator()))
        return draft

    def commit(self, tx: SinkTransaction, receipt: Path) -> None:
        if self.last is not None and tx.txid <= self.last.txid:
            receipt.unlink(missing_ok=True)  # it was committed before, and comes again since the answer was lost
            return
        try:
            receipt.rename(self.path / receipt.name)
        except FileNotFoundError as error:
            raise FencedError(f"a newer leader writes to {self.path}") from error
        self.last = tx.token
        sync(self.path)

    def abort(self, tx: SinkTransaction, receipt: Path | None) -> None:
        if receipt is not None:
            receipt.unlink(missing_ok=True)

    def drafts(self, epoch: int) -> Path:
        return self.path / f"_drafts-{epoch}"


def token_of(file: Path) -> CommitToken:
    """What the name of a committed file says."""
    return CommitToken(*map(int, file.stem.split("-")))


def write(path: Path, text: Iterable[str]) -> None:
    """Write a file, and have it on the disk."""
    with path.open("w") as file:
        file.writelines(text)
        file.flush()
        os.fsync(file.fileno())


def sync(directory: Path) -> None:
    """Have the names of a directory on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


topology = TridentTopology("json-words")
(
    topology.new_stream("lines", FileSpout("logs/*.txt"))
    .flat_map(lambda line: [(word,) for word in line.value.split()], "word string")
    .write_to(JsonFiles(Path("words")))
)

if __name__ == "__main__":
    print(topology.explain())
    with topology.start() as query:
        query.process_all_available()
    for file in sorted(Path("words").glob("*.json"), key=token_of):
        print(file.name, len(file.read_text().splitlines()))
