"""Files that are read as a whole once they don't change any more: which ones there are, and the batches of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from attrs import define, field, frozen

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import CursorCoordinator
from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.spouts import Emitter
from trident_py.spouts.files.columns import Portion, UnreadableFileError, WholeFormat
from trident_py.spouts.files.paths import PathPattern, status_of
from trident_py.spouts.rest import Rest

METADATA_BYTES_MAX = 64 * 1024
"""The approximate limit of a batch's metadata."""

FILE_BYTES = 48
"""The approximate size of a file's metadata without its path."""

SMALL_BYTES = 64 * 1024
"""The maximum size of a batch that the driver reads itself; then the batch can share a Spark job with others."""

StoredFile = list[Json]
"""``[path, size, mtime]``."""


@frozen
class WholeFile:
    """A file, with its size and modification time in nanoseconds when it was defined."""

    path: str
    size: int
    mtime: int

    @classmethod
    def parse(cls, stored: Sequence[Json]) -> WholeFile:
        """Return the file with this form in a batch's metadata."""
        match stored:
            case [str() as path, int() as size, int() as mtime]:
                return cls(path, size, mtime)
        raise SpoutError(f"a batch of files is defined as {stored!r}, which this version cannot read")

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> WholeFile:
        """Return the file as it is now."""
        return cls(path, status.st_size, status.st_mtime_ns)

    @property
    def stored(self) -> StoredFile:
        """The form in a batch's metadata."""
        return [self.path, self.size, self.mtime]

    def check(self) -> None:
        """Check that the file is as it was defined.

        Raises:
            SpoutError: it has changed, or is gone.
        """
        status = status_of(self.path)
        if status is None:
            raise SpoutError(
                f"file {self.path!r} is gone, and a batch has its rows; to fix this: put it back, with its old time"
            )
        if WholeFile.of(self.path, status) != self:
            raise changed(self)


def changed(file: WholeFile) -> SpoutError:
    """Return the error for a file that was changed after it was defined."""
    return SpoutError(
        f"file {file.path!r} was changed after a batch was defined with its {file.size} bytes; to fix this: restore it "
        f"with its old time, and give changed data a new name"
    )


@define
class WholeFiles:
    """The files of a pattern that were defined, and those that wait.

    Attributes:
        settled: seconds without a change after which a file is complete.
        defined: by path, the size and the modification time with which a file was defined.
    """

    pattern: PathPattern
    settled: float
    defined: dict[str, WholeFile] = field(factory=dict, init=False)
    _since: dict[str, tuple[WholeFile, float]] = field(factory=dict, init=False)

    def look(self, now: float) -> None:
        """Find new files, and check that the defined ones are as they were.

        Raises:
            SpoutError: one has changed.
        """
        found = {path: WholeFile.of(path, status) for path, status in self.pattern.find().items()}
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
        """Return each file of the batch, with its size and time."""
        return {file.path: [file.size, file.mtime] for file in map(WholeFile.parse, metadata)}

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

    format: WholeFormat
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
                file.check()

        collector.emit_splits(shared, self.format.read, on_driver=is_small, verify=verify)

    def _portions(self, file: WholeFile, collector: TridentCollector) -> Sequence[Portion]:
        try:
            return self.format.portions(file.path, file.check)
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
