"""Files that are read as a whole once they don't change any more: which ones there are, and the batches of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypedDict

from attrs import define, field, frozen

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import CursorCoordinator
from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.spouts import Emitter
from trident_py.spouts.files.columns import Portion, UnreadableFileError, WholeReader
from trident_py.spouts.files.inventory import Inventory, unreadable
from trident_py.spouts.files.places import StoredFile, WholeFile
from trident_py.spouts.files.search import Found, Search
from trident_py.spouts.rest import Rest

BATCH_FILES_MAX = 10_000
"""So many files may be read or left out by one batch."""

METADATA_BYTES_MAX = 64 * 1024
"""The approximate limit of a batch's metadata."""

FILE_BYTES = 48
"""The approximate size of a file's metadata without its path."""

SMALL_BYTES = 64 * 1024
"""The maximum size of a batch that the driver reads itself; then the batch can share a Spark job with others."""


class FileBatch(TypedDict):
    """The metadata of a batch.

    Attributes:
        files: the files that it reads.
        left_out: how many files were left out before the next batch, and the path of the first one; empty: none.
        position: the cursors after it.
    """

    files: list[StoredFile]
    left_out: list[Json]
    position: dict[str, Json]


@define(kw_only=True)
class WholeFileCoordinator(CursorCoordinator[FileBatch]):
    """Defines batches of complete files.

    Attributes:
        clock: returns seconds of a monotonic clock.
        today: returns seconds since 1970.
    """

    search: Search
    inventory: Inventory
    max_bytes: int
    clock: Callable[[], float] = time.monotonic
    today: Callable[[], float] = time.time
    _rest: Rest = field(factory=Rest, init=False)
    _stored: Mapping[str, Json] = field(factory=dict, init=False)
    _left_out: int = field(default=0, init=False)
    _is_open: bool = field(default=False, init=False)

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Continue after the last definition.

        Raises:
            SpoutError: the cursors can't be read.
        """
        if not cursors:
            return
        match cursors.get("left_out"):
            case int() as left_out:
                self.inventory.restore(cursors.get("shards"))
                self._stored, self._left_out = cursors, left_out
            case other:
                raise unreadable(self.inventory.where, other)

    def moved(self, metadata: FileBatch) -> Mapping[str, Json]:
        """Return the names of the shards, and the position."""
        return metadata["position"]

    def is_ready(self, txid: int) -> bool:
        """Return whether a file is complete."""
        self._open()
        if not self.search.pending:
            with self._rest.looking():
                self.search.look(self.clock(), self.today())
        return bool(self.search.pending)

    def has_pending_input(self) -> bool:
        """Return whether a file waits until it has not changed for some time."""
        return self.search.is_waiting

    def initialize_transaction(
        self, txid: int, prev_metadata: FileBatch | None, curr_metadata: FileBatch | None
    ) -> FileBatch:
        """Return complete files up to the maximum size, at least one, or the files that the transaction had before."""
        if curr_metadata is not None:
            return curr_metadata
        self._open()
        taken = next_files(self.search.pending, self.max_bytes)
        self.inventory.add(txid, {each.file.path: each.mark for each in taken})  # durable before the definition
        self.search.define(taken)
        left_out = [each.file.path for each in taken if each.is_left_out]
        self._left_out += len(left_out)
        return FileBatch(
            files=[each.file.stored for each in taken if not each.is_left_out],
            left_out=[len(left_out), left_out[0]] if left_out else [],
            position={"shards": self.inventory.stored, "left_out": self._left_out, **self.search.stored},
        )

    def success(self, txid: int) -> None:
        """Remove shards that were merged."""
        self.inventory.succeed(txid)

    def _open(self) -> None:
        """Read the inventory, unless an earlier call has."""
        if not self._is_open:
            self.search.open(self.inventory.where, self.inventory, self._stored)
            self._is_open = True


def next_files(pending: Iterable[Found], max_bytes: int) -> list[Found]:
    """Return the first files: up to this size, but at least one, and no more than fit into the metadata of a batch."""
    taken: list[Found] = []
    size = metadata_bytes = 0
    has_files = False
    for each in islice(pending, BATCH_FILES_MAX):
        if not each.is_left_out:
            size += each.file.size
            metadata_bytes += len(each.file.path.encode()) + FILE_BYTES
            if has_files and (size > max_bytes or metadata_bytes > METADATA_BYTES_MAX):
                break
            has_files = True
        taken.append(each)
    return taken


@frozen
class WholeFileEmitter(Emitter[FileBatch]):
    """Divides a batch into about as many pieces as there are parallel tasks.

    Attributes:
        skips_bad: whether files that aren't of the format are left out, and reported.
    """

    reader: WholeReader
    tasks: int
    skips_bad: bool = False

    def emit_batch(self, attempt: TransactionAttempt, metadata: FileBatch, collector: TridentCollector) -> None:
        """Emit the rows of the files; report how many were left out.

        Raises:
            SpoutError: one has changed, or can't be read.
        """
        files = [WholeFile.parse(stored) for stored in metadata["files"]]
        if metadata["left_out"]:
            collector.report_error(_left_out(metadata))
        portions = [portion for file in files for portion in self._portions(file, collector)]
        size = sum(file.size for file in files)
        is_small = size <= SMALL_BYTES
        shared = shares(portions, 1 if is_small else self.tasks)

        def verify() -> None:
            for file in files:
                self.reader.place.check(file)

        collector.emit_splits(shared, self.reader, on_driver=is_small, verify=verify)

    def _portions(self, file: WholeFile, collector: TridentCollector) -> Sequence[Portion]:
        try:
            return self.reader.portions(file)
        except UnreadableFileError as error:
            if not self.skips_bad:
                raise
            collector.report_error(error)
            return ()


def _left_out(metadata: FileBatch) -> SpoutError:
    count, first = metadata["left_out"]
    return SpoutError(
        f"{count} files were left out, because they were older than max_age when they were found: {first!r} is the "
        f"first; {metadata['position']['left_out']} so far"
    )


def shares(portions: Sequence[Portion], tasks: int) -> list[list[Portion]]:
    """Return each task's portions: consecutive ones, of about the same number of bytes."""
    if not portions:
        return []
    room_of_each = -(-sum(portion.size for portion in portions) // tasks)
    given: list[list[Portion]] = [[]]
    room = room_of_each
    for portion in portions:
        if room <= 0:
            given.append([])
            room = room_of_each
        given[-1].append(portion)
        room -= portion.size
    return given
