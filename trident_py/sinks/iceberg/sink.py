"""`IcebergSink`: each transaction one snapshot of an Iceberg table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from pyspark.sql import types as t

from coordinators.values.canonical import Json
from trident_py.errors import ConfigError, TopologyError
from trident_py.rows.schema import names_of, select, shown
from trident_py.sinks.tables.transactions import FormatSink, check_partitions

if TYPE_CHECKING:
    from trident_py.sinks.iceberg.transactions import IcebergTransactions

_NO_PARTITION = (t.ArrayType, t.MapType, t.StructType)


class IcebergSink(FormatSink):
    """Adds each transaction to an Iceberg table, in one snapshot, by the library ``pyiceberg``.

    Readers of any kind see whole transactions, each once, at any time. Other programs may write to the table, too. The
    table is made if it does not exist. The page `docs/how-to/iceberg.md` lists the requirements of the catalog, and
    says how to maintain the table.

    Args:
        table: its name in the catalog, with its namespace: ``web.events``.
        catalog: a name or properties, as for ``pyiceberg.load_catalog``.
        partition_by: the partitions of a table that is made here: fields, or Iceberg's transforms of them, such as
            ``day(at)``, ``bucket(16, user)``. An existing table keeps its partitions; if any are given, they must
            match.
        expire_after: the commits of this sink remove snapshots of the table that are older; None: snapshots stay.
        mode: ``append``; rows replace no others.

    Raises:
        TopologyError: an argument can't work.
        ConfigError: ``pyiceberg`` is not installed.
    """

    _transactions: IcebergTransactions

    def __init__(
        self,
        table: str,
        *,
        catalog: str | Mapping[str, str],
        partition_by: str | Sequence[str] = (),
        expire_after: timedelta | None = None,
        mode: Literal["append"] = "append",
    ) -> None:
        try:
            from trident_py.sinks.iceberg.transactions import IcebergTransactions
        except ImportError as error:
            raise ConfigError(f"IcebergSink needs pyiceberg ({error}): pip install 'trident-py[iceberg]'") from error
        if mode != "append":
            raise TopologyError(
                f"mode of IcebergSink is 'append', not {shown(mode)}: pyiceberg can't replace rows by key in one step "
                f"with the token; DeltaSink(mode='merge') and SQLSink(mode='upsert') do"
            )
        if not isinstance(table, str) or not all(table.split(".")) or "." not in table:
            raise TopologyError(f"a table is named with its namespace, as 'web.events', not {shown(table)}")
        if not isinstance(catalog, str | Mapping) or not catalog:
            raise TopologyError("catalog is a name or properties, as pyiceberg.load_catalog takes them, and not empty")
        if expire_after is not None and (not isinstance(expire_after, timedelta) or expire_after <= timedelta()):
            raise TopologyError(f"expire_after is a timedelta above zero, not {shown(expire_after)}")
        properties = catalog if isinstance(catalog, str) else dict(catalog)
        self._transactions = IcebergTransactions(names_of(partition_by), table, properties, expire_after)

    def __repr__(self) -> str:
        return f"IcebergSink({self._transactions.name!r})"

    def details(self) -> Mapping[str, Json]:
        """Return the name of the table, which may change between two starts.

        A takeover fails if the committed transactions were not moved there.
        """
        return {"table": self._transactions.name}

    def check_fields(self, fields: t.StructType) -> None:
        """Check that a table of these fields can have the partitions."""
        from trident_py.sinks.iceberg.staging import made_of

        partitions = [made_of(each, fields.names)[0] for each in self._transactions.partition_by]
        check_partitions(select(fields, list(dict.fromkeys(partitions))).fields, _NO_PARTITION)
        self._transactions.fields = fields
