"""`DataSourceSink`: every streaming writer of PySpark's Python Data Source API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import pyarrow as pa
from attrs import frozen
from pyspark import cloudpickle
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink
from trident_py.rows.row import rows_of
from trident_py.rows.schema import arrow_schema, schema_of
from trident_py.spark.data_source import data_source
from trident_py.spark.frames import map_batches, rows_of_frame
from trident_py.worker.failures import by_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MESSAGE = schema_of("message binary")

Messages: TypeAlias = list[WriterCommitMessage | None]


@frozen
class Written:
    """The messages of the tasks that have written an attempt, and the writer to commit them."""

    writer: DataSourceStreamWriter
    messages: Messages


class DataSourceSink(TransactionalSink[Written]):
    """Writes rows by a streaming writer for ``df.writeStream.format(…)``, without such a query.

    The writer's ``write`` runs in Spark tasks, in the processing phase. Its ``commit(messages, batchId)`` runs in the
    commit phase, in the order of transactions, and ``abort`` for each attempt that fails. The batch id is the
    transaction's id. As with Spark, a batch may be committed twice: a process may end right after a commit. It then has
    the same batch id, so a writer can leave it out. The API has no place for more.

    Args:
        source: the class, or ``"module:Class"``.
        **options: the source's options; never printed.

    Raises:
        TopologyError: the source can't be found.
    """

    keeps_token: ClassVar[bool] = False

    def __init__(self, source: type[DataSource] | str, **options: Any) -> None:
        self._source = data_source(source, options)

    def __repr__(self) -> str:
        return f"DataSourceSink({self._source.name()!r})"

    def details(self) -> Mapping[str, Json]:
        """Return the name of the data source."""
        return {"source": self._source.name()}

    def check_fields(self, fields: StructType) -> None:
        self._writer(fields)

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Return None: the last commit is unknown."""
        return None

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> Written:
        """Write the rows in tasks."""
        writer = self._writer(frame.schema)
        stage = WriteStage(writer, frame.schema)
        try:
            found = rows_of_frame(map_batches(frame, frame.columns, stage, _MESSAGE, classify=by_state))
        except BaseException:
            writer.abort([], tx.txid)
            raise
        return Written(writer, messages_of(found.column(0).to_pylist()))

    def commit(self, tx: SinkTransaction, receipt: Written) -> None:
        receipt.writer.commit(receipt.messages, tx.txid)

    def abort(self, tx: SinkTransaction, receipt: Written | None) -> None:
        """Let the writer remove the rows of its tasks; `prepare` itself does so if it fails."""
        if receipt is not None:
            receipt.writer.abort(receipt.messages, tx.txid)

    def _writer(self, fields: StructType) -> DataSourceStreamWriter:
        try:
            return self._source.streamWriter(fields, overwrite=False)
        except PySparkNotImplementedError:
            raise TopologyError(f"the data source {self._source.name()!r} has no streaming writer") from None


def messages_of(stored: Iterable[bytes]) -> Messages:
    """Return the messages that tasks have yielded, which have shown that they belong to the job."""
    return [cloudpickle.loads(each) for each in stored]


@frozen
class WriteStage:
    """Writes the rows of a partition in a task, and yields the writer's message."""

    writer: DataSourceStreamWriter
    fields: StructType

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over a partition, as ``DataFrame.mapInArrow`` requires."""
        named = (pa.RecordBatch.from_arrays(each.columns, schema=arrow_schema(self.fields)) for each in batches)
        takes_arrow = isinstance(self.writer, DataSourceStreamArrowWriter)
        message = self.writer.write(named if takes_arrow else self._rows(named))
        stored = cloudpickle.dumps(message)  # type: ignore[no-untyped-call]
        yield pa.RecordBatch.from_pydict({"message": [stored]}, schema=arrow_schema(_MESSAGE))

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
        make = Row(*self.fields.names)
        return (make(*row) for batch in batches for row in rows_of(batch))
