"""Compaction of a topology's many small files in a Delta table, at the same time as its commits.

If two compactions of the same files run, delta-rs commits both, and the table has their rows twice. So this module
writes the files itself, and commits them only as the version after the one that it has read. If any other program has
committed since, even a newer leader, the commit is refused. Nothing waits for a compaction. The topology's own commits
add files, which a compaction does not touch.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import define, field

from coordinators.values.canonical import NO_ROWS, Fingerprint
from trident_py.rows.schema import arrow_schema
from trident_py.sinks.delta.staging import Storage
from trident_py.sinks.delta.statistics import statistics
from trident_py.sinks.delta.table import DeltaSinkTable
from trident_py.sinks.tables.staging import FileWriter, StagedFile, discard, home
from trident_py.sinks.tables.table import Conflict
from trident_py.sinks.token import TableToken

log = logging.getLogger(__name__)

TARGET_BYTES = 100 << 20
"""The size from which files are not compacted, and the size of a compacted file, about; the same as in `deltalake`."""

RUN_BYTES = 1 << 30
"""The greatest size that one compaction writes; the next one continues."""

TRIES = 20


@define
class Compaction:
    """Compacts a table every ``every`` transactions, on its own thread.

    Attributes:
        storage: the place of the table.
        every: the number of transactions between two compactions.
    """

    storage: Storage
    every: int
    _thread: threading.Thread | None = field(default=None, init=False)

    def begin(self, uuid: str, token: TableToken) -> None:
        """Begin a compaction after the commit of ``token``, if it is time and the last one has ended."""
        if token.txid % self.every or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = threading.Thread(
            target=self._run, args=(uuid, token), name=f"trident-{uuid}-compaction", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Wait until a running compaction has ended."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, uuid: str, token: TableToken) -> None:
        try:
            compact(self.storage, uuid, token)
        except BaseException as error:  # noqa: BLE001 - all rows are where they were, and the next one tries again
            log.warning(
                "%r is not compacted now, and will be after %d more transactions: %s",
                self.storage.uri, self.every, error,
            )  # fmt: skip


def compact(storage: Storage, uuid: str, token: TableToken) -> None:
    """Compact the files that a topology wrote before the transaction of ``token``; this one's files stay.

    Nothing is changed if a newer leader has taken over, or if another program has moved or deleted these files.

    Raises:
        SinkError: the table has features that plain files don't support.
    """
    table = DeltaSinkTable.open(storage)
    if table is None:
        return
    table.check()
    chosen = _chosen(_files_before(table, uuid, token.txid))
    written: list[StagedFile] = []
    paths = [f"{_folder(uuid)}/{_txid(files[0])}-{uuid4()}.parquet" for files in chosen]
    try:
        written += [_written(table, path, files) for path, files in zip(paths, chosen, strict=True)]
    except BaseException:
        discard(storage, paths)
        raise
    if written and not _committed(table, uuid, token, written, [each.path for files in chosen for each in files]):
        discard(storage, paths)


def _committed(
    table: DeltaSinkTable, uuid: str, token: TableToken, written: Sequence[StagedFile], removed: Sequence[str]
) -> bool:
    """Commit the compaction. False: it will never be committed, and the written files may be deleted."""
    for _ in range(TRIES):  # if the store does not answer, the outcome is unknown, and the files stay for a vacuum
        table.look()
        there = {each.path for each in table.whole_files()}
        if written[0].path in there:  # the commit was made, and only its answer was lost
            return True
        found = table.token(uuid)
        if found is None or found.fence != token.fence or not there.issuperset(removed):
            return False
        try:
            table.compact(written, removed)
        except Conflict:
            continue
        return True
    table.look()
    return written[0].path in table.paths


def _files_before(table: DeltaSinkTable, uuid: str, txid: int) -> list[StagedFile]:
    """Return the files with rows of transactions below ``txid``, in the order of the transactions."""
    folders = (f"{home(uuid)}/", f"{_folder(uuid)}/")
    ours = [each for each in table.whole_files() if each.path.startswith(folders)]
    return sorted((each for each in ours if _txid(each) < txid), key=_txid)


def _chosen(files: Sequence[StagedFile]) -> list[list[StagedFile]]:
    """Return lists of files, each of which is compacted into one file; the partitions with the most files are first."""
    by_partition = defaultdict(list)
    for each in files:
        by_partition[tuple(each.about["partition"].items())].append(each)
    found = [worth(each) for each in sorted(by_partition.values(), key=len, reverse=True)]
    sizes = accumulate(sum(file.size for file in each) for each in found)
    return [each for each, size in zip(found, sizes, strict=True) if each and size <= RUN_BYTES]


def worth(files: Sequence[StagedFile]) -> list[StagedFile]:
    """Return the files to compact into one: none is larger than the others together, so rows are rarely moved."""
    ascending = sorted(files, key=lambda each: each.size)
    sizes = accumulate(each.size for each in ascending)
    fit = [n for n, size in enumerate(sizes, 1) if ascending[n - 1].size <= size / 2 and size <= TARGET_BYTES]
    return sorted(ascending[: max(fit, default=0)], key=_txid)


def _written(table: DeltaSinkTable, path: str, files: Sequence[StagedFile]) -> StagedFile:
    storage, schema = table.files, arrow_schema(table.file_fields)
    writer = FileWriter(storage.files(), path, schema)
    for each in files:
        for rows in _rows(storage, each.path, schema):
            writer.write(rows, NO_ROWS)
    size, footer = writer.close()
    about = {"partition": files[0].about["partition"], "stats": statistics(footer)}
    return StagedFile(path=path, size=size, content=Fingerprint(footer.num_rows, 0), about=about)


def _rows(storage: Storage, path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of a file, with null for fields that were added to the table later."""
    with storage.files().open_input_file(path) as stream:
        for batch in pq.ParquetFile(stream).iter_batches():
            columns = [
                batch[each.name].cast(each.type)
                if each.name in batch.schema.names
                else pa.nulls(batch.num_rows, each.type)
                for each in schema
            ]
            yield pa.Table.from_arrays(columns, schema=schema)


def _txid(file: StagedFile) -> int:
    """Return the transaction of the first rows of a file."""
    return int(file.path.rpartition("/")[2].partition("-")[0])


def _folder(uuid: str) -> str:
    return f"{home(uuid)}-compacted"
