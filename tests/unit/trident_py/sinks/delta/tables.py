"""Delta tables for tests: transactions as tasks stage them, without Spark, and what a reader sees."""

from __future__ import annotations

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
from trident_py.sinks.delta.staging import Storage, WriteDelta
from trident_py.sinks.delta.table import DeltaSinkTable
from trident_py.sinks.delta.transactions import DeltaTransactions
from trident_py.sinks.tables.staging import StagedFile, prefix


@define
class Leader(TableLeader):
    """One that writes words to the table at ``path``; it has recovered."""

    merge_schema: bool = False
    keys: tuple[str, ...] = ()

    def made(self) -> DeltaTransactions:
        return DeltaTransactions(self.partition_by, Storage(str(self.path)), self.merge_schema, self.keys)

    def write(self, tx: SinkTransaction, rows: Sequence[tuple[Any, ...]]) -> list[StagedFile]:
        return written(Storage(str(self.path)), tx, self.schema, rows, () if self.keys else self.partition_by)


def untold(path: Path) -> DeltaTransactions:
    return DeltaTransactions((), Storage(str(path)))


def written(
    storage: Storage,
    tx: SinkTransaction,
    schema: str,
    rows: Sequence[tuple[Any, ...]],
    partition_by: tuple[str, ...] = (),
    required: tuple[str, ...] = (),
) -> list[StagedFile]:
    """What one task reports that writes these rows."""
    task = WriteDelta(
        storage=storage,
        prefix=prefix(tx),
        schema=arrow_schema(schema_of(schema)),
        partition_by=partition_by,
        required=required,
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
