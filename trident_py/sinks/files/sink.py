"""`FileSink`: each transaction a directory of files."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

from coordinators.values.canonical import Json
from trident_py.errors import SinkError, TopologyError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink
from trident_py.rows.schema import clipped
from trident_py.sinks.files.directory import TransactionDirectory
from trident_py.sinks.files.layout import Layout, Option, visible_files
from trident_py.sinks.files.local_path import OBJECT_SCHEMES, local_path
from trident_py.sinks.files.token import FileToken
from trident_py.spark.asking import answer_within

OBSERVED_WITHIN_SECONDS = 30.0
_ROW_BITS = (1 << 33) - 1
"""The part of `monotonically_increasing_id` that counts the rows of a task."""
_TASK = re.compile(r"part-([0-9]+)-")
"""The beginning of the names of Spark's files, with the number of the task that wrote the file."""


class FileSink(TransactionalSink[Path]):
    """Writes each transaction as files, which become visible together: as the directory ``path/txid=<n>``.

    Point Spark, DuckDB or pyarrow at ``path``: they see whole transactions, each once, at any time. The page
    `docs/how-to/files-as-sink.md` says how, and describes the limits.

    The stream must return the same rows when a transaction is replayed, so no spout of it may be opaque.

    Args:
        path: a directory, relative to the current directory at the start, or a URL that begins with ``file:/``; it is
            made if it does not exist. All machines that run tasks must see it, and its parent, under the same path:
            uncommitted files are next to it, in ``.<name>.staging``.
        format: ``parquet``, ``json``, ``csv``, ``orc`` or ``text``, which takes one string field.
        partition_by: fields that become folders, ``field=value``, below the transaction's folder.
        options: options of Spark's writer for this format, such as ``compression``. They are stored with the rows, for
            `trident compact`: no secrets.

    Raises:
        TopologyError: an argument can't work, such as a path in an object store, where `DeltaSink` and `IcebergSink`
            write.
    """

    needs_exact_replays = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "parquet",
        partition_by: str | Sequence[str] = (),
        options: Mapping[str, Option] | None = None,
    ) -> None:
        self._layout = Layout(format, partition_by, options)
        _check_no_objects(path)
        self._path = local_path(path)
        self._directory = TransactionDirectory(self._path)

    def __repr__(self) -> str:
        return f"FileSink({str(self._path)!r}, format={self._layout.format!r})"

    def identity(self) -> Mapping[str, Json]:
        """Return format and folders, which readers expect to be the same for all files of a directory."""
        return {"format": self._layout.format, "folders": ", ".join(self._layout.partition_by)}

    def details(self) -> Mapping[str, Json]:
        """Return the path of the directory, which may change between two starts.

        A takeover fails if the committed transactions were not moved there.
        """
        return {"path": str(self._path)}

    def check_fields(self, fields: StructType) -> None:
        """Check that rows of these fields can be written."""
        self._layout.check(fields)

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Make the staged files of older leaders unreachable, then return the token of the last commit."""
        return self._directory.recover(topology, epoch)

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> Path:
        """Write the rows by Spark; stage the files with a token, as a directory that a commit only renames."""
        draft, seen, wrote = self._directory.draft(tx), Observation(), Observation()
        task = "_task".ljust(1 + max(map(len, frame.columns)), "_")  # longer than each name that there is
        # Counted first: right above rows that the driver holds, Spark would take the number of the task for a constant.
        # Each task reports its number with its first row only: to collect it from all rows took a tenth of the time.
        is_first = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_BITS)) == 0
        unfit = {f"unfit_{number}": each for number, each in enumerate(self._layout.unfit(frame.schema))}
        looks = [each.first.alias(name) for name, each in unfit.items()]
        looked_at = frame.observe(seen, F.count(F.lit(1)).alias("rows"), *looks)
        for each in unfit.values():  # such a row would fail Spark's job, and not by name
            looked_at = looked_at.where(~F.coalesce(each.where, F.lit(False)))
        counted = looked_at.withColumn(task, F.when(is_first, F.spark_partition_id()))
        try:
            self._layout.write(counted.observe(wrote, F.collect_set(task).alias("tasks")).drop(task), draft)
        finally:
            if self._layout.partition_by:
                check_names(draft)
        told, tasks = _told(seen), _told(wrote)["tasks"]
        for name, each in unfit.items():
            if told[name] is not None:
                raise ValueError(f"{self!r}: field {each.name!r} has {clipped(told[name])}: {each.why}")
        rows = told["rows"]
        token = FileToken.of(tx, rows, self._layout, frame.schema)
        return self._directory.stage(tx, written(draft, tasks) if rows else [], token)

    def receipt_rows(self, receipt: Path) -> int | None:
        """Read the number of rows from the token."""
        token = FileToken.read(receipt)
        return token.rows if token else None

    def commit(self, tx: SinkTransaction, receipt: Path) -> None:
        """Rename the staged directory to ``path/txid=<n>``, unless that exists."""
        self._directory.commit(tx, receipt)

    def can_park(self, tx: SinkTransaction) -> bool:
        """Return whether the directory has no transaction from ``tx.txid`` on."""
        return tx.leaves_nothing(self._directory.here(tx.txid))

    def abort(self, tx: SinkTransaction, receipt: Path | None) -> None:
        self._directory.abort(tx)


def _check_no_objects(path: str | os.PathLike[str]) -> None:
    """Check that a path isn't in an object store.

    An object store has no rename of a directory, which makes the files of a transaction visible together and fences an
    earlier leader. Uploads in parts that only a commit completes would leave readers with whole files of a part of a
    transaction. The client library doesn't tell the numbers of uploads either, so a new leader couldn't complete them.

    Raises:
        TopologyError: it is.
    """
    if isinstance(path, str) and path.partition("://")[0].lower() in OBJECT_SCHEMES:
        raise TopologyError(
            f"{path!r} is in an object store, which can't rename a directory, so readers would see parts of a "
            f"transaction; to fix this: write with DeltaSink or IcebergSink, or give a directory that is mounted"
        )


def written(draft: Path, tasks: Collection[int]) -> list[Path]:
    """Return the files that Spark has written into ``draft``, without its other files.

    Raises:
        SinkError: one of these tasks has written rows, but its file is not here.
    """
    files = visible_files(draft)
    here = {int(name[1]) for file in files if (name := _TASK.match(file.name))}
    if missing := sorted(set(tasks) - here):
        raise SinkError(
            f"Spark's tasks {missing} have written rows below {str(draft)!r}, and their files are not here: its "
            f"workers and this process see different file systems under this path; to fix this: mount one that they "
            f"share"
        )
    return files


def check_names(draft: Path) -> None:
    """Check the names of the folders that Spark has written.

    Raises:
        SinkError: Spark could not write a name. It escapes each ``?`` of a value, so a ``?`` in a name stands for a
            character that the encoding of its JVM lacks.
    """
    lost = next((found for found in draft.rglob("*[?]*") if found.is_dir()), None)
    if lost is not None:
        raise SinkError(
            f"Spark has made a folder {lost.name!r} below {str(draft)!r}: the locale of its JVM is not UTF-8, so "
            f"different values would share it; to fix this: set LC_ALL=C.UTF-8 for Spark's driver and workers"
        )


def _told(observation: Observation) -> dict[str, Any]:
    return answer_within(lambda: observation.get, OBSERVED_WITHIN_SECONDS)
