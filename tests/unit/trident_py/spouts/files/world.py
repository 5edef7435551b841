"""A `FileSpout` as the driver runs it, with a clock of the test's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import json_copy
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, emitted
from trident_py.spouts.files.cursor import STILL_SECONDS
from trident_py.spouts.files.files import BATCH_BYTES_MAX, FileCoordinator, FileSpout
from trident_py.spouts.files.paths import PathPattern

Row = tuple[str, str, int]


class World:
    """One transaction after the other, metadata through JSON, cursors kept."""

    def __init__(self, glob: str | os.PathLike[str], **options: Any) -> None:
        self.glob, self.options = glob, options
        self.now = 1000.0
        self.txid = 1
        self.cursors: dict[str, Any] = {}
        self.stored: list[Any] = []
        self.restart()

    def restart(self) -> None:
        """Another process goes on from what was stored; its clock begins anew."""
        self.now = -self.now
        most = self.options.get("max_bytes_per_batch", BATCH_BYTES_MAX)
        self.coordinator = FileCoordinator(PathPattern.of(self.glob), most, lambda: self.now)
        cursors: Any = json_copy(dict(sorted(self.cursors.items())))
        self.coordinator.restore(cursors)
        self.emitter: Any = FileSpout(self.glob, **self.options).get_emitter("lines", CONF, CONTEXT)

    def pass_time(self, seconds: float = STILL_SECONDS) -> None:
        """Only the clock moves."""
        self.now += seconds

    def define(self) -> Any:
        """The next batch's metadata; None: nothing is ready."""
        if not self.coordinator.is_ready(self.txid):
            return None
        metadata: Any = json_copy([*self.coordinator.initialize_transaction(self.txid, None, None)])
        assert metadata
        self.cursors.update(self.coordinator.moved(metadata))
        self.stored.append(metadata)
        self.txid += 1
        return metadata

    def rows(self, metadata: Any) -> list[Row]:
        """What the emitter reads."""
        return emitted(self.emitter, TransactionAttempt(self.txid, 0), metadata)

    def batches(self) -> Iterator[list[Row]]:
        """The rows of each batch that is ready at this moment."""
        while metadata := self.define():
            yield self.rows(metadata)

    def all(self) -> list[list[Row]]:
        """The rows of all batches, until nothing is pending either: as `process_all_available`."""
        found = list(self.batches())
        while self.coordinator.has_pending_input():
            self.pass_time()
            found += self.batches()
        return found

    def lines(self) -> list[str]:
        """The text of all lines of `all`."""
        return [text for rows in self.all() for text, _, _ in rows]


def write(path: Path, data: bytes) -> Path:
    """Append ``data``."""
    with path.open("ab") as file:
        file.write(data)
    return path
