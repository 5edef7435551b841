"""The protocol of `DeltaSink`: transactions in a Delta table, in order, each once, next to other writers."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from trident_py.errors import FailedException, SinkError
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.rows.schema import arrow_schema
from trident_py.sinks.changes import MergeFields, stored_fields
from trident_py.sinks.delta.compaction import Compaction
from trident_py.sinks.delta.merging import merge_source, rows_source
from trident_py.sinks.delta.staging import Storage, WriteDelta, read
from trident_py.sinks.delta.table import DeltaSinkTable
from trident_py.sinks.delta.undo import NotUndoneError
from trident_py.sinks.tables.staging import StagedFile, discard, of_transaction, prefix, stage
from trident_py.sinks.tables.transactions import Replacement, TableTransactions
from trident_py.sinks.token import TableToken

log = logging.getLogger(__name__)


@define(eq=False)
class DeltaTransactions(TableTransactions[DeltaSinkTable]):
    """Commits a topology's transactions to a Delta table.

    Attributes:
        storage: the place of the table.
        merge_schema: whether fields that the table lacks are added to it.
        keys: the fields by which rows replace others; empty: rows are added.
        changes: the fields by which rows are changes; None: they aren't.
        compact_every: the number of transactions between two compactions of small files; None: no compaction.
    """

    storage: Storage
    merge_schema: bool = False
    keys: tuple[str, ...] = ()
    changes: MergeFields | None = None
    compact_every: int | None = None
    _compaction: Compaction | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the compaction, if there is one."""
        self._compaction = Compaction(self.storage, self.compact_every) if self.compact_every else None

    @property
    def name(self) -> str:
        """The address of the table."""
        return self.storage.uri

    @property
    def merges(self) -> bool:
        """Whether rows replace others, which can't be restored then."""
        return bool(self.keys)

    def columns(self, fields: StructType) -> StructType:
        return stored_fields(fields) if self.changes else fields

    def opened(self) -> DeltaSinkTable | None:
        return DeltaSinkTable.open(self.storage)

    def create(self, fields: StructType) -> None:
        DeltaSinkTable.create(self.storage, fields, self.partition_by)

    def check(self, table: DeltaSinkTable) -> None:
        """Check that plain files with these partitions and fields may be added."""
        table.check()
        table.check_layout(self.partition_by)
        if self.fields is not None:
            table.fit(self.fields, merge_schema=self.merge_schema)

    def write(self, table: DeltaSinkTable, tx: SinkTransaction, frame: DataFrame) -> list[StagedFile]:
        task = WriteDelta(
            storage=self.storage,
            prefix=prefix(tx),
            schema=arrow_schema(frame.schema),
            required=() if self.changes else tuple(table.required),  # a deleted row has its key only
            partition_by=() if self.keys else self.partition_by,  # rows to be merged are read again here
            partitions=self.partition_by,
        )
        return stage(self.storage, frame, task)

    def add(
        self, table: DeltaSinkTable, token: TableToken, staged: Sequence[StagedFile], removed: Sequence[str]
    ) -> None:
        """Add the files, or merge their rows.

        Raises:
            FailedException: a field has become NOT NULL since the rows were written.
        """
        required = set(table.required if self.changes is None else ())
        if any(required - set(each.about.get("required", table.required)) for each in staged):
            raise FailedException(
                f"{self._leading.who}: a field of the Delta table {self.name!r} became NOT NULL after rows were "
                f"written for it; they are written again"
            )
        if self.keys:
            self._merge(table, token, staged)
            discard(self.storage, [each.path for each in staged])
            return
        super().add(table, token, staged, removed)
        if self._compaction:
            self._compaction.begin(self._leading.topology.uuid, token)

    def replaced(self, table: DeltaSinkTable, found: TableToken, txid: int) -> Replacement:
        """Return the change that removes the rows of a transaction, even if its files were compacted since."""
        paths = of_transaction(self._leading.topology.uuid, txid, table.paths)
        if (rows := table.rows_of(paths)) == found.content.rows:
            return Replacement(paths)
        try:
            version, removed, added = table.before(self._leading.topology.uuid, txid)
        except NotUndoneError as error:
            raise SinkError(f"{self.moved_rows(txid, found.content.rows, rows)}: {error}") from error
        log.warning(
            "%s: the files of transaction %d, version %d of %r, were compacted since: undone, as its rows differ",
            self._leading.who, txid, version, self.name,
        )  # fmt: skip
        return Replacement(removed, added)

    def close(self) -> None:
        """Wait for a running compaction."""
        if self._compaction:
            self._compaction.close()

    def _merge(self, table: DeltaSinkTable, token: TableToken, staged: Sequence[StagedFile]) -> None:
        if not staged or self.fields is None:
            table.commit(self._leading.topology.uuid, token, [])
            return
        if self.changes:
            source = merge_source(read(self.storage, staged), self.fields.names, self.keys, self.changes)
            self._check_nulls(token, source.null_field(table.required))
        else:
            rows = read(self.storage, staged, self.fields)
            self._check_keys(token, rows)
            source = rows_source(rows, self.keys)
        table.merge(self._leading.topology.uuid, token, source)

    def _check_keys(self, token: TableToken, rows: pa.Table) -> None:
        again = _comparable(rows.select(self.keys)).group_by(list(self.keys)).aggregate([([], "count_all")])
        again = again.filter(pc.field("count_all") > 1)
        if again.num_rows:
            key = {name: again[name][0].as_py() for name in self.keys}
            raise SinkError(
                f"{self._leading.who}: transaction {token.txid} has {again['count_all'][0]} rows with the key {key}, "
                f"and nothing says which of them counts; to fix this: aggregate the stream by {list(self.keys)} "
                f"before it is merged"
            )

    def _check_nulls(self, token: TableToken, name: str) -> None:
        if name:
            raise SinkError(
                f"{self._leading.who}: transaction {token.txid} has a row in which the field {name!r} is null, and the "
                f"Delta table {self.name!r} has it NOT NULL; to fix this: fill it before the sink"
            )


def _comparable(keys: pa.Table) -> pa.Table:
    """Return keys as the merge compares them: -0.0 becomes 0.0."""
    return pa.table(
        {
            name: pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column
            for name, column in zip(keys.column_names, keys.columns, strict=True)
        }
    )
