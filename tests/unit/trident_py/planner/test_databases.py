"""Who commits with whom, before anything is started."""

from __future__ import annotations

from pathlib import Path

from trident_py.operations.builtin import Count
from trident_py.sinks.sql.sink import SQLSink
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.sql.mysql import MySQLState
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology


def squeezed(topology: TridentTopology) -> list[str]:
    return [" ".join(line.split()) for line in topology.explain().splitlines()]


def test_outputs_of_one_file_are_said_to_commit_together_fed_ones_and_sinks_included(tmp_path: Path) -> None:
    (tmp_path / "one.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "one.db")
    topology = TridentTopology("words")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2))
    counts = words.group_by("word").persistent_aggregate(SQLiteState(tmp_path / "one.db", table="counts"), Count(), "n")
    fed = counts.new_values_stream().group_by("word")
    fed.persistent_aggregate(SQLiteState(tmp_path / "link.db", table="fed"), Count(), "changes")
    words.name("log").write_to(SQLSink(f"sqlite:///{tmp_path / 'one.db'}", "log"))
    words.persistent_aggregate(SQLiteState(tmp_path / "other.db", table="total"), Count(), "n")
    told = [line for line in squeezed(topology) if line.startswith("in one transaction")]
    assert told == [
        f"in one transaction of {tmp_path / 'one.db'} with fed, log",
        f"in one transaction of {tmp_path / 'link.db'} with counts, log",
        f"in one transaction of {tmp_path / 'one.db'} with counts, fed",
    ]


def test_a_state_in_shards_commits_alone(tmp_path: Path) -> None:
    topology = TridentTopology("words")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2)).group_by("word")
    words.persistent_aggregate(SQLiteState(tmp_path / "a.db", table="one"), Count(), "n")
    words.persistent_aggregate(SQLiteState(tmp_path / "a.db", table="two", shards=2), Count(), "n")
    assert not [line for line in squeezed(topology) if line.startswith("in one transaction")]
    assert f"two: SQLiteState(path='{tmp_path / 'a.db'}', table='two', shards=2), " in topology.explain()


def test_files_that_are_not_there_yet_are_told_by_their_paths(tmp_path: Path) -> None:
    topology = TridentTopology("words")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2))
    words.persistent_aggregate(SQLiteState(tmp_path / "a.db", table="one"), Count(), "n")
    words.persistent_aggregate(SQLiteState(tmp_path / "b" / ".." / "a.db", table="two"), Count(), "n")
    assert f"in one transaction of {tmp_path / 'a.db'} with two" in squeezed(topology)
    assert not (tmp_path / "a.db").exists()


def test_of_a_server_that_does_not_answer_the_urls_are_compared_and_that_is_said() -> None:
    topology = TridentTopology("words")
    words = topology.new_stream("words", FixedBatchSpout("word string", 2))
    for name in ("one", "two"):
        words.persistent_aggregate(MySQLState("mysql://nobody:secret@127.0.0.1:1/none", table=name), Count(), "n")
    [told, _] = [line for line in squeezed(topology) if line.startswith("in one transaction")]
    assert told.endswith("(by its URL: the server did not answer, and is asked at the start) with two")
    assert "secret" not in told
