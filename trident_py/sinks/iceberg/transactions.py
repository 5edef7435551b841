"""The protocol of `IcebergSink`: transactions in an Iceberg table, in order, each once, next to other writers."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from datetime import timedelta

from attrs import define, field
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NotInstalledError
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from trident_py.errors import SinkError
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.rows.schema import arrow_schema
from trident_py.sinks.iceberg.staging import WriteIceberg, made_of
from trident_py.sinks.iceberg.table import FORMAT_VERSION, IcebergSinkTable
from trident_py.sinks.iceberg.verdicts import catalog_errors
from trident_py.sinks.tables.staging import StagedFile, prefix, stage
from trident_py.sinks.tables.transactions import NOTHING, Replacement, TableTransactions
from trident_py.sinks.token import TableToken

_NEW_TABLE = {
    "format-version": str(FORMAT_VERSION),
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
"""Each transaction is a snapshot: without these properties, its lists of files and its old states would grow forever.
"""


@define(eq=False)
class IcebergTransactions(TableTransactions[IcebergSinkTable]):
    """Commits a topology's transactions to an Iceberg table.

    Attributes:
        table_name: its name in the catalog, with its namespace.
        catalog: the name of a configured catalog, or the properties of one.
        expire_after: the age of snapshots that a commit removes; None: none are removed.
    """

    table_name: str
    catalog: str | Mapping[str, str] = field(repr=False)
    expire_after: timedelta | None = None
    _catalog: Catalog | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The name of the table in the catalog."""
        return self.table_name

    def connected(self) -> Catalog:
        """Return the catalog.

        Raises:
            SinkError: the name or properties are not those of a usable catalog.
            ConnectionError: the catalog does not answer.
        """
        if self._catalog is None:
            try:
                given = self.catalog
                with catalog_errors(self.name):
                    self._catalog = load_catalog(given) if isinstance(given, str) else load_catalog(**given)
            except NotInstalledError as error:
                raise SinkError(f"pyiceberg can't use the catalog of {self.name!r}: {error}") from error
            except (ValueError, KeyError):  # whose texts show all properties, secrets among them
                raise SinkError(
                    f"pyiceberg can't use the catalog of {self.name!r}: its type or its uri is unknown; to fix this: "
                    f"try pyiceberg.catalog.load_catalog with the same name or properties"
                ) from None
        return self._catalog

    def opened(self) -> IcebergSinkTable | None:
        return IcebergSinkTable.open(self.table_name, self.connected(), self.expire_after)

    def create(self, fields: StructType) -> None:
        """Make an empty table, and its namespace if that does not exist."""
        catalog = self.connected()
        try:
            with catalog_errors(self.name):
                catalog.create_namespace_if_not_exists(catalog.namespace_from(self.table_name))
            with (
                catalog_errors(self.name),
                catalog.create_table_transaction(
                    self.table_name, arrow_schema(_nullable(fields)), properties=_NEW_TABLE
                ) as transaction,
                transaction.update_spec() as spec,
            ):
                for text in self.partition_by:
                    column, transform = made_of(text, fields.names)
                    spec.add_field(column, transform, column if transform == "identity" else None)
        except (ValueError, TypeError) as error:
            raise SinkError(f"pyiceberg can't make the table {self.name!r}: {error}") from error

    def check(self, table: IcebergSinkTable) -> None:
        """Check that the table refuses late leaders, and that the rows fit."""
        table.check(self.partition_by)
        if self.fields is not None:
            table.fit(self.fields)

    def write(self, table: IcebergSinkTable, tx: SinkTransaction, frame: DataFrame) -> list[StagedFile]:
        """Write the rows by Spark's tasks, for the table as of the last commit."""
        table = copy(table)  # a commit may refresh it meanwhile
        table.fit(frame.schema)
        task = WriteIceberg(
            storage=table.files,
            prefix=prefix(tx),
            schema=arrow_schema(frame.schema),
            required=tuple(table.required),
            partitions=table.partitions,
            table=table.schema,
            layout=table.layout,
        )
        return stage(table.files, frame, task)

    def replaced(self, table: IcebergSinkTable, found: TableToken, txid: int) -> Replacement:
        """Return the change that removes the rows of a transaction; no change if an operator has removed them."""
        if table.is_removed(self._leading.topology.uuid, found.commit):
            return NOTHING
        try:
            return super().replaced(table, found, txid)
        except SinkError as error:
            if found.commit is None:
                raise
            raise SinkError(f"{error}; {table.removal_advice(self._leading.topology.uuid, found.commit)}") from error


def _nullable(fields: StructType) -> StructType:
    return StructType([StructField(each.name, each.dataType) for each in fields.fields])
