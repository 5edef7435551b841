"""Files that are read as a whole once they don't change any more: which ones there are, and the batches of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from attrs import define, field, frozen

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import CursorCoordinator
from coordinators.values.canonical import Json
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.spouts import Emitter
from trident_py.spouts.files.columns import Portion, UnreadableFileError, WholeReader
from trident_py.spouts.files.places import Place, StoredFile, WholeFile, changed
from trident_py.spouts.rest import Rest

METADATA_BYTES_MAX = 64 * 1024
"""The approximate limit of a batch's metadata."""

FILE_BYTES = 48
"""The approximate size of a file's metadata without its path."""

SMALL_BYTES = 64 * 1024
"""The maximum size of a batch that the driver reads itself; then the batch can share a Spark job with others."""


@define
class WholeFiles:
    """The files of a place that were defined, and those that wait.

    Attributes:
        settled: seconds without a change after which a file is complete.
        defined: by path, the files as they were defined.
    """

    place: Place
    settled: float
    defined: dict[str, WholeFile] = field(factory=dict, init=False)
    _since: dict[str, tuple[WholeFile, float]] = field(factory=dict, init=False)

    def look(self, now: float) -> None:
        """Find new files, and check that the defined ones are as they were.

        Raises:
            SpoutError: one has changed.
        """
        found = self.place.find()
        for path, file in found.items():
            before = self.defined.get(path)
            if before is not None and before != file:
                raise changed(before)
        since = {}
        for path in sorted(found.keys() - self.defined.keys()):
            last = self._since.get(path)
            since[path] = last if last and last[0] == found[path] else (found[path], now)
        self._since = since

    def complete(self, now: float) -> list[WholeFile]:
        """Return the files that are complete and not defined, in the order of their names."""
        return [file for file, since in self._since.values() if now - since >= self.settled]

    def define(self, files: Sequence[WholeFile]) -> None:
        """Note that a batch has these files."""
        for file in files:
            self.defined[file.path] = file
            self._since.pop(file.path, None)

    @property
    def is_waiting(self) -> bool:
        """Whether a file may be complete soon."""
        return bool(self._since)


@define
class WholeFileCoordinator(CursorCoordinator[list[StoredFile]]):
    """Defines batches of complete files."""

    files: WholeFiles
    max_bytes: int
    clock: Callable[[], float] = time.monotonic
    _rest: Rest = field(factory=Rest, init=False)

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Continue after the last definition."""
        files = [WholeFile.parse([path, *stored]) for path, stored in cursors.items() if isinstance(stored, list)]
        self.files.define(files)

    def moved(self, metadata: list[StoredFile]) -> Mapping[str, Json]:
        """Return each file of the batch, with its size and version."""
        return {file.path: file.state for file in map(WholeFile.parse, metadata)}

    def is_ready(self, txid: int) -> bool:
        """Return whether a file is complete."""
        if not self.files.complete(self.clock()):
            with self._rest.looking():
                self.files.look(self.clock())
        return bool(self.files.complete(self.clock()))

    def has_pending_input(self) -> bool:
        """Return whether a file waits until it has not changed for some time."""
        return self.files.is_waiting

    def initialize_transaction(
        self, txid: int, prev_metadata: list[StoredFile] | None, curr_metadata: list[StoredFile] | None
    ) -> list[StoredFile]:
        """Return complete files up to the maximum size, at least one, or the files that the transaction had before."""
        if curr_metadata is not None:
            return curr_metadata
        taken: list[WholeFile] = []
        size = metadata_bytes = 0
        for file in self.files.complete(self.clock()):
            metadata_bytes += len(file.path.encode()) + FILE_BYTES
            if taken and (size + file.size > self.max_bytes or metadata_bytes > METADATA_BYTES_MAX):
                break
            taken.append(file)
            size += file.size
        self.files.define(taken)
        return [file.stored for file in taken]


@frozen
class WholeFileEmitter(Emitter[list[StoredFile]]):
    """Divides a batch into about as many pieces as there are parallel tasks.

    Attributes:
        skips_bad: whether files that aren't of the format are left out, and reported.
    """

    reader: WholeReader
    tasks: int
    skips_bad: bool = False

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[StoredFile], collector: TridentCollector) -> None:
        """Emit the rows of the files.

        Raises:
            SpoutError: one has changed, or can't be read.
        """
        files = [WholeFile.parse(stored) for stored in metadata]
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
