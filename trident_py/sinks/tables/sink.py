"""The sinks that commit to a table of an open format: what each is asked for, it has its transactions do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from trident_py.sinks.tables.staging import StagedFile
    from trident_py.sinks.tables.transactions import TableTransactions


class FormatSink(TransactionalSink["list[StagedFile]"]):
    """A sink whose transactions are commits of a table of an open format."""

    _transactions: TableTransactions[Any]

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Commit the epoch, after which no commit of an older leader succeeds; then remove what those have staged."""
        return self._transactions.recover(topology, epoch)

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> list[StagedFile]:
        """Have Spark's tasks write the rows as files that the table doesn't know."""
        return self._transactions.stage(tx, frame)

    def receipt_rows(self, receipt: list[StagedFile]) -> int:
        """Count the rows of the files."""
        return sum(file.content.rows for file in receipt)

    def commit(self, tx: SinkTransaction, receipt: list[StagedFile]) -> None:
        """Add the files to the table, with the token, in one commit."""
        self._transactions.commit(tx, receipt)

    def abort(self, tx: SinkTransaction, receipt: list[StagedFile] | None) -> None:
        """Remove the files."""
        self._transactions.abort(tx, receipt)


def check_partitions(fields: Sequence[t.StructField], refused: tuple[type[t.DataType], ...]) -> None:
    """See whether a table can be partitioned by these fields.

    Raises:
        TopologyError: one is of a type that is refused.
    """
    for each in fields:
        if isinstance(each.dataType, refused):
            kind = each.dataType.simpleString()
            raise TopologyError(f"field {each.name!r} is {kind}, and no table is partitioned by that")
