"""`SQLSink`: the rows of each transaction in a table of a database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coordinators.values.canonical import Json
from coordinators.values.secret import Secret, as_secret
from trident_py.errors import SinkError, StateError, TopologyError
from trident_py.interfaces.sinks import CommitToken, RowsSink, SinkTransaction, TopologyKey
from trident_py.rows.schema import names_of
from trident_py.sinks.changes import MergeFields, stored_fields
from trident_py.states.sql.databases import database_of
from trident_py.states.sql.fenced_table import TableSink
from trident_py.states.sql.staging import reported_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from trident_py.sinks.sql.rows_table import RowsTable
    from trident_py.sinks.sql.writer import Prepared, RowsWriter


class SQLSink(RowsSink["Prepared"], TableSink):
    """Writes each transaction into a table: all of its rows appear at once, with the commit token.

    The table is made if it does not exist. With ``mode="append"`` it may be an existing table with columns of these
    names. With ``mode="upsert"`` rows of the same key replace each other. Then ``_key`` is the primary key, a text that
    differs for all keys, including NULLs. Two rows of one key in a batch are an error. With ``mode="merge"`` rows are
    changes, as a `PostgresChangesSpout` emits them: in their order, each replaces or deletes the row of its key. Fields
    whose names begin with an underscore say what a change means, and are not stored. In PostgreSQL and MySQL, Spark's
    tasks stage the rows of large batches. Changes, rows of small batches, and rows for SQLite are sent to the driver.
    `docs/how-to/databases.md` says more.

    The stream must return the same rows when a transaction is replayed, so no spout of it may be opaque. There is one
    exception: ``mode="upsert"`` accepts the new values of a SQL state, directly after it and by the state's own keys.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``postgresql://user:password@host:5432/database`` or
            ``mysql://user:password@host:3306/database``; never printed.
        table: its name.
        mode: ``append``, ``upsert`` or ``merge``.
        keys: for ``upsert`` and ``merge``, the fields of the key.
        sequence_by: for ``merge``, the fields that give the order of changes.
        deletes: for ``merge``, the condition of the rows that delete, such as ``"_op = 'delete'"``. A row whose field
            of this condition is ``truncate`` empties the table. None: no row deletes.

    Raises:
        TopologyError: an argument can't work.
        ConfigError: the database's library is not installed.
        StateError: ``table`` cannot be a table's name, or ``url`` is not such a URL.
    """

    needs_exact_replays = True

    def __init__(
        self,
        url: str | Secret,
        table: str,
        *,
        mode: str = "append",
        keys: str | Sequence[str] = (),
        sequence_by: str | Sequence[str] = (),
        deletes: str | None = None,
    ) -> None:
        if mode not in ("append", "upsert", "merge"):
            raise TopologyError(f"mode is 'append', 'upsert' or 'merge', not {mode!r}")
        self._keys = names_of(keys)
        if (mode != "append") != bool(self._keys):
            raise TopologyError(
                "mode='upsert' or 'merge' needs keys=, the fields by which rows replace each other, 'append' has none"
            )
        if mode != "merge" and (sequence_by or deletes):
            raise TopologyError("sequence_by= and deletes= are for mode='merge' only")
        self._merge = MergeFields.of(names_of(sequence_by), deletes) if mode == "merge" else None
        self.replaces_by = () if self._merge else self._keys
        self._url, self._table, self._mode = as_secret(url), table, mode
        self.database = database_of(self._url)
        self.database.dialect.checked_table(table)
        self._declared: RowsTable | None = None
        self._open: RowsWriter | None = None

    def __repr__(self) -> str:
        return f"SQLSink({self.database.shown!r}, {self._table!r}, mode={self._mode!r})"

    def identity(self) -> Mapping[str, Json]:
        """Return the table, and the way in which rows are written to it."""
        return {"table": self._table, "mode": self._mode, "keys": ", ".join(self._keys)}

    def details(self) -> Mapping[str, Json]:
        """Return the database."""
        return {"database": self.database.shown}

    def check_fields(self, fields: StructType) -> None:
        """Check that the database can store rows of these fields."""
        try:
            self._declared = self._table_for(fields)
        except StateError as error:
            raise TopologyError(str(error)) from error

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Refuse older leaders from now on, and drop their staging tables."""
        from trident_py.sinks.sql.rows_table import RowsTable

        with _as_sink(topology.name):
            if self._open is not None:
                self._open.close()
            self._open = self._made_writer()
            try:
                token = self._open.recover(topology, epoch)
                self._open.sweep(RowsTable(self.database.dialect, self._table, (), ()), epoch)
                if self._declared is not None:
                    self._open.table(self._declared)
            except BaseException:
                self._open.close()
                raise
        return token

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> Prepared:
        """Stage the rows in a place that readers don't read."""
        with _as_sink():
            return self._writer.prepare(tx, frame, self._table_for(frame.schema))

    def keep(self, tx: SinkTransaction, rows: pa.Table) -> Prepared:
        """Keep the rows in memory."""
        from trident_py.sinks.sql.writer import Prepared

        return Prepared(rows, staged=False)

    def receipt_rows(self, receipt: Prepared) -> int:
        """Return the number of rows, or of the rows that tasks report as staged."""
        return reported_rows(receipt.rows) if receipt.staged else receipt.rows.num_rows

    def commit(self, tx: SinkTransaction, receipt: Prepared) -> None:
        """Add the rows and the token in one transaction; skip rows that are committed already."""
        with _as_sink():
            self._writer.commit(tx, receipt)

    def can_park(self, tx: SinkTransaction) -> bool:
        """Return whether no row of ``tx.txid`` stays: those of a replayed transaction can be replaced, others not."""
        with _as_sink():
            return tx.leaves_nothing(self._writer.last(tx), undoes=tx.replaces)

    def abort(self, tx: SinkTransaction, receipt: Prepared | None) -> None:
        """Drop the staging table."""
        if self._open is not None and (receipt is None or receipt.staged):
            self._open.discard(tx)

    def close(self) -> None:
        """Close the connections."""
        writer, self._open = self._open, None
        if writer is not None:
            writer.close()

    @property
    def table(self) -> RowsWriter | None:  # type: ignore[override]
        """The writer of the table, after `recover`; None before."""
        return self._open

    @property
    def _writer(self) -> RowsWriter:
        if self._open is None:
            raise SinkError(f"{self!r} was not recovered")
        return self._open

    def _made_writer(self) -> RowsWriter:
        from trident_py.sinks.sql.writer import RowsWriter

        return RowsWriter(self.database, self._table, by_key=bool(self._keys), merge=self._merge)

    def _table_for(self, fields: StructType) -> RowsTable:
        from trident_py.sinks.sql.rows_table import RowsTable

        if self._merge is not None:
            self._merge.check(fields, self._keys)
            fields = stored_fields(fields)
        return RowsTable.of(self.database.dialect, self._table, fields, self._keys)


@contextmanager
def _as_sink(topology: str | None = None) -> Iterator[None]:
    """Raise the errors of a state as errors of the sink."""
    try:
        yield
    except StateError as error:
        raise SinkError(str(error), topology=error.topology or topology, attempt=error.attempt) from error
