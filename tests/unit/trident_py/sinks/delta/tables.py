"""Delta tables for tests: transactions as tasks stage them, without Spark, and what a reader sees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from deltalake import DeltaTable

from trident_py import CommitToken, SinkTransaction, TopologyKey, TransactionAttempt, TransactionKey
from trident_py.rows.schema import arrow_schema, arrow_table, schema_of
from trident_py.sinks.delta.staging import Storage, WriteDelta
from trident_py.sinks.delta.transactions import DeltaTransactions
from trident_py.sinks.tables.staging import StagedFile, prefix

TOPOLOGY = TopologyKey("words", "a-uuid", 1)
SCHEMA = "word string, n bigint"


def transaction(txid: int, attempt_id: int = 0, epoch: int = 1) -> SinkTransaction:
    key = TransactionKey(TOPOLOGY.uuid, TOPOLOGY.incarnation, txid)
    return SinkTransaction(key, TransactionAttempt(txid, attempt_id), epoch)


@define
class Leader:
    """One that writes words to the table at ``path``; it has recovered."""

    path: Path
    epoch: int = 1
    topology: TopologyKey = TOPOLOGY
    schema: str = SCHEMA
    partition_by: tuple[str, ...] = ()
    merge_schema: bool = False
    keys: tuple[str, ...] = ()
    transactions: DeltaTransactions = field(init=False)
    last: CommitToken | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.transactions = DeltaTransactions(self.partition_by, Storage(str(self.path)), self.merge_schema, self.keys)
        self.transactions.fields = schema_of(self.schema)
        self.last = self.transactions.recover(self.topology, self.epoch)

    def staged(self, tx: SinkTransaction, *rows: tuple[Any, ...]) -> list[StagedFile]:
        """What two tasks report that have written every second row."""
        found: list[StagedFile] = []
        for part in (rows[::2], rows[1::2]):
            found += written(self.transactions.storage, tx, self.schema, part, () if self.keys else self.partition_by)
        return found

    def commit(self, txid: int, *rows: tuple[Any, ...], attempt: int = 0) -> SinkTransaction:
        tx = transaction(txid, attempt, self.epoch)
        self.transactions.commit(tx, self.staged(tx, *rows))
        return tx


def written(
    storage: Storage,
    tx: SinkTransaction,
    schema: str,
    rows: Sequence[tuple[Any, ...]],
    partition_by: tuple[str, ...] = (),
    required: tuple[str, ...] = (),
) -> list[StagedFile]:
    """What one task reports that writes these rows."""
    fields = schema_of(schema)
    task = WriteDelta(
        storage=storage,
        prefix=prefix(tx),
        schema=arrow_schema(fields),
        partition_by=partition_by,
        required=required,
    )
    reports = task(iter(arrow_table(rows, fields).to_batches()))
    return [StagedFile.of(each) for report in reports for each in report.to_pylist()]


def rows_in(path: Path) -> list[tuple[Any, ...]]:
    """What a reader sees, sorted."""
    return sorted(tuple(row.values()) for row in DeltaTable(path).to_pyarrow_table().to_pylist())


def files_in(path: Path) -> set[str]:
    """The files that are there, whether the table knows them or not."""
    return {str(each.relative_to(path)) for each in path.rglob("*.parquet") if "_delta_log" not in each.parts}


def files_of(path: Path) -> set[str]:
    """The files of the table."""
    return {str(Path(uri).relative_to(path)) for uri in DeltaTable(path).file_uris()}
