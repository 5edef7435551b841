"""The rows of a parked batch that fail are found by trials: they stay parked, and the others count."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attrs import define
from pyspark.sql import SparkSession

from tests.integration.trident_py.test_parking import (
    PATIENCE_SECONDS,
    FromQueue,
    Queue,
    config,
    opaque_config,
    run,
    select,
)
from tests.topologies import until
from tests.unit.trident_py.states.sql.everywhere import as_url
from trident_py import (
    Count,
    FileSink,
    FileSpout,
    FixedBatchSpout,
    MemoryMapState,
    PostgresState,
    ReducerAggregator,
    SQLiteState,
    SQLSink,
    Stream,
    Sum,
    TridentConfig,
    TridentQuery,
    TridentTopology,
)
from trident_py.errors import TridentError
from trident_py.testing import LocalCoordination


def rows_upto(last: int, batch: int) -> FixedBatchSpout:
    return FixedBatchSpout("n bigint", batch, *[(n,) for n in range(1, last + 1)])


@define
class Fails:
    """A row function that can't take some rows until there is a file."""

    bad: frozenset[int]
    mended: Path

    def __call__(self, row: Any) -> tuple[int, str]:
        if row.n in self.bad and not self.mended.exists():
            raise ValueError(f"{row.n} is bad")
        return row.n, "odd" if row.n % 2 else "even"


def total(stream: Stream, path: Path) -> None:
    stream.persistent_aggregate(SQLiteState(path, table="total"), Sum("n"), "total")


def totalled(path: Path) -> int:
    ((found,),) = select(path, "SELECT total FROM total")
    return int(found)


def test_the_rows_that_fail_stay_parked_and_all_others_count_once(tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    topology = TridentTopology("halves")
    stream = topology.new_stream("numbers", rows_upto(60, 20)).map(
        Fails(frozenset({24, 31}), mended), "n bigint, kind string"
    )
    total(stream, tmp_path / "t.db")
    with run(topology, LocalCoordination()) as query:
        assert query.bisect(2).found == {"numbers": (3, 10)}
        query.process_all_available(PATIENCE_SECONDS)
        assert [(each.txid, each.rows) for each in query.parked()] == [(2, 2)]
        assert totalled(tmp_path / "t.db") == sum(range(61)) - 24 - 31
        mended.touch()
        query.release()
        query.process_all_available(PATIENCE_SECONDS)
        assert query.parked() == ()
    assert totalled(tmp_path / "t.db") == sum(range(61))


@pytest.mark.long
@pytest.mark.spark
def test_states_sinks_and_new_values_agree_on_the_rows_that_fail(spark: SparkSession, tmp_path: Path) -> None:
    database, mended = tmp_path / "all.db", tmp_path / "mended"
    topology = TridentTopology("agreeing")
    stream = topology.new_stream("numbers", rows_upto(6, 2)).map(Fails(frozenset({4}), mended), "n bigint, kind string")
    total(stream, database)
    counts = stream.group_by("kind").persistent_aggregate(SQLiteState(database, table="counts"), Count(), "n")
    stream.name("files").write_to(FileSink(tmp_path / "files", format="json"))
    stream.name("log").write_to(SQLSink(f"sqlite:///{database}", "log"))
    latest = SQLSink(f"sqlite:///{tmp_path / 'latest.db'}", "latest", mode="upsert", keys="kind")
    counts.new_values_stream().name("latest").write_to(latest)

    def seen() -> list[Any]:
        files = sorted(row.n for row in spark.read.json(str(tmp_path / "files")).collect())
        found = select(tmp_path / "latest.db", "SELECT kind, n FROM latest")
        return [totalled(database), files, [n for (n,) in select(database, "SELECT n FROM log")], found]

    with run(topology, LocalCoordination(), spark) as query:
        assert query.bisect(2).found == {"numbers": (1,)}
        query.process_all_available(PATIENCE_SECONDS)
        others = [1, 2, 3, 5, 6]
        assert seen() == [sum(others), others, others, [("even", 2), ("odd", 3)]]
        mended.touch()
        query.release()
        query.process_all_available(PATIENCE_SECONDS)
    assert seen() == [21, [*range(1, 7)], [*range(1, 7)], [("even", 3), ("odd", 3)]]


@define
class Pairs(ReducerAggregator[int]):
    """A sum that can't take two numbers together."""

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, row: Any) -> int:
        if row.n == 13 and curr > 100:
            raise ValueError("13 after more than 100")
        return curr + int(row.n)


def test_rows_that_fail_only_together_are_found(tmp_path: Path) -> None:
    topology = TridentTopology("pairs")
    numbers = [(n,) for n in (1, 2, 200, 4, 5, 13, 7, 8)]
    stream = topology.new_stream("numbers", FixedBatchSpout("n bigint", 8, *numbers))
    total(stream, tmp_path / "t.db")
    stream.persistent_aggregate(SQLiteState(tmp_path / "p.db", table="pairs"), Pairs(), "n bigint")
    with run(topology, LocalCoordination()) as query:
        assert query.bisect(1).found == {"numbers": (2, 5)}
        query.process_all_available(PATIENCE_SECONDS)
        assert totalled(tmp_path / "t.db") == 27


@pytest.mark.spark
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_row_that_a_table_refuses_is_found_by_commits_that_are_undone(
    spark: SparkSession, tmp_path: Path, is_shared: bool
) -> None:
    database = tmp_path / "t.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE log (n INTEGER CHECK (n <> 11))")
        connection.commit()
    topology = TridentTopology("checked")
    stream = topology.new_stream("numbers", rows_upto(24, 8))
    total(stream, database if is_shared else tmp_path / "total.db")
    stream.name("log").write_to(SQLSink(f"sqlite:///{database}", "log"))
    with run(topology, LocalCoordination(), spark) as query:
        assert query.bisect(2).found == {"numbers": (2,)}
        query.process_all_available(PATIENCE_SECONDS)
        assert select(database, "SELECT n FROM log") == [(n,) for n in range(1, 25) if n != 11]
        assert totalled(database if is_shared else tmp_path / "total.db") == sum(range(25)) - 11


def test_a_value_that_a_state_in_memory_can_not_take_is_found(tmp_path: Path) -> None:
    topology = TridentTopology("reduced")
    stream = topology.new_stream("numbers", rows_upto(8, 8)).map(
        lambda row: (row.n, 100 * (row.n == 5) + 1), "n bigint, much bigint"
    )
    total(stream, tmp_path / "t.db")

    class Refuses(ReducerAggregator[int]):
        def init(self) -> int:
            return 0

        def reduce(self, curr: int, row: Any) -> int:
            if row.much > 100:
                raise ValueError("too much")
            return curr + int(row.much)

    stream.group_by("n").persistent_aggregate(MemoryMapState.factory(), Refuses(), "much bigint")
    with run(topology, LocalCoordination()) as query:
        assert query.bisect(1).found == {"numbers": (4,)}
        query.process_all_available(PATIENCE_SECONDS)
        assert totalled(tmp_path / "t.db") == 36 - 5


def parked_once(tmp_path: Path, **settings: Any) -> tuple[TridentQuery, Path]:
    mended = tmp_path / "mended"
    topology = TridentTopology("refused")
    stream = topology.new_stream("numbers", rows_upto(4, 4)).map(Fails(frozenset({3}), mended), "n bigint, kind string")
    total(stream, tmp_path / "t.db")
    return run(topology, LocalCoordination(), **settings), mended


def test_what_can_not_be_bisected_is_refused_by_name(tmp_path: Path) -> None:
    query, mended = parked_once(tmp_path)
    with query:
        with pytest.raises(TridentError, match="transaction 9 is not parked; nothing was changed"):
            query.bisect(9)
        mended.touch()
        with pytest.raises(TridentError, match="all rows of transaction 1 pass: release it; nothing was changed"):
            query.bisect(1)
        assert [each.rows for each in query.parked()] == [0]  # nothing was stored for it


def test_a_search_ends_if_commits_wait_too_long_for_a_trial(tmp_path: Path) -> None:
    query, _ = parked_once(tmp_path, trial_seconds=0)
    with query:
        with pytest.raises(
            TridentError, match=r"commits had to wait 0\.\d s for a trial, and trial_seconds allows 0 s"
        ):
            query.bisect(1)
        assert [each.txid for each in query.parked()] == [1]


def test_a_batch_of_one_bad_row_stays_as_it_is(tmp_path: Path) -> None:
    topology = TridentTopology("single")
    stream = topology.new_stream("numbers", rows_upto(3, 1)).map(
        Fails(frozenset({2}), tmp_path / "never"), "n bigint, kind string"
    )
    total(stream, tmp_path / "t.db")
    with run(topology, LocalCoordination()) as query:
        assert query.bisect(2).found == {"numbers": (0,)}
        assert [(each.txid, each.part, each.rows) for each in query.parked()] == [(2, 0, 1)]


def test_rows_that_a_queue_has_given_away_are_bisected_under_a_later_leader(tmp_path: Path) -> None:
    def topology() -> TridentTopology:
        made = TridentTopology("queue")
        stream = made.new_stream("queue", FromQueue(queue)).map(
            Fails(frozenset({4}), tmp_path / "never"), "n bigint, k string"
        )
        total(stream, tmp_path / "t.db")
        return made

    queue, coordination = Queue([*range(1, 9)]), LocalCoordination()
    with topology().start(opaque_config(tmp_path), coordination=coordination) as query:
        until(lambda: not queue.rows and bool(query.parked()) and not any(queue.given.values()))
        (parked,) = query.parked()
        (file,) = (tmp_path / "state" / "queue-parked").iterdir()
    with topology().start(opaque_config(tmp_path), coordination=coordination) as query:
        file.rename(tmp_path / "elsewhere")
        with pytest.raises(TridentError, match=r"could not be tried: .* is missing"):
            query.bisect(parked.txid)
        (tmp_path / "elsewhere").rename(file)
        query.bisect(parked.txid)
        until(lambda: [each.rows for each in query.parked()] == [1])
    assert totalled(tmp_path / "t.db") == 36 - 4


@pytest.mark.slow
@pytest.mark.spark
def test_a_line_among_many_is_found_by_jobs_and_the_file_is_read_once_more(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"{n}\n" for n in range(50_000)))

    def number(row: Any) -> tuple[int]:
        if row.value == "33333" and not (tmp_path / "mended").exists():
            raise ValueError("a bad line")
        return (int(row.value),)

    topology = TridentTopology("lines")
    stream = topology.new_stream("lines", FileSpout(str(tmp_path / "*.txt"))).map(number, "n bigint")
    total(stream, tmp_path / "t.db")
    settings: TridentConfig = config(on_poison="park", state_dir=tmp_path / "state")
    with topology.start(settings, coordination=LocalCoordination(), spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        (parked,) = query.parked()
        assert query.bisect(parked.txid).found == {"lines": (33_333,)}
        query.process_all_available(PATIENCE_SECONDS)
        assert totalled(tmp_path / "t.db") == sum(range(50_000)) - 33_333
        (tmp_path / "mended").touch()
        query.release()
        query.process_all_available(PATIENCE_SECONDS)
    assert totalled(tmp_path / "t.db") == sum(range(50_000))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.postgres
def test_rows_that_tasks_have_staged_are_tried_and_all_staging_tables_go(
    spark: SparkSession, postgres: str, tmp_path: Path
) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE log (n BIGINT CHECK (n <> 7777))")
    (tmp_path / "lines.txt").write_text("".join(f"{n}\n" for n in range(40_000)))
    topology = TridentTopology("staged")
    stream = topology.new_stream("lines", FileSpout(str(tmp_path / "*.txt"))).map(
        lambda row: (int(row.value), int(row.value) % 30_000), "n bigint, k bigint"
    )
    sums = PostgresState(postgres, table="sums")
    stream.group_by("k").persistent_aggregate(sums, Sum("n"), "total")
    stream.project("n").name("log").write_to(SQLSink(as_url(postgres), "log"))
    settings = config(on_poison="park", state_dir=tmp_path / "state")
    with topology.start(settings, coordination=LocalCoordination(), spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        (parked,) = query.parked()
        assert query.bisect(parked.txid).found == {"lines": (7_777,)}
        query.process_all_available(PATIENCE_SECONDS)
    with psycopg.connect(postgres) as connection:
        others = sum(range(40_000)) - 7_777
        assert connection.execute("SELECT sum(n), count(*) FROM log").fetchall() == [(others, 39_999)]
        assert connection.execute("SELECT sum(total) FROM sums").fetchall() == [(others,)]
        left = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE '\\_%\\_1000000000000000\\_%'")
        assert left.fetchall() == []
