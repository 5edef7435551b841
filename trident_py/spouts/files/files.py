"""Lines of text files: those that are there, those that appear, and what is appended to them."""

from __future__ import annotations

import codecs
import logging
import os
import time
from collections.abc import Mapping, Sequence

from coordinators.attempt import TransactionAttempt
from coordinators.batch_coordinator import CursorCoordinator
from coordinators.canonical import Json
from trident_py.errors import TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout
from trident_py.rows.schema import shown
from trident_py.spouts.files.cursor import Tail
from trident_py.spouts.files.lines import LineReader, Piece, is_compressed
from trident_py.spouts.files.paths import PathPattern

log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Some 200 000 lines: a tenth of a second's reading, enough to be worth a Spark job, and little to do again."""

METADATA_BYTES_MAX = 64 * 1024
"""Roughly; a batch of many small files ends where its metadata would become larger."""

PIECE_BYTES_MIN = 1024 * 1024
SMALL_BYTES = 64 * 1024
"""Up to here the driver reads a batch itself: then it can share a Spark job with others, as tails of logs do."""

REST_RATIO, REST_SECS_MAX = 4, 0.25

_ERRORS = ("strict", "replace", "ignore", "backslashreplace")

Extent = list[str | int]
"""Path, first byte, byte after the last; and the file's size, if it went on after that."""


class FileSpout(ITridentSpout[list[Extent]]):
    """Emits the lines of all files that ``glob`` names, in the order of their names, with path and byte offset.

    New files and appended lines are found while it runs. A line ends at a line feed (a carriage return before it is
    dropped); what comes after the last one is taken as a line once the file was left alone for 2 s. Files that end in
    .gz, .bz2, .xz or .zst are read whole, once they were left alone for 2 s, each in a batch of its own; positions are
    then offsets in what is unpacked. Every machine that runs tasks must see the files under the same path.

    A file that shrinks, goes on inside a line that was taken, or vanishes unread ends the query with `SpoutError`; so
    does one that can't be read.

    Args:
        glob: a path with ``*``, ``?``, ``[…]`` and ``**``, as in `glob.glob`; relative to the directory of the start.
        max_bytes_per_batch: lines are added to a batch up to this; a longer line is a batch of its own.
        encoding: of the files; one in which a line feed is the byte 10, so not UTF-16.
        errors: what happens to bytes that are not of this encoding: strict (the query ends, and names file and
            offset), replace, ignore or backslashreplace; as in `open`.

    Raises:
        TopologyError: an argument that cannot work.
    """

    output_schema = "value string, path string, position bigint"

    def __init__(
        self,
        glob: str | os.PathLike[str],
        max_bytes_per_batch: int = BATCH_BYTES_MAX,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> None:
        PathPattern.of(glob)
        if type(max_bytes_per_batch) is not int or max_bytes_per_batch < 1:
            raise TopologyError(
                f"max_bytes_per_batch must be a whole number of at least 1, not {shown(max_bytes_per_batch)}"
            )
        if errors not in _ERRORS:
            raise TopologyError(f"errors must be one of {', '.join(_ERRORS)}, not {shown(errors)}")
        self._glob = glob
        self._max_bytes = max_bytes_per_batch
        self._reader = LineReader(_encoding(encoding), errors)

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> FileCoordinator:
        """Looks for files.

        Raises:
            SpoutError: the directory to look in doesn't exist.
        """
        pattern = PathPattern.of(self._glob)
        pattern.check()
        if not pattern.find():
            log.warning("spout %r: no file matches %r yet", tx_state_id, pattern.text)
        return FileCoordinator(pattern, self._max_bytes)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> FileEmitter:
        """Has Spark tasks read."""
        # What the session was given as its parallelism: defaultParallelism is not in Spark Connect.
        tasks = int(context.spark.conf.get("spark.sql.shuffle.partitions") or 1) if context.spark else 1
        return FileEmitter(self._reader, tasks)


def _encoding(name: str) -> str:
    try:
        same = b"a\nb".decode(name) == "a\nb"
    except UnicodeDecodeError:
        same = False
    except (LookupError, TypeError, ValueError) as error:
        raise TopologyError(f"there is no text encoding {shown(name)}") from error
    if not same:
        raise TopologyError(f"in the encoding {name!r} a line feed is not the byte 10; convert the files to UTF-8")
    return codecs.lookup(name).name


class FileCoordinator(CursorCoordinator[list[Extent]]):
    """Defines batches as byte ranges of files, which begin and end at lines."""

    def __init__(self, pattern: PathPattern, max_bytes: int) -> None:
        self._pattern = pattern
        self._max_bytes = max_bytes
        self._tails: dict[str, Tail] = {}
        self._unread: Sequence[str] = ()
        self._next: list[Extent] = []
        self._rest_until = 0.0

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Go on where the last definition ended."""
        self._tails = {path: Tail.restored(path, cursor) for path, cursor in cursors.items()}

    def moved(self, metadata: list[Extent]) -> Mapping[str, Json]:
        """Where each file of the batch was read to; and its size, if that is more."""
        return {str(path): [end, *more] if more else end for path, _, end, *more in metadata}

    def is_ready(self, txid: int) -> bool:
        """Whether there are lines that were not read; False is the answer of a look at all files, not of memory."""
        if not self._next:
            self._next = self._planned()
        if not self._next:
            self._scan()
            self._next = self._planned()
        return bool(self._next)

    def initialize_transaction(
        self, txid: int, prev_metadata: list[Extent] | None, curr_metadata: list[Extent] | None
    ) -> list[Extent]:
        """The lines that `is_ready` found, or those the transaction had before."""
        if curr_metadata is not None:
            return curr_metadata
        extents, self._next = self._next or self._planned(), []
        return extents

    def _scan(self) -> None:
        # However many files there are, and however often it is asked, most of the time is not spent on looking.
        time.sleep(max(0.0, self._rest_until - time.monotonic()))
        started = time.monotonic()
        found = self._pattern.find()
        for path, status in found.items():
            tail = self._tails.get(path)
            if tail is None:
                tail = self._tails[path] = Tail(path)
            if status.st_size != tail.seen or tail.gone:
                tail.look(status)
        for path in self._tails.keys() - found.keys():
            self._miss(self._tails[path])
        self._unread = sorted(path for path in found if self._tails[path].unread)
        ended = time.monotonic()
        self._rest_until = ended + min(REST_SECS_MAX, REST_RATIO * (ended - started))

    def _miss(self, tail: Tail) -> None:
        # What is there and not found was left out by a changed pattern, or is being renamed at this very moment.
        if not tail.gone and not os.path.lexists(tail.path):
            tail.miss()

    def _planned(self) -> list[Extent]:
        extents: list[Extent] = []
        budget, metadata_bytes = self._max_bytes, 0
        for name in self._unread:
            tail = self._tails[name]
            end = tail.next_end(budget, time.time()) if tail.unread else tail.cursor
            size = end - tail.cursor
            if not size:
                continue
            if extents and (size > budget or tail.compressed):
                break
            extents.append([name, tail.cursor, end, *([tail.seen] if tail.seen > end else [])])
            tail.advance(end)
            budget -= size
            metadata_bytes += len(name.encode()) + 32
            if budget <= 0 or metadata_bytes > METADATA_BYTES_MAX or tail.compressed:
                break
        return extents


class FileEmitter(Emitter[list[Extent]]):
    """Cuts a batch into about as many pieces as there are tasks at once."""

    def __init__(self, reader: LineReader, tasks: int) -> None:
        self._reader = reader
        self._tasks = tasks

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[Extent], collector: TridentCollector) -> None:
        """Emit the lines of the extents."""
        if sum(_bounds(extent)[1] - _bounds(extent)[0] for extent in metadata) > SMALL_BYTES or _is_packed(metadata):
            collector.emit_extents(shares(metadata, self._tasks), self._reader, fingerprinting=True)
            return
        for pieces in shares(metadata, 1):
            for rows in self._reader(pieces):
                collector.emit_arrow(rows)


def shares(extents: Sequence[Extent], tasks: int) -> list[list[Piece]]:
    """The pieces that each task reads: a run of the batch, of about the same number of bytes, at least 1 MiB."""
    size = max(PIECE_BYTES_MIN, -(-sum(_bounds(extent)[1] - _bounds(extent)[0] for extent in extents) // tasks))
    given: list[list[Piece]] = [[]]
    room = size
    for extent in extents:
        path, (first, last) = str(extent[0]), _bounds(extent)
        start = first
        while start < last:
            if room <= 0:
                given.append([])
                room = size
            end = last if is_compressed(path) else min(last, start + room)
            given[-1].append(Piece(path, first, last, start, end))
            room -= end - start
            start = end
    return given


def _is_packed(extents: Sequence[Extent]) -> bool:
    return any(is_compressed(str(path)) for path, *_ in extents)


def _bounds(extent: Extent) -> tuple[int, int]:
    return int(extent[1]), int(extent[2])
