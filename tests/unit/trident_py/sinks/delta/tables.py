"""Delta tables for tests: transactions as tasks stage them, without Spark, and what a reader sees."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import define
from deltalake import DeltaTable, write_deltalake

from tests.unit.trident_py.sinks.tables.leaders import TableLeader, reports_of
from trident_py import SinkTransaction
from trident_py.rows.schema import arrow_schema, schema_of
from trident_py.sinks.changes import MergeFields
from trident_py.sinks.delta.staging import Storage, WriteDelta
from trident_py.sinks.delta.table import DeltaSinkTable
from trident_py.sinks.delta.transactions import DeltaTransactions
from trident_py.sinks.tables.staging import StagedFile, prefix

undoes_rewriting = True


@define
class Leader(TableLeader):
    """One that writes words to the table at ``path``; it has recovered."""

    merge_schema: bool = False
    keys: tuple[str, ...] = ()
    changes: MergeFields | None = None
    compact_every: int | None = None

    def made(self) -> DeltaTransactions:
        storage = Storage(str(self.path))
        made = self.partition_by, storage, self.merge_schema, self.keys, self.changes, self.compact_every
        return DeltaTransactions(*made)

    def write(self, tx: SinkTransaction, rows: Sequence[tuple[Any, ...]]) -> list[StagedFile]:
        divided = () if self.keys else self.partition_by
        return written(Storage(str(self.path)), tx, self.schema, rows, divided, partitions=self.partition_by)


def untold(path: Path) -> DeltaTransactions:
    return DeltaTransactions((), Storage(str(path)))


def written(
    storage: Storage,
    tx: SinkTransaction,
    schema: str,
    rows: Sequence[tuple[Any, ...]],
    partition_by: tuple[str, ...] = (),
    required: tuple[str, ...] = (),
    partitions: tuple[str, ...] = (),
) -> list[StagedFile]:
    """What one task reports that writes these rows."""
    task = WriteDelta(
        storage=storage,
        prefix=prefix(tx),
        schema=arrow_schema(schema_of(schema)),
        partition_by=partition_by,
        required=required,
        partitions=partitions,
    )
    return reports_of(task, rows, schema)


def rows_in(path: Path) -> list[tuple[Any, ...]]:
    """What a reader sees, sorted."""
    return sorted(tuple(row.values()) for row in DeltaTable(path).to_pyarrow_table().to_pylist())


def files_in(path: Path) -> set[str]:
    """The files that are there, whether the table knows them or not."""
    return {str(each.relative_to(path)) for each in path.rglob("*.parquet") if "_delta_log" not in each.parts}


def files_of(path: Path) -> set[str]:
    """The files of the table."""
    return {str(Path(uri).relative_to(path)) for uri in DeltaTable(path).file_uris()}


def commits(path: Path) -> int:
    return DeltaTable(path).version()


def append(path: Path, *rows: tuple[str, int]) -> None:
    words, numbers = zip(*rows, strict=True)
    write_deltalake(path, pa.table({"word": words, "n": numbers}), mode="append")


def set_property(path: Path) -> None:
    DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})


def rewrite(path: Path) -> None:
    DeltaTable(path).optimize.compact()


def clean_up(path: Path) -> None:
    DeltaTable(path).vacuum(0, enforce_retention_duration=False, full=True, dry_run=False)


def lose_answers(patch: pytest.MonkeyPatch) -> None:
    commit = DeltaSinkTable.commit

    def answer_lost(self: DeltaSinkTable, *arguments: Any) -> None:
        commit(self, *arguments)
        raise ConnectionResetError("the answer was lost")

    patch.setattr(DeltaSinkTable, "commit", answer_lost)


def delete_by_vector(path: Path, file: str, *rows: int) -> None:
    """Delete rows of a file as Spark does where deletion vectors are on: the file stays; delta-rs can't write that."""
    version = DeltaTable(path).version() + 1
    lines = [line for log in sorted((path / "_delta_log").glob("*.json")) for line in log.read_text().splitlines()]
    added = next(each["add"] for each in map(json.loads, lines) if each.get("add", {}).get("path") == file)
    bitmap = struct.pack(
        f"<IQIIIHHI{len(rows)}H", 1681511377, 1, 0, 12346, 1, 0, len(rows) - 1, 16, *rows
    )  # a roaring bitmap of one container, which is an array
    vector = {
        "storageType": "i",
        "pathOrInlineDv": _base_85(bitmap),
        "sizeInBytes": len(bitmap),
        "cardinality": len(rows),
    }
    features = ["deletionVectors"]
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
                      "writerFeatures": features}},
        {"remove": {"path": file, "dataChange": True, "deletionTimestamp": 1}},
        {"add": {**added, "deletionVector": vector}},
    ]  # fmt: skip
    (path / "_delta_log" / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def _base_85(content: bytes) -> str:
    """ZeroMQ's, which Delta has."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    return "".join(digits[word // 85**n % 85] for (word,) in struct.iter_unpack(">I", content) for n in (4, 3, 2, 1, 0))
