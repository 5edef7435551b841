"""Iceberg tables for tests: transactions as tasks stage them, without Spark, and what a reader sees."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import define
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServerError
from pyiceberg.table import Table

from tests.unit.trident_py.sinks.tables.leaders import TableLeader, reports_of
from trident_py import SinkTransaction
from trident_py.rows.schema import arrow_schema, schema_of
from trident_py.sinks.iceberg.staging import WriteIceberg
from trident_py.sinks.iceberg.transactions import IcebergTransactions
from trident_py.sinks.tables.staging import StagedFile, prefix

NAME = "web.events"


def catalog_at(path: Path) -> dict[str, str]:
    """The properties of a catalog in a directory."""
    path.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{path / 'catalog.db'}", "warehouse": f"file://{path / 'warehouse'}"}


def table_at(path: Path) -> Table:
    return load_catalog(**catalog_at(path)).load_table(NAME)


undoes_rewriting = False


@define
class Leader(TableLeader):
    """One that writes words to the table in the catalog at ``path``; it has recovered."""

    expire_after: timedelta | None = None

    def made(self) -> IcebergTransactions:
        return IcebergTransactions(self.partition_by, NAME, catalog_at(self.path), self.expire_after)

    def write(self, tx: SinkTransaction, rows: Sequence[tuple[Any, ...]]) -> list[StagedFile]:
        table = self.transactions.opened()
        assert table is not None
        task = WriteIceberg(
            storage=table.files,
            prefix=prefix(tx),
            schema=arrow_schema(schema_of(self.schema)),
            required=tuple(table.required),
            partitions=table.partitions,
            table=table.schema,
            layout=table.layout,
        )
        return reports_of(task, rows, self.schema)


def untold(path: Path) -> IcebergTransactions:
    return IcebergTransactions((), NAME, catalog_at(path))


def rows_in(path: Path) -> list[tuple[Any, ...]]:
    """What a reader sees, sorted."""
    return sorted((tuple(row.values()) for row in table_at(path).scan().to_arrow().to_pylist()), key=str)


def files_in(path: Path) -> set[str]:
    """The data files that are there, whether the table knows them or not."""
    return {str(each) for each in (path / "warehouse").rglob("*.parquet")}


def files_of(path: Path) -> set[str]:
    """The files of the table."""
    return {each.file.file_path.removeprefix("file://") for each in table_at(path).scan().plan_files()}


def rows_of_files(path: Path) -> list[tuple[Any, ...]]:
    """What Arrow reads from the files of the table, sorted: a reader that isn't pyiceberg's."""
    rows = [row for each in files_of(path) for row in pq.read_table(each).to_pylist()]
    return sorted((tuple(row.values()) for row in rows), key=str)


def commits(path: Path) -> int:
    return len(table_at(path).snapshots())


def append(path: Path, *rows: tuple[str, int]) -> None:
    words, numbers = zip(*rows, strict=True)
    table_at(path).append(pa.table({"word": pa.array(words), "n": pa.array(numbers, pa.int64())}))


def set_properties(path: Path, **properties: str) -> None:
    with table_at(path).transaction() as transaction:
        transaction.set_properties({name.replace("_", "-"): value for name, value in properties.items()})


def set_property(path: Path) -> None:
    set_properties(path, owner="they")


def rewrite(path: Path) -> None:
    table_at(path).overwrite(table_at(path).scan().to_arrow())


def clean_up(path: Path) -> None:
    for each in files_in(path) - files_of(path):
        Path(each).unlink()


def lose_answers(patch: pytest.MonkeyPatch) -> None:
    commit = SqlCatalog.commit_table

    def answer_lost(self: SqlCatalog, *arguments: Any) -> None:
        commit(self, *arguments)
        raise ServerError("the answer was lost")

    patch.setattr(SqlCatalog, "commit_table", answer_lost)
