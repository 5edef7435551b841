"""Has the many small files of a topology in a Delta table become few, beside its commits.

delta-rs lets two compactions of the same files through, and their rows are in the table twice. So files are written
here, and committed only as the very next version after a look at the table: whatever anybody has committed since then,
a newer leader among them, has the commit refused. Nothing waits for it; the topology's own commits add files, which a
compaction does not touch.
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
"""Files of so much are left as they are, and about so much becomes one; it is what `deltalake` aims at, too."""

RUN_BYTES = 1 << 30
"""So much is written in one go; what is left comes the next time."""

TRIES = 20


@define
class Compaction:
    """Compacts a table after each so many transactions, on a thread of its own.

    Attributes:
        storage: where the table is.
        every: after how many transactions.
    """

    storage: Storage
    every: int
    _thread: threading.Thread | None = field(default=None, init=False)

    def begin(self, uuid: str, token: TableToken) -> None:
        """Begin if it is time, and the last one has ended; this token was just committed."""
        if token.txid % self.every or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = threading.Thread(
            target=self._run, args=(uuid, token), name=f"trident-{uuid}-compaction", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Wait until the one that is under way has ended."""
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
    """Compact what a topology has written before the transaction that this token is of, whose files stay.

    Nothing is changed where a newer leader has been here, or somebody has moved or deleted these files meanwhile.

    Raises:
        SinkError: the table has what doesn't go with plain files.
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
    """Commit; False: it never will be, and what was written may go."""
    for _ in range(TRIES):  # where the store does not answer, nobody knows, and what was written stays for a vacuum
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
    """Return the files with rows of transactions below ``txid``, in the order of these."""
    folders = (f"{home(uuid)}/", f"{_folder(uuid)}/")
    ours = [each for each in table.whole_files() if each.path.startswith(folders)]
    return sorted((each for each in ours if _txid(each) < txid), key=_txid)


def _chosen(files: Sequence[StagedFile]) -> list[list[StagedFile]]:
    """Return those of which each list becomes one file; the partitions with the most files come first."""
    by_partition = defaultdict(list)
    for each in files:
        by_partition[tuple(each.about["partition"].items())].append(each)
    found = [worth(each) for each in sorted(by_partition.values(), key=len, reverse=True)]
    sizes = accumulate(sum(file.size for file in each) for each in found)
    return [each for each, size in zip(found, sizes, strict=True) if each and size <= RUN_BYTES]


def worth(files: Sequence[StagedFile]) -> list[StagedFile]:
    """Return those that may well become one: none is larger than the others together, so no row is moved often."""
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
    """Give the rows of a file, with null for fields that the table has got since."""
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
    """Return the transaction whose rows a file begins with."""
    return int(file.path.rpartition("/")[2].partition("-")[0])


def _folder(uuid: str) -> str:
    return f"{home(uuid)}-compacted"
