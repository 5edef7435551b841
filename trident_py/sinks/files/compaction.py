"""Copies the committed transactions of a `FileSink` into few files, in another directory."""

from __future__ import annotations

import json
import os
from functools import partial, reduce
from itertools import groupby
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from trident_py.errors import SinkError
from trident_py.sinks.files.directory import check_owner, committed, token_of
from trident_py.sinks.files.layout import visible_files
from trident_py.sinks.files.local_path import make_directory, move, sync, sync_tree
from trident_py.sinks.files.token import FileToken
from trident_py.spark.asking import answer_within

FILE_BYTES = 128 << 20
"""The size of a compacted file, about; Spark reads as much in one task."""

COMPACTED = "_compacted"
OBSERVED_WITHIN_SECONDS = 30.0


@frozen(kw_only=True)
class Transactions:
    """Consecutive transactions of one topology.

    Attributes:
        path: the directory of the sink.
        tokens: their tokens by their directories, in order.
    """

    path: Path
    tokens: dict[Path, FileToken]

    @classmethod
    def of(cls, path: Path, up_to: int | None) -> Transactions:
        """Find the committed transactions in ``path``, up to a txid; None: all.

        Raises:
            SinkError: none is committed, ``up_to`` is not, or they are of several topologies.
        """
        there = committed(path) if path.is_dir() else {}
        if not there:
            raise SinkError(f"nothing is committed in {str(path)!r}; there is nothing to compact")
        if up_to is not None and up_to not in there:
            raise SinkError(
                f"transaction {up_to} is not in {str(path)!r}, which has {min(there)} to {max(there)}; to fix this: "
                f"name one of them"
            )
        tokens = {directory: token_of(directory) for txid, directory in there.items() if up_to is None or txid <= up_to}
        for token in tokens.values():
            first = next(iter(tokens.values()))
            check_owner(path, token, first.uuid, first.incarnation)
        return cls(path=path, tokens=tokens)

    @property
    def first(self) -> int:
        """The txid of the first transaction."""
        return next(iter(self.tokens.values())).commit.txid

    @property
    def last(self) -> FileToken:
        """The token of the last transaction."""
        return next(reversed(self.tokens.values()))

    @property
    def rows(self) -> int:
        """The number of their rows."""
        return sum(token.rows for token in self.tokens.values())

    @property
    def size(self) -> int:
        """The size of their files in bytes."""
        return sum(file.stat().st_size for directory in self.tokens for file in visible_files(directory))

    def frame(self, session: SparkSession) -> DataFrame:
        """Return their rows, with null for fields that some of the transactions lack."""
        parts = groupby(self.tokens.items(), key=lambda item: (item[1].layout, item[1].fields))
        frames: list[DataFrame] = [
            layout.read(session, self.path, [directory for directory, _ in part], fields)
            for (layout, fields), part in parts
        ]
        together: DataFrame = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)
        return together


def compactable(path: Path, target: Path, up_to: int | None) -> Transactions:
    """Return the transactions of ``path``, up to a txid, that can be copied to ``target``.

    Args:
        path: the directory of a `FileSink`, which may write at the same time.
        target: a path that does not exist yet.
        up_to: the last transaction to copy; None: the last one that is committed now.

    Raises:
        SinkError: nothing is committed, ``target`` exists, or it is below ``path``.
    """
    if os.path.lexists(target):
        raise SinkError(f"{str(target)!r} exists already; to fix this: name a new directory")
    if target.parent.resolve().is_relative_to(path.resolve()):
        raise SinkError(
            f"{str(target)!r} is below {str(path)!r}, and its readers would see rows twice; to fix this: name another "
            f"directory"
        )
    return Transactions.of(path.resolve(), up_to)


def compact(taken: Transactions, target: Path, session: SparkSession) -> None:
    """Write the rows of these transactions into a new directory, which appears by one rename, complete and durable.

    Its hidden file ``_compacted`` describes the contents. If the process is killed, its files stay in a hidden
    directory ``.<name>.compacting-…`` next to ``target``.

    Raises:
        SinkError: the rows read back differ in number from the committed ones.
    """
    make_directory(target.parent)
    prefix = f".{target.name}.compacting-"
    with TemporaryDirectory(prefix=prefix, dir=target.parent, ignore_cleanup_errors=True) as made:
        draft, whole = Path(made, "draft"), Path(made, "whole")
        _write(taken, session, draft)
        move(visible_files(draft), draft, whole)
        _describe(taken, whole)
        sync_tree(whole)
        whole.rename(target)
    sync(target.parent)


def _write(taken: Transactions, session: SparkSession, draft: Path) -> None:
    seen, layout = Observation(), taken.last.layout
    frame = taken.frame(session).observe(seen, F.count(F.lit(1)).alias("rows"))
    files = ceil(taken.size / FILE_BYTES) or 1
    merged = frame.repartition(*layout.partition_by) if layout.partition_by else frame.coalesce(files)
    layout.write(merged, draft)
    found = answer_within(lambda: seen.get, OBSERVED_WITHIN_SECONDS)["rows"]
    if found != taken.rows:
        raise SinkError(
            f"{taken.rows} rows were committed in {str(taken.path)!r} and {found} are read there: {layout.format} "
            f"can't hold them with these options, or files were changed; nothing was written"
        )


def _describe(taken: Transactions, whole: Path) -> None:
    last = taken.last
    facts = {
        "uuid": last.uuid,
        "incarnation": last.incarnation,
        "from": taken.first,
        "up_to": last.commit.txid,
        "rows": taken.rows,
    }
    (whole / COMPACTED).write_text(json.dumps(facts) + "\n", encoding="utf-8")
