"""Python functions over rows: this product against the same function in ``DataFrame.mapInArrow``, written by hand.

    python -m benchmarks.rows [--sizes full] [--out DIR]

Both read the same rows, kept in memory by Spark, in one session, and drop the result. By hand means what one would
write with care: rows as namedtuples, columns put together again by ``zip``, Arrow arrays of the declared types, and no
check of what the function returns.
"""

from __future__ import annotations

import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.command import run_part
from benchmarks.competitors import OURS
from benchmarks.parts import Cell, Part, Table
from benchmarks.rounds import Measured, race
from benchmarks.sizes import Sizes
from benchmarks.stage import LARGE, Stage
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import Function
from trident_py.planner.plan import plan
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology

SCHEMA = "value string, n bigint"
Line = namedtuple("Line", ["value", "n"])
BY_HAND = "by hand"


def words(line: Any) -> list[tuple[str]]:
    """A row for each word."""
    return [(word,) for word in line.value.split()]


def shout(line: Any) -> tuple[str, int]:
    """Another row."""
    return line.value.upper(), line.n + 1


def is_third(line: Any) -> bool:
    """Some of them."""
    return bool(line.n % 3 == 0)


class Length(Function):
    """A field more."""

    def execute(self, row: Any, collector: TridentCollector) -> None:
        """Emit the length of the value."""
        collector.emit((len(row.value),))


WAYS: dict[str, Callable[[Stream], Stream]] = {
    "map": lambda stream: stream.map(shout, SCHEMA),
    "filter": lambda stream: stream.filter(is_third),
    "flat_map": lambda stream: stream.flat_map(words, "word string"),
    "each": lambda stream: stream.each("value", Length(), "length bigint"),
}


class ByHand:
    """The same four, as functions for ``mapInArrow``; they travel to the workers."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def schema(self) -> str:
        """The fields that it gives."""
        return {"flat_map": "word string", "each": f"{SCHEMA}, length bigint"}.get(self.name, SCHEMA)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over Arrow batches."""
        run: Callable[[list[Any]], tuple[list[Any], pa.Schema]] = getattr(self, f"_{self.name}")
        for batch in batches:
            rows = list(map(Line._make, zip(*(column.to_pylist() for column in batch.columns), strict=True)))
            made, schema = run(rows)
            columns = list(zip(*made, strict=True)) or [()] * len(schema)
            arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _map(self, rows: list[Any]) -> tuple[list[Any], pa.Schema]:
        return list(map(shout, rows)), LINES

    def _filter(self, rows: list[Any]) -> tuple[list[Any], pa.Schema]:
        return [row for row in rows if is_third(row)], LINES

    def _flat_map(self, rows: list[Any]) -> tuple[list[Any], pa.Schema]:
        return [word for row in rows for word in words(row)], pa.schema([("word", pa.string())])

    def _each(self, rows: list[Any]) -> tuple[list[Any], pa.Schema]:
        emitted: list[Any] = []
        collect, function = Emitted(), Length()
        for row in rows:
            function.execute(row, collect)
            emitted += [(*row, *values) for values in collect.rows]
            collect.rows.clear()
        return emitted, LINES.append(pa.field("length", pa.int64()))


LINES = pa.schema([("value", pa.string()), ("n", pa.int64())])


class Emitted(TridentCollector):
    """What a function emits for one row."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def emit(self, row: Any) -> None:
        """Keep it."""
        self.rows.append(row)

    def report_error(self, error: BaseException) -> None:
        """It is the benchmark's."""
        raise error


def by_trident(name: str, lines: DataFrame) -> DataFrame:
    """What a topology would run."""
    topology = TridentTopology("rows")
    WAYS[name](topology.new_stream("lines", FixedBatchSpout(SCHEMA, 1, ("", 0))))
    (branch,) = plan(topology._graph).branches  # noqa: SLF001 - without a query around it
    return branch.build({"lines": lines})


def by_hand(name: str, lines: DataFrame) -> DataFrame:
    """What one would write."""
    way = ByHand(name)
    return lines.mapInArrow(way, way.schema)


def seconds(frame: DataFrame) -> float:
    """How long one job over it takes."""
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def measure(stage: Stage, sizes: Sizes) -> Part:
    """Each function both ways, in turns."""
    results: dict[str, dict[str, Measured]] = {}
    with stage.session(LARGE) as spark:
        text = "the quick brown fox jumps over the lazy dog"
        frame = spark.range(sizes.rows).selectExpr(f"concat('{text} ', id) AS value", "id AS n").cache()
        frame.count()
        for name in WAYS:
            both = {BY_HAND: by_hand(name, frame), OURS: by_trident(name, frame)}
            turns = {way: (lambda made=made: seconds(made)) for way, made in both.items()}
            results[name] = race(turns, sizes.rounds, BY_HAND)
    rows: list[dict[str, Cell]] = [
        {
            "": name,
            "by hand, rows/s": sizes.rows / found[BY_HAND].median,
            "trident_py, rows/s": sizes.rows / found[OURS].median,
            "× by hand": found[OURS].ratio,
            "spread": found[OURS].ratio_spread,
        }
        for name, found in results.items()
    ]
    return Part(
        tables=[Table("Python functions over rows", rows)],
        numbers={f"rows_{name}_vs_hand": found[OURS].ratio for name, found in results.items()},
        spread={f"rows_{name}_vs_hand": found[OURS].ratio_spread for name, found in results.items()},
    )


def main(argv: list[str] | None = None) -> int:
    """This part alone."""
    return run_part("rows", measure, argv)


if __name__ == "__main__":
    sys.exit(main())
