"""Streaming readers of PySpark's Python Data Source API as spouts: what a batch is, and when the source forgets it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from attrs import define
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, emitted
from trident_py import DataSourceSpout, Replay, SpoutError, TopologyError

ROWS = [(n, "even" if n % 2 == 0 else "odd") for n in range(10)]


@define(eq=False)
class Numbers(DataSourceStreamReader):
    """The numbers up to an option, a partition for each three.

    Attributes:
        shape: of the rows: tuples, rows with names in another order, or Arrow.
        committed: the ends that were committed.
    """

    upto: int
    shape: str
    committed: ClassVar[list[Any]] = []

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        return {"n": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else 4
        assert isinstance(limit, ReadMaxRows | ReadAllAvailable)
        return {"n": min(start["n"] + most, self.upto)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((n, min(n + 3, end["n"]))) for n in range(start["n"], end["n"], 3)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        rows = ROWS[slice(*partition.value)]
        if self.shape == "arrow":
            yield pa.RecordBatch.from_pydict({"kind": [kind for _, kind in rows], "n": [n for n, _ in rows]})
        for n, kind in rows if self.shape != "arrow" else ():
            yield Row(kind=kind, n=n) if self.shape == "rows" else (n, kind)

    def commit(self, end: dict[str, int]) -> None:
        self.committed.append(end)


class BeforeStarts(Numbers):
    """As readers were before Spark 4.2."""

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        return {"n": self.upto}


class NumbersSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "n bigint, kind string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        kind = BeforeStarts if self.options.get("OLD") == "true" else Numbers
        return kind(int(self.options["upTo"]), self.options.get("shape", ""))


@define(eq=False)
class SimpleNumbers(SimpleDataSourceStreamReader):
    """The numbers up to an option, four at once; notes from where on they are read."""

    upto: int
    read_times: ClassVar[list[int]] = []

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"n": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
        self.read_times.append(start["n"])
        rows = ROWS[start["n"] : min(start["n"] + 4, self.upto)]
        return iter(rows), {"n": start["n"] + len(rows)}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[Any]:  # noqa: N802
        return iter(ROWS[start["n"] : end["n"]])


class OnceNumbers(SimpleNumbers):
    """Can't read a range again."""

    readBetweenOffsets = SimpleDataSourceStreamReader.readBetweenOffsets  # noqa: N815


class StandingNumbers(SimpleNumbers):
    """Says that the next batch begins where this one began."""

    def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
        return iter(ROWS[:1]), start


class SimpleSource(DataSource):
    kind: ClassVar[type[SimpleNumbers]] = SimpleNumbers

    def schema(self) -> str:
        return "n bigint, kind string"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802
        return self.kind(int(self.options.get("upto", len(ROWS))))


class OnceSource(SimpleSource):
    kind = OnceNumbers


class StandingSource(SimpleSource):
    kind = StandingNumbers


class Unreadable(DataSource):
    def schema(self) -> str:
        return "n int"


class WithoutFields(DataSource):
    """Takes its fields from the user."""


def batches(spout: DataSourceSpout, number: int) -> list[list[tuple[Any, ...]]]:
    """The rows of the first batches, each committed before the next one."""
    coordinator, emitter = spout.get_coordinator("s", CONF, CONTEXT), spout.get_emitter("s", CONF, CONTEXT)
    found, last = [], None
    for txid in range(1, number + 1):
        assert coordinator.is_ready(txid)
        last = coordinator.initialize_transaction(txid, last, None)
        found.append(emitted(emitter, TransactionAttempt(txid, 0), last))
        emitter.success(TransactionAttempt(txid, 0))
    return found


@pytest.mark.parametrize("shape", ["tuples", "rows", "arrow"])
def test_a_batch_goes_to_the_latest_offset_and_tasks_read_its_partitions(shape: str) -> None:
    Numbers.committed.clear()
    assert batches(DataSourceSpout(NumbersSource, upTo=10, shape=shape), 3) == [ROWS[:4], ROWS[4:8], ROWS[8:]]
    assert Numbers.committed == [{"n": 4}, {"n": 8}, {"n": 10}]


def test_a_reader_from_before_spark_4_2_is_asked_without_a_start() -> None:
    assert batches(DataSourceSpout(NumbersSource, UPTO=10, old=True), 1) == [ROWS]


def test_without_new_rows_it_is_not_ready_and_a_limit_goes_to_the_reader() -> None:
    spout = DataSourceSpout(f"{__name__}:NumbersSource", upto=3)
    coordinator = spout.get_coordinator("s", CONF, CONTEXT)
    coordinator.limit_batches(2)
    assert coordinator.is_ready(1)
    first = coordinator.initialize_transaction(1, None, None)
    assert first == {"start": {"n": 0}, "end": {"n": 2}}
    assert coordinator.initialize_transaction(2, first, None)["end"] == {"n": 3}
    assert not coordinator.is_ready(3)


def test_a_later_leader_goes_on_at_the_end_of_the_last_batch() -> None:
    coordinator = DataSourceSpout(NumbersSource, upto=10).get_coordinator("s", CONF, CONTEXT)
    coordinator.restore(coordinator.moved({"start": {"n": 2}, "end": {"n": 5}}))
    assert coordinator.initialize_transaction(7, None, None) == {"start": {"n": 5}, "end": {"n": 9}}


def test_a_simple_reader_reads_once_and_a_later_leader_reads_between_the_offsets() -> None:
    SimpleNumbers.read_times.clear()
    assert batches(DataSourceSpout(SimpleSource), 3) == [ROWS[:4], ROWS[4:8], ROWS[8:]]
    assert SimpleNumbers.read_times == [0, 4, 8]
    later = DataSourceSpout(SimpleSource).get_emitter("s", CONF, CONTEXT)
    assert emitted(later, TransactionAttempt(2, 1), {"start": {"n": 4}, "end": {"n": 8}}) == ROWS[4:8]


def test_a_simple_reader_that_can_not_read_again_says_so() -> None:
    spout = DataSourceSpout(OnceSource)
    assert batches(spout, 1) == [ROWS[:4]]
    later = DataSourceSpout(OnceSource).get_emitter("s", CONF, CONTEXT)
    with pytest.raises(SpoutError, match=r"OnceNumbers can't read the rows from .* again, .*implement readBetween"):
        emitted(later, TransactionAttempt(1, 1), {"start": {"n": 0}, "end": {"n": 4}})


def test_a_simple_reader_whose_offset_stands_would_read_for_ever() -> None:
    coordinator = DataSourceSpout(StandingSource).get_coordinator("s", CONF, CONTEXT)
    with pytest.raises(SpoutError, match="its offset did not move"):
        coordinator.is_ready(1)


def test_it_is_opaque_unless_the_user_says_that_ranges_are_exact() -> None:
    assert DataSourceSpout(NumbersSource, upto=1).replay is Replay.OPAQUE
    assert DataSourceSpout(NumbersSource, upto=1, replay=Replay.EXACT).replay is Replay.EXACT


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: DataSourceSpout(Unreadable), "'Unreadable' has no streaming reader"),
        (lambda: DataSourceSpout(WithoutFields), "'WithoutFields' has no fields of its own: give schema="),
        (lambda: DataSourceSpout("nowhere:Numbers"), "there is no data source 'nowhere:Numbers'"),
        (lambda: DataSourceSpout("numbers"), "there is no data source 'numbers', in the form 'module:Class'"),
        (lambda: DataSourceSpout(Numbers), "extends pyspark's DataSource, not"),  # type: ignore[arg-type]
    ],
)
def test_what_can_not_be_read_is_refused(declare: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        declare()
