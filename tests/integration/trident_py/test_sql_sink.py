"""`SQLSink` and `SQLQuery` in running topologies, and through the conformance kit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.servers.mariadb import MariaDBServer
from trident_py import SQLQuery, SQLSink, TridentTopology
from trident_py.errors import TopologyError
from trident_py.spouts import FixedBatchSpout, IBatchSpout
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.spark

WORDS = [("a",), ("b",), ("a",), (None,)]


def lines(topology: TridentTopology) -> Any:
    return topology.new_stream("words", FixedBatchSpout("word string", 2, *WORDS))


@pytest.mark.mysql
@pytest.mark.parametrize("by_tasks", [True, False])
def test_rows_reach_a_server_from_tasks_and_small_batches_of_them_from_the_driver(
    by_tasks: bool, spark: SparkSession, mysql: str, mariadb_server: MariaDBServer
) -> None:
    topology = TridentTopology("rows")
    words = lines(topology)
    words = words.transform(DataFrame.distinct) if by_tasks else words  # which shares no jobs
    words.write_to(SQLSink(mysql, "seen"))
    assert "exactly-once" in topology.explain()
    coordination = LocalCoordination()
    run_batches(topology, coordination, spark)
    run_batches(topology, coordination, spark)
    database = mysql.rpartition("/")[2]
    found = mariadb_server.run("SELECT word FROM seen", database=database)
    assert sorted(found, key=str) == sorted(WORDS, key=str)
    assert len(mariadb_server.run("SHOW TABLES", database=database)) == 2


def test_rows_are_looked_up_by_their_fields(spark: SparkSession, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "prices.db")) as client:
        client.execute("CREATE TABLE prices (item TEXT, price INTEGER)")
        client.executemany("INSERT INTO prices VALUES (?, ?)", [("a", 1), ("a", 2), ("b", 3)])
        client.commit()
    query = SQLQuery(f"sqlite:///{tmp_path / 'prices.db'}", "SELECT price FROM prices WHERE item = :word ORDER BY 1")
    topology = TridentTopology("prices")
    priced = lines(topology).state_query(topology.new_static_state(query), "word", query, "price bigint")
    priced.project("word", "price").write_to(SQLSink(f"sqlite:///{tmp_path / 'out.db'}", "rows"))
    run_batches(topology, LocalCoordination(), spark)
    with closing(sqlite3.connect(tmp_path / "out.db")) as client:
        rows = client.execute("SELECT word, price FROM rows").fetchall()
    assert sorted(rows) == [("a", 1), ("a", 1), ("a", 2), ("a", 2), ("b", 3)]


def test_a_parameter_that_is_no_field_is_refused(tmp_path: Path) -> None:
    topology = TridentTopology("prices")
    query = SQLQuery(f"sqlite:///{tmp_path / 'prices.db'}", "SELECT price FROM prices WHERE item = :item")
    with pytest.raises(TopologyError, match=":item"):
        lines(topology).state_query(topology.new_static_state(query), "word", query, "price bigint")


class Opaque(IBatchSpout):
    output_schema = "word string"

    def emit_batch(self, txid: int, collector: Any) -> None:
        collector.emit(("a",))


def test_an_opaque_spout_is_refused(tmp_path: Path) -> None:
    topology = TridentTopology("opaque")
    with pytest.raises(TopologyError, match="is opaque"):
        topology.new_stream("words", Opaque()).write_to(SQLSink(f"sqlite:///{tmp_path / 'out.db'}", "rows"))
