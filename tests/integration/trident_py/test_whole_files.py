"""Files that are read as a whole: their rows are those that Spark reads, and each counts once in a topology."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.integration.trident_py.test_windows import PATIENCE_SECONDS, Failing, config, select
from trident_py import FileSpout, SQLiteState, SQLSink, Sum, TridentConfig, TridentTopology
from trident_py.rows.schema import arrow_schema
from trident_py.spouts.files.columns import WholeReader, whole_format
from trident_py.spouts.files.paths import PathPattern
from trident_py.spouts.files.places import LocalFiles
from trident_py.spouts.files.sampling import found_schema

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

__all__ = ["config"]

COLUMNS = {
    "flag": "id % 2 = 0",
    "tiny": "CAST(id % 100 AS tinyint)",
    "number": "id",
    "half": "CAST(id AS float) / 3",
    "price": "CAST(id AS decimal(20, 3)) / 7",
    "name": "IF(id % 5 = 0, NULL, concat('größe ', id))",
    "bytes": "CAST(CAST(id AS string) AS binary)",
    "day": "date_add(DATE'2024-02-28', CAST(id AS int))",
    "at": "timestamp_micros(id * 1000001)",
    "local": "CAST(timestamp_micros(id * 1000001) AS timestamp_ntz)",
    "list": "array(id, NULL, id + 1)",
    "pairs": "map(concat('k', id), id)",
    "inside": "struct(id AS a, array(struct(CAST(timestamp_micros(id) AS timestamp_ntz) AS b)) AS c)",
}


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_the_rows_are_those_that_spark_reads_from_what_it_has_written(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    given = spark.range(1000).selectExpr(*(f"{value} AS {name}" for name, value in COLUMNS.items()))
    given.coalesce(1).write.option("parquet.block.size", 4096).format(kind).save(str(tmp_path / "made"))
    (path,) = map(str, (tmp_path / "made").glob("part-*"))
    made = whole_format(kind, given.schema, "fail")
    reader = WholeReader(made, LocalFiles(PathPattern.of(path)))
    ours = pa.Table.from_batches(reader(reader.portions(next(reader.place.find()))), arrow_schema(made.fields))
    sparks = spark.read.schema(given.schema).format(kind).load(path).toArrow()
    assert ours.drop_columns(["_path", "_position"]).to_pylist() == sparks.to_pylist()
    assert ours.column("_position").to_pylist() == list(range(1000))
    found = found_schema(kind, reader.place, {})
    assert [each.dataType for each in found] == [each.dataType for each in spark.read.format(kind).load(path).schema]


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_values_in_the_names_of_folders_are_those_that_spark_has_written(
    spark: SparkSession, config: TridentConfig, tmp_path: Path, kind: str
) -> None:
    odd = "element_at(array('a b', NULL, 'c=d', 'e/f', '%41', 'ö', '.g'), CAST(id % 7 AS int) + 1)"
    given = spark.range(21).selectExpr(
        "id AS n", f"{odd} AS odd", "date_add(DATE'2024-02-28', CAST(id % 3 AS int)) AS day"
    )
    given.repartition(1).write.partitionBy("day", "odd").format(kind).save(str(tmp_path / "made"))
    schema, topology = "day date, n bigint, odd string", TridentTopology("folders")
    glob, folders = tmp_path / "made" / "day=*" / "odd=*" / "part-*", ["day", "odd"]
    files = FileSpout(glob, format=kind, schema=schema, partition_by=folders, settled=timedelta(0))
    found = SQLSink(f"sqlite:///{tmp_path / 'found.db'}", "found")
    topology.new_stream("files", files).project("day", "n", "odd").write_to(found)
    with topology.start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
    sparks = spark.read.schema(schema).format(kind).load(str(tmp_path / "made")).select("day", "n", "odd").collect()
    rows = select(tmp_path / "found.db", "SELECT day, n, odd FROM found ORDER BY n")
    assert rows == sorted(((str(day), n, odd) for day, n, odd in sparks), key=lambda row: row[1])


def test_each_row_counts_once_over_a_failed_commit_and_a_restart(
    spark: SparkSession, config: TridentConfig, tmp_path: Path
) -> None:
    def write(name: str, *numbers: int) -> None:
        table: Any = pa.table({"kind": ["odd" if n % 2 else "even" for n in numbers], "n": numbers})
        pq.write_table(table, tmp_path / name, row_group_size=2)

    write("a.parquet", 1, 2, 3)
    for fails in (1, 2):
        failing, topology = Failing({fails}), TridentTopology("files")
        files = FileSpout(
            tmp_path / "*.parquet", format="parquet", schema="kind string, n bigint", settled=timedelta(milliseconds=50)
        )
        stream = topology.new_stream("files", files)
        totals = SQLiteState(tmp_path / "totals.db", table="totals")
        stream.group_by("kind").persistent_aggregate(totals, Sum("n"), "total")
        stream.partition_persist(failing, failing, ["n"])
        with topology.start(config, spark=spark) as query:
            query.process_all_available(PATIENCE_SECONDS)
        assert failing.failed == {fails}
        write("b.parquet", 4, 5)
    found = select(tmp_path / "totals.db", "SELECT kind, total FROM totals ORDER BY kind")
    assert found == [("even", 6), ("odd", 9)]
