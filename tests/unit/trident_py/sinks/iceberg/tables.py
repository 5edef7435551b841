"""Iceberg tables for tests: transactions as tasks stage them, without Spark, and what a reader sees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from attrs import define, field
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from tests.unit.trident_py.sinks.delta.tables import SCHEMA, TOPOLOGY, transaction
from trident_py import CommitToken, SinkTransaction, TopologyKey
from trident_py.rows.schema import arrow_schema, arrow_table, schema_of
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


@define
class Leader:
    """One that writes words to the table in the catalog at ``path``; it has recovered."""

    path: Path
    epoch: int = 1
    topology: TopologyKey = TOPOLOGY
    schema: str = SCHEMA
    partition_by: tuple[str, ...] = ()
    transactions: IcebergTransactions = field(init=False)
    last: CommitToken | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.transactions = IcebergTransactions(self.partition_by, NAME, catalog_at(self.path))
        self.transactions.fields = schema_of(self.schema)
        self.last = self.transactions.recover(self.topology, self.epoch)

    def staged(self, tx: SinkTransaction, *rows: tuple[Any, ...]) -> list[StagedFile]:
        """What two tasks report that have written every second row."""
        found: list[StagedFile] = []
        for part in (rows[::2], rows[1::2]):
            found += written(self.transactions, tx, self.schema, part)
        return found

    def commit(self, txid: int, *rows: tuple[Any, ...], attempt: int = 0) -> SinkTransaction:
        tx = transaction(txid, attempt, self.epoch)
        self.transactions.commit(tx, self.staged(tx, *rows))
        return tx


def written(
    transactions: IcebergTransactions, tx: SinkTransaction, schema: str, rows: Sequence[tuple[Any, ...]]
) -> list[StagedFile]:
    """What one task reports that writes these rows."""
    fields, table = schema_of(schema), transactions.opened()
    assert table is not None
    task = WriteIceberg(
        storage=table.files,
        prefix=prefix(tx),
        schema=arrow_schema(fields),
        required=tuple(table.required),
        partitions=table.partitions,
        table=table.schema,
        layout=table.layout,
    )
    reports = task(iter(arrow_table(rows, fields).to_batches()))
    return [StagedFile.of(each) for report in reports for each in report.to_pylist()]


def rows_in(path: Path) -> list[tuple[Any, ...]]:
    """What a reader sees, sorted."""
    return sorted((tuple(row.values()) for row in table_at(path).scan().to_arrow().to_pylist()), key=str)


def files_in(path: Path) -> set[str]:
    """The data files that are there, whether the table knows them or not."""
    return {str(each) for each in (path / "warehouse").rglob("*.parquet")}


def files_of(path: Path) -> set[str]:
    """The files of the table."""
    return {str(each).removeprefix("file://") for each in table_at(path).inspect.files()["file_path"].to_pylist()}


def rows_of_files(path: Path) -> list[tuple[Any, ...]]:
    """What Arrow reads from the files of the table, sorted: a reader that isn't pyiceberg's."""
    rows = [row for each in files_of(path) for row in pq.read_table(each).to_pylist()]
    return sorted((tuple(row.values()) for row in rows), key=str)
