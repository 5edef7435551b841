"""Streaming writers of PySpark's Python Data Source API as sinks: what is written, committed and aborted."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from attrs import define, frozen
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py import DataSourceSink, TopologyError
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.sinks.data_source import WriteStage, Written

FIELDS = schema_of("n bigint, kind string")


@frozen
class Part(WriterCommitMessage):
    path: Path


@define(eq=False)
class PartWriter(DataSourceStreamWriter):
    """Writes a file in each task; a commit makes them a file of the batch, and an abort deletes them."""

    directory: Path

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self.part([row.asDict() for row in iterator])

    def part(self, rows: list[dict[str, Any]]) -> WriterCommitMessage:
        path = self.directory / f"part-{uuid4()}"
        path.write_text(json.dumps(rows))
        return Part(path)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        rows = [row for each in messages if isinstance(each, Part) for row in json.loads(each.path.read_text())]
        (self.directory / f"batch-{batchId}").write_text(json.dumps(rows))
        self.abort(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        for each in messages:
            if isinstance(each, Part):
                each.path.unlink()


class ArrowPartWriter(PartWriter, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.part([row for batch in iterator for row in batch.to_pylist()])


class Parts(DataSource):
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        assert not overwrite
        kind = ArrowPartWriter if self.options.get("arrow") == "true" else PartWriter
        return kind(Path(self.options["path"]))


class Unwritable(DataSource):
    """Has neither a reader nor a writer."""


def transaction(txid: int) -> SinkTransaction:
    return SinkTransaction(TransactionKey("8d1f", 1, txid), TransactionAttempt(txid, 0), 1)


def committed(directory: Path) -> list[tuple[Any, ...]]:
    """The rows of all batches; each has one file."""
    batches = [json.loads(path.read_text()) for path in directory.glob("batch-*")]
    return sorted((row["n"], row["kind"]) for rows in batches for row in rows)


def written(directory: Path, writer: DataSourceStreamWriter, *partitions: list[tuple[Any, ...]]) -> Written:
    """What tasks return that write these partitions."""
    messages = []
    for rows in partitions:
        stage: Any = pickle.loads(pickle.dumps(WriteStage(writer, FIELDS)))  # noqa: S301 - as Spark sends it
        (batch,) = stage(arrow_table(rows, FIELDS).to_batches())
        messages += [pickle.loads(each) for each in batch.column(0).to_pylist()]  # noqa: S301
    return Written(writer, messages)


@pytest.mark.parametrize("kind", [PartWriter, ArrowPartWriter])
def test_a_commit_has_the_messages_of_all_tasks_and_an_abort_takes_them_back(
    kind: type[PartWriter], tmp_path: Path
) -> None:
    sink = DataSourceSink(Parts, path=tmp_path)
    receipt = written(tmp_path, kind(tmp_path), [(1, "odd"), (3, "odd")], [], [(2, "even")])
    assert committed(tmp_path) == []
    sink.commit(transaction(7), receipt)
    assert [path.name for path in tmp_path.iterdir()] == ["batch-7"]
    assert committed(tmp_path) == [(1, "odd"), (2, "even"), (3, "odd")]
    sink.abort(transaction(8), written(tmp_path, kind(tmp_path), [(4, "even")]))
    sink.abort(transaction(9), None)
    assert [path.name for path in tmp_path.iterdir()] == ["batch-7"]


def test_a_source_without_a_writer_is_refused_at_the_declaration() -> None:
    with pytest.raises(TopologyError, match="'Unwritable' has no streaming writer"):
        DataSourceSink(Unwritable).check_fields(FIELDS)


def test_its_options_are_not_shown() -> None:
    assert repr(DataSourceSink(Parts, token="secret")) == "DataSourceSink('Parts')"  # noqa: S106 - none
