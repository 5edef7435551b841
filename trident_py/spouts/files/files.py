"""`FileSpout`: lines of files that may grow, and files that are read as a whole."""

from __future__ import annotations

import codecs
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from attrs import evolve
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import Correction, CursorCoordinator
from coordinators.values.canonical import Json
from trident_py.errors import FailedException, SpoutError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Decoder, Emitter, ITridentSpout
from trident_py.rows.schema import shown
from trident_py.spouts.files.columns import ColumnFormat, WholeFormat, WholeReader
from trident_py.spouts.files.content import is_compressed
from trident_py.spouts.files.corrections import corrected
from trident_py.spouts.files.cursor import STILL_SECONDS, FileCursor
from trident_py.spouts.files.evolution import Evolution
from trident_py.spouts.files.folders import FolderFields, LinesInFolders, in_folders
from trident_py.spouts.files.following import FollowedFiles
from trident_py.spouts.files.formats import (
    FORMATS,
    ON_ERROR,
    LineDecoder,
    LineFormat,
    RecordLines,
    TextLines,
    format_of,
)
from trident_py.spouts.files.inventory import Inventory
from trident_py.spouts.files.lines import LineReader, Piece
from trident_py.spouts.files.objects import Objects
from trident_py.spouts.files.paths import PathPattern
from trident_py.spouts.files.places import LocalFiles, Place
from trident_py.spouts.files.sampling import WITH_SCHEMA, found_schema
from trident_py.spouts.files.selection import RELIST, Selection, directory_of
from trident_py.spouts.files.splits import Split, StoredSplit
from trident_py.spouts.files.whole import WholeFileCoordinator, WholeFileEmitter
from trident_py.spouts.files.whole_lines import WholeLines, WholeRecords
from trident_py.spouts.rest import Rest

log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 16 * 1024 * 1024
"""The default size of a batch: some 200 000 lines. They take a tenth of a second to read, which justifies a Spark job,
and a replay is cheap."""

METADATA_BYTES_MAX = 64 * 1024
"""The approximate limit of a batch's metadata; a batch of many small files ends before its metadata becomes larger."""

SPLIT_BYTES = 96
"""The approximate size of a file's metadata without its path."""

PIECE_BYTES_MIN = 1024 * 1024
SMALL_BYTES = 64 * 1024
"""The maximum size of a batch that the driver reads itself; then the batch can share a Spark job with others."""

SETTLED = timedelta(seconds=STILL_SECONDS)

_ERRORS = ("strict", "replace", "ignore", "backslashreplace")


class FileSpout(ITridentSpout[Any]):
    """Emits the lines of all files that ``glob`` matches, in the order of their names, with path and byte offset.

    The lines are text, or records in JSON or CSV. Files in Parquet, ORC and Avro, and binary files, are read as a
    whole.

    New files and appended lines are found while it runs. A line ends at a line feed (a carriage return before it is
    dropped). Text after the last line feed is read as a line once the file has not changed for 2 s. Files that end in
    .gz, .bz2, .xz or .zst are read once they have not changed for 2 s, each in its own batch. Their positions are
    offsets in the unpacked bytes. All machines that run tasks must see the files under the same path.

    Rotated logs are followed: let the pattern match the rotated names too, as in ``logs/access.log*``. If a file is
    renamed, copied and cut, or compressed, it is recognised by hashes of its bytes, and reading continues at its
    position. A file that takes its name is read from its beginning. `docs/how-to/logs.md` has the rules.

    The query ends if lines that were seen are gone, if a file continues inside a line that was read, or if files can't
    be told apart. Then a `SpoutError` names the file and the fix.

    A file that is read as a whole is complete when it has not changed for some time. It is in one batch, and may not
    change from then on. New files are found while it runs, and a file keeps its name.

    Args:
        glob: a path with ``*``, ``?``, ``[…]`` and ``**``, as in `glob.glob`; relative to the current directory at the
            start. Or a URL of objects with these, such as ``"s3://bucket/logs/*.json"``. They are read as a whole.
        max_bytes_per_batch: the maximum size of a batch; a longer line, or larger whole file, has its own batch.
        encoding: the encoding of the files, in which a line feed must be the byte 10, so not UTF-16.
        errors: how to treat bytes that are not valid in this encoding, as in `open`: strict, replace, ignore or
            backslashreplace. With strict, the query ends, and names file and offset.
        format: ``"text"``; or ``"json"`` or ``"csv"``, with a record in each line; or ``"parquet"``, ``"orc"`` or
            ``"avro"``. The rows of these have the fields of the schema, and ``_path string, _position bigint``.
            ``"binary"``: a row for each file, with the fields of Spark's ``binaryFile``.
        schema: the fields of the records, in the order of CSV's values. Parquet, ORC and Avro files may have more. By
            default, the fields of the first 20 files that are there, in the order of their names. Values of CSV are
            texts then.
        options: named as in Spark. Of ``"csv"``: ``header`` (the first line of each file names the fields), ``sep``,
            ``quote`` and ``nullValue``. Of ``"csv"`` and ``"json"``: ``multiLine`` (a record may contain line ends, so
            files are read as a whole).
        on_decode_error: the treatment of a line that is no such record. With ``"fail"``, the query ends, and names file
            and offset. With ``"null"``, it is a row of NULLs. With ``"skip"``, it is left out. With ``"quarantine"``,
            it is a dead letter.
        on_bad_file: the treatment of a file that isn't in its format, Parquet, ORC or Avro. ``"fail"`` ends the query.
            ``"skip"`` leaves the file out, and reports it in the query's progress.
        schema_evolution: the treatment of Parquet, ORC, Avro and JSON with other fields. ``"fail"`` ends the query. So
            does a field that was not found, if no schema is given. ``"add"`` gives NULL for a field that a file lacks.
            A new field is read from the next start on.
        settled: the time without a change after which a file that is read as a whole is complete.
        partition_by: the fields of the schema that the files lack, because their values are in the names of folders,
            such as ``day=2026-11-28``. Without a schema, they are texts.
        storage_options: options of the object store, as for `DeltaSpout`. They are sent to Spark's tasks, and nowhere
            else.
        order: ``"name"``: the names of new objects are greater than those of all objects before. So a look lists only
            the objects after the last one that was read. None: a look lists all, and files may have any names.
        relist: with ``order="name"``, the time between two looks at all objects, which find those that came late.
        late: the treatment of an object whose name is less than one that was read. ``"fail"`` ends the query, and names
            it. ``"read"`` reads it.
        max_age: files that were written longer ago when they are found first are left out, for ever, and reported in
            the query's progress. For files that are read as a whole.
        directory: for the names of files that were read as a whole. It is on a file system that all machines share
            on which the topology may run, or the URL of a folder of objects. None: in the ``state_dir``.

    Raises:
        TopologyError: an argument can't work.
    """

    gives_again: ClassVar[bool] = True

    def __init__(
        self,
        glob: str | os.PathLike[str],
        max_bytes_per_batch: int = BATCH_BYTES_MAX,
        encoding: str = "utf-8",
        errors: str = "strict",
        *,
        format: str = "text",
        schema: str | StructType | None = None,
        options: Mapping[str, Any] | None = None,
        on_decode_error: str = "fail",
        on_bad_file: str = "fail",
        schema_evolution: str = "fail",
        settled: timedelta = SETTLED,
        partition_by: str | Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
        order: str | None = None,
        relist: timedelta = RELIST,
        late: str = "fail",
        max_age: timedelta | None = None,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        place = _place(glob, storage_options)
        _check_sizes(max_bytes_per_batch, settled)
        for name, given, known in (
            ("format", format, FORMATS),
            ("on_decode_error", on_decode_error, ON_ERROR),
            ("errors", errors, _ERRORS),
            ("on_bad_file", on_bad_file, ("fail", "skip")),
            ("schema_evolution", schema_evolution, ("fail", "add")),
        ):
            if given not in known:
                raise TopologyError(f"{name} is one of {', '.join(map(repr, known))}, not {shown(given)}")
        self._glob, self._max_bytes, self._settled = glob, max_bytes_per_batch, settled
        self._objects = place if isinstance(place, Objects) else None
        text = TextLines(_encoding(encoding), errors)
        evolution = Evolution(is_found=schema is None and format in WITH_SCHEMA, adds=schema_evolution == "add")
        found = found_schema(format, place, options or {}) if evolution.is_found else None
        folders = _folders(schema, found, partition_by)
        record = folders.in_files if folders else found or schema
        is_multiline = (options or {}).get("multiLine") is True
        made = format_of(format, record, options, on_decode_error, text, evolution)
        self._skips_bad = on_bad_file == "skip"
        if self._skips_bad and not isinstance(made, ColumnFormat):
            raise TopologyError(f"format={format!r} takes no on_bad_file: any bytes may be such a file")
        within = in_folders(made, folders) if folders else made
        self._format = _as_whole(within, is_multiline, self._objects is not None)
        kept = directory_of(directory, storage_options)
        self._selection = Selection(order=order, relist=relist, late=late, max_age=max_age, directory=kept)
        self._selection.check(place, are_whole=isinstance(self._format, WholeFormat))
        self.output_schema = self._format.fields
        self.decoder = _decoder(made, folders)

    def details(self) -> Mapping[str, Json]:
        """Return the pattern; if it changes, unmatched files are ignored, and new ones are read from the start."""
        kind = {} if isinstance(self._format, TextLines) else {"format": self._format.kind}
        return {"glob": os.fspath(self._glob), **kind, **self._selection.details()}

    @property
    def caveat(self) -> str:
        """The promise that the user has made for ``order="name"``."""
        if self._selection.order is None:
            return ""
        late = "is read" if self._selection.late == "read" else "stops the topology"
        return f"names must rise: an object below the greatest name {late}, up to {self._selection.relist} later"

    def get_coordinator(
        self, tx_state_id: str, conf: TridentConfig, context: TopologyContext
    ) -> FileCoordinator | WholeFileCoordinator:
        """Return a coordinator that looks for files.

        Raises:
            SpoutError: the directory to look in doesn't exist.
        """
        if self._objects:
            return self._whole(self._objects, timedelta(0), conf, context)
        pattern = PathPattern.of(self._glob)
        pattern.check()
        if not pattern.find():
            log.warning("spout %r: no file matches %r yet", tx_state_id, pattern.text)
        if isinstance(self._format, WholeFormat):
            return self._whole(LocalFiles(pattern), self._settled, conf, context)
        return FileCoordinator(pattern, self._max_bytes)

    def ensure_recoverable(self, cursors: Mapping[str, Json], conf: TridentConfig, context: TopologyContext) -> None:
        """Check that the names of the files that were read are here."""
        if isinstance(self._format, WholeFormat) and cursors:
            inventory = self._inventory(conf, context)
            inventory.restore(cursors.get("shards"))
            inventory.check()

    def _whole(
        self, place: Place, settled: timedelta, conf: TridentConfig, context: TopologyContext
    ) -> WholeFileCoordinator:
        search, inventory = self._selection.search(place, settled), self._inventory(conf, context)
        return WholeFileCoordinator(search=search, inventory=inventory, max_bytes=self._max_bytes)

    def _inventory(self, conf: TridentConfig, context: TopologyContext) -> Inventory:
        where = f"topology {context.topology!r}, spout {context.tx_state_id!r}"
        files = self._selection.files(conf, context.topology, context.tx_state_id)
        return Inventory(where=where, files=files, epoch=context.epoch)

    def get_emitter(
        self, tx_state_id: str, conf: TridentConfig, context: TopologyContext
    ) -> FileEmitter | WholeFileEmitter:
        if isinstance(self._format, WholeFormat):
            place = self._objects or LocalFiles(PathPattern.of(self._glob))
            return WholeFileEmitter(WholeReader(self._format, place), context.parallelism, self._skips_bad)
        return FileEmitter(LineReader(self._format), context.parallelism)


def _place(glob: str | os.PathLike[str], options: Mapping[str, str] | None) -> Place:
    if isinstance(glob, str) and "://" in glob:
        return Objects.of(glob, options or {})
    if options:
        raise TopologyError(f"{shown(glob)} is a pattern of local files, which take no storage_options")
    return LocalFiles(PathPattern.of(glob))


def _check_sizes(max_bytes_per_batch: int, settled: timedelta) -> None:
    if type(max_bytes_per_batch) is not int or max_bytes_per_batch < 1:
        raise TopologyError(
            f"max_bytes_per_batch must be a whole number of at least 1, not {shown(max_bytes_per_batch)}"
        )
    if not isinstance(settled, timedelta) or settled < timedelta(0):
        raise TopologyError(f"settled is a timedelta of 0 s or more, not {shown(settled)}")


def _decoder(format: LineFormat | WholeFormat, folders: FolderFields | None) -> Decoder | None:
    """Return the row function for quarantined lines; None: no line is quarantined."""
    if not isinstance(format, RecordLines) or format.on_error != "quarantine":
        return None
    strict = evolve(format, on_error="fail")
    within = LinesInFolders(strict, folders) if folders else strict
    return Decoder(LineDecoder(within), within.fields)


def _as_whole(format: LineFormat | WholeFormat, is_multiline: bool, are_objects: bool) -> LineFormat | WholeFormat:
    if not isinstance(format, LineFormat):
        return format
    if is_multiline:
        return WholeRecords(format)
    return WholeLines(format) if are_objects else format


def _folders(
    schema: str | StructType | None, found: StructType | None, names: str | Sequence[str]
) -> FolderFields | None:
    if not names:
        return None
    return FolderFields.of(schema, names) if found is None else FolderFields.found(found, names)


def _encoding(name: str) -> str:
    try:
        same = b"a\nb".decode(name) == "a\nb"
    except UnicodeDecodeError:
        same = False
    except (LookupError, TypeError, ValueError) as error:
        raise TopologyError(f"there is no text encoding {shown(name)}") from error
    if not same:
        raise TopologyError(
            f"in the encoding {name!r} a line feed is not the byte 10; to fix this: convert the files to UTF-8"
        )
    return codecs.lookup(name).name


class FileCoordinator(CursorCoordinator[list[StoredSplit]]):
    """Defines batches as byte ranges of files, which begin and end at lines."""

    def __init__(self, pattern: PathPattern, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._pattern = pattern
        self._files = FollowedFiles(pattern)
        self._max_bytes = max_bytes
        self._clock = clock
        self._unread: Sequence[FileCursor] = ()
        self._next: list[StoredSplit] = []
        self._rest = Rest()

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Continue after the last definition."""
        self._files.restore(cursors)

    def moved(self, metadata: list[StoredSplit]) -> Mapping[str, Json]:
        """Return, for each file of the batch, its position, its size if that is greater, and its identity."""
        return {split.path: split.cursor for split in map(Split.parse, metadata)}

    def corrected(self, definitions: Mapping[int, list[StoredSplit]]) -> Correction[list[StoredSplit]] | None:
        """Return the current lines of files that were changed in place."""
        return corrected(definitions, self._pattern, self._max_bytes)

    def is_ready(self, txid: int) -> bool:
        """Return whether there are unread lines.

        If the answer is False, all files were looked at.
        """
        if not self._next:
            self._next = self._planned()
        if not self._next:
            self._look()
            self._next = self._planned()
        return bool(self._next)

    def has_pending_input(self) -> bool:
        """Return whether a last line, or a compressed file, waits until it has not changed for two seconds."""
        return self._files.is_waiting(self._clock())

    def initialize_transaction(
        self, txid: int, prev_metadata: list[StoredSplit] | None, curr_metadata: list[StoredSplit] | None
    ) -> list[StoredSplit]:
        """Return the lines that `is_ready` found, or the lines that the transaction had before."""
        if curr_metadata is not None:
            return curr_metadata
        splits, self._next = self._next or self._planned(), []
        return splits

    def _look(self) -> None:
        # However many files there are, and however often it is asked, most of the time is not spent on looking.
        with self._rest.looking():
            self._files.look(self._clock())
            self._unread = self._files.unread()

    def _planned(self) -> list[StoredSplit]:
        planned: list[StoredSplit] = []
        budget, metadata_bytes = self._max_bytes, 0
        for cursor in self._unread:
            try:
                splits = self._files.next_splits(cursor, budget, self._clock()) if cursor.unread else []
            except (FailedException, SpoutError):
                if planned:
                    break  # the planned splits are kept; the error is raised again for the next batch
                raise
            if not splits:
                continue
            size = splits[-1].size
            if planned and (size > budget or cursor.is_compressed):
                break
            planned += [split.stored for split in splits]
            self._files.advance(cursor, splits)
            budget -= size
            metadata_bytes += sum(len(split.path.encode()) + SPLIT_BYTES for split in splits)
            if budget <= 0 or metadata_bytes > METADATA_BYTES_MAX or cursor.is_compressed:
                break
        return planned


class FileEmitter(Emitter[list[StoredSplit]]):
    """Divides a batch into about as many pieces as there are parallel tasks."""

    def __init__(self, reader: LineReader, tasks: int) -> None:
        self._reader = reader
        self.tasks = tasks

    def emit_batch(self, attempt: TransactionAttempt, metadata: list[StoredSplit], collector: TridentCollector) -> None:
        """Emit the lines of the splits."""
        splits = [Split.parse(stored) for stored in metadata]
        size = sum(split.size for split in splits)
        is_small = size <= SMALL_BYTES and not any(is_compressed(each.path) for each in splits)
        shared = shares(splits, 1 if is_small else self.tasks)
        collector.emit_splits(shared, self._reader, fingerprinting=True, on_driver=is_small)


def shares(splits: Sequence[Split], tasks: int) -> list[list[Piece]]:
    """Return each task's pieces: consecutive parts of the batch, of about the same number of bytes, at least 1 MiB."""
    size = max(PIECE_BYTES_MIN, -(-sum(split.size for split in splits) // tasks))
    given: list[list[Piece]] = [[]]
    room = size
    for split in splits:
        start = split.start
        while start < split.end:
            if room <= 0:
                given.append([])
                room = size
            end = split.end if is_compressed(split.path) else min(split.end, start + room)
            given[-1].append(Piece(split.path, split.start, split.end, start, end, split.identity))
            room -= end - start
            start = end
    return given
