"""Word counts over real files, on Spark: what appears and grows is counted, and bad files are named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from shutil import copyfile

import pytest
from pyspark.sql import SparkSession

from tests.integration.trident_py.test_query import PATIENCE_SECONDS, word_count
from trident_py import FileSpout, MemoryMapState, SpoutError, TridentConfig

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]


def counted(directory: Path) -> dict[tuple[str], int]:
    """A plain count of all files."""
    words = Counter(word for path in directory.glob("*.txt") for word in path.read_text().split())
    return {(word,): count for word, count in words.items()}


def test_files_that_grow_and_appear_while_it_runs_are_counted(
    spark: SparkSession, zookeeper: str, tmp_path: Path
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("".join(f"line {line} of file {number}\n" for line in range(200)))
    state = MemoryMapState.factory()
    config = TridentConfig(zookeeper=zookeeper, max_spout_pending=3)
    spout = FileSpout(tmp_path / "*.txt", max_bytes_per_batch=2000)
    with word_count("growing", spout, state).start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        assert state.values() == counted(tmp_path)
        with (tmp_path / "1.txt").open("a") as file:
            file.write("one more line\r\nand another ü\n")
        (tmp_path / "0-new.txt").write_text("a new file\n")
        query.process_all_available(PATIENCE_SECONDS)
        assert state.values() == counted(tmp_path)
        assert query.last_progress is not None
        assert query.last_progress["total_input_rows"] == 603


def test_a_file_that_is_not_utf8_ends_the_query_and_is_named_with_the_place(
    spark: SparkSession, zookeeper: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\n" + "naïve\n".encode("latin-1"))
    state = MemoryMapState.factory()
    query = word_count("encoding", FileSpout(tmp_path / "*.txt"), state).start(
        TridentConfig(zookeeper=zookeeper), spark=spark
    )
    with query, pytest.raises(SpoutError, match=r"a\.txt.*7"):
        query.process_all_available(PATIENCE_SECONDS)
    assert state.values() == {}


def test_rotated_files_are_counted_once(spark: SparkSession, zookeeper: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one line\nand another\n")
    state = MemoryMapState.factory()
    config = TridentConfig(zookeeper=zookeeper)
    with word_count("rotated", FileSpout(tmp_path / "a.log*"), state).start(config, spark=spark) as query:
        query.process_all_available(PATIENCE_SECONDS)
        log.rename(tmp_path / "a.log.2")
        log.write_text("a new file\n")
        query.process_all_available(PATIENCE_SECONDS)
        copyfile(log, tmp_path / "a.log.1")
        log.write_text("cut and without an end yet")
        query.process_all_available(PATIENCE_SECONDS)
    lines = ["one line", "and another", "a new file", "cut and without an end yet"]
    assert state.values() == {(word,): count for word, count in Counter(" ".join(lines).split()).items()}


def test_a_file_that_goes_on_inside_a_line_that_was_taken_ends_the_query_and_is_named(
    spark: SparkSession, zookeeper: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one line\nand another")
    state = MemoryMapState.factory()
    query = word_count("inside", FileSpout(tmp_path / "*.txt"), state).start(
        TridentConfig(zookeeper=zookeeper), spark=spark
    )
    with query:
        query.process_all_available(PATIENCE_SECONDS)
        before = state.values()
        assert before == counted(tmp_path)
        with path.open("a") as file:
            file.write(" word\n")
        with pytest.raises(SpoutError, match=r"a\.txt.*put a line feed at byte 20"):
            query.process_all_available(PATIENCE_SECONDS)
    assert state.values() == before
