from __future__ import annotations

import bz2
import gzip
import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.spouts.collecting import CONF, CONTEXT, ListCollector, emitted, halves
from tests.unit.trident_py.spouts.files.test_lines import expected
from tests.unit.trident_py.spouts.files.world import Row, World, write
from trident_py.errors import SpoutError, TopologyError
from trident_py.interfaces.spouts import Replay
from trident_py.spouts.files import files
from trident_py.spouts.files.files import FileSpout, shares
from trident_py.spouts.files.lines import Piece
from trident_py.spouts.files.splits import Split


def lines_of(*paths: Path) -> list[Row]:
    return [(text, str(path), position) for path in paths for text, position in expected(path.read_bytes())]


def batches(directory: Path, pattern: str = "*", **options: Any) -> list[list[Row]]:
    return World(directory / pattern, **options).all()


def texts(rows: list[Row]) -> list[str]:
    return [row[0] for row in rows]


# --- what is read -----------------------------------------------------------------------------------------------------


def test_lines_come_with_path_and_byte_offset_in_the_order_of_the_files_names(tmp_path: Path) -> None:
    b = write(tmp_path / "b.txt", "größe\r\nzwei\n".encode())
    a = write(tmp_path / "a.txt", b"one\n\nthree\n")
    assert batches(tmp_path) == [lines_of(a, b)]
    assert lines_of(b) == [("größe", str(b), 0), ("zwei", str(b), 9)]


def test_batches_are_filled_up_to_their_size_with_whole_lines(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", b"one\ntwo\nthree\n")
    write(tmp_path / "b.txt", b"four\n" + b"a line that is longer than a batch\n" + b"six\n")
    assert [texts(rows) for rows in batches(tmp_path, max_bytes_per_batch=12)] == [
        ["one", "two"],
        ["three", "four"],
        ["a line that is longer than a batch"],
        ["six"],
    ]


def test_appended_lines_and_new_files_are_found(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", b"one\n")
    world = World(tmp_path / "*.txt")
    assert [texts(rows) for rows in world.batches()] == [["one"]]
    write(a, b"two\nthr")
    write(tmp_path / "0.txt", b"zero\n")
    assert [texts(rows) for rows in world.batches()] == [["zero", "two"]]
    write(a, b"ee\n")
    assert [texts(rows) for rows in world.batches()] == [["three"]]
    assert not world.coordinator.is_ready(world.txid)


def test_a_last_line_without_its_end_is_read_once_its_file_has_not_changed_for_two_seconds(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", b"one\ntwo")
    world = World(tmp_path / "*.txt")
    assert [texts(rows) for rows in world.batches()] == [["one"]]
    assert world.coordinator.has_pending_input()
    world.pass_time()
    assert [texts(rows) for rows in world.batches()] == [["two"]]
    assert not world.coordinator.has_pending_input()
    write(a, b"\nthree\n")
    assert [texts(rows) for rows in world.batches()] == [["three"]]


def test_a_batch_of_small_files_ends_where_its_metadata_gets_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "METADATA_BYTES_MAX", 1000)
    for number in range(40):
        write(tmp_path / f"{number:03}.txt", b"x\n")
    sizes = list(map(len, batches(tmp_path)))
    assert sum(sizes) == 40
    assert len(sizes) > 1
    assert max(sizes) * len(str(tmp_path)) < 1000


def test_compressed_files_are_batches_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", b"plain\n")
    write(tmp_path / "b.txt.gz", gzip.compress(b"one\r\ntwo"))
    write(tmp_path / "c.txt.bz2", bz2.compress(b"three\n"))
    write(tmp_path / "d.txt", b"plain again\n")
    assert [[(text, position) for text, _, position in rows] for rows in batches(tmp_path)] == [
        [("plain", 0), ("plain again", 0)],
        [("one", 0), ("two", 5)],
        [("three", 0)],
    ]


def test_other_encodings_are_read_line_by_line(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "café\nthé\n".encode("latin-1"))
    assert texts(batches(tmp_path, encoding="latin1")[0]) == ["café", "thé"]
    assert texts(batches(tmp_path, errors="replace")[0]) == ["caf\ufffd", "th\ufffd"]


def test_nothing_to_read_for_a_transaction_that_another_spout_needs_is_an_empty_batch(tmp_path: Path) -> None:
    coordinator, emitter = halves(FileSpout(tmp_path / "*"))
    assert coordinator.initialize_transaction(1, None, None) == []
    assert emitted(emitter, TransactionAttempt(1, 0), []) == []
    assert coordinator.moved([]) == {}


# --- replays and restarts ---------------------------------------------------------------------------------------------


def test_a_replay_reads_the_same_lines_whatever_was_appended(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", b"one\ntwo")
    world = World(tmp_path / "*.txt")
    metadata = world.define()
    assert [split[:4] for split in metadata] == [[str(a), 0, 4, 7]]
    assert world.coordinator.initialize_transaction(1, None, metadata) == metadata
    write(a, b"\nthree\n")
    write(tmp_path / "0.txt", b"new\n")
    assert texts(world.rows(metadata)) == ["one"]


def test_a_restart_goes_on_from_the_cursors(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", b"one\ntwo\nthree\n")
    world = World(tmp_path / "*.txt", max_bytes_per_batch=4)
    assert [split[:4] for split in world.define()] == [[str(a), 0, 4, 14]]
    assert [cursor[:2] for cursor in world.cursors.values()] == [[4, 14]]
    world.restart()
    assert [texts(rows) for rows in world.batches()] == [["two"], ["three"]]
    assert [cursor[:2] for cursor in world.cursors.values()] == [[14, 14]]


def test_what_was_unread_and_is_gone_after_a_restart_is_missed(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", b"one\ntwo\n")
    world = World(tmp_path / "*.txt", max_bytes_per_batch=4)
    world.define()
    a.unlink()
    world.restart()
    with pytest.raises(SpoutError, match=r"a.txt', of which 4 bytes were read and 8 were seen, is not there any more"):
        world.all()


def test_a_file_that_was_read_may_be_deleted(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", b"one\n")
    world = World(tmp_path / "*.txt")
    assert len(list(world.batches())) == 1
    a.unlink()
    assert world.define() is None
    world.restart()
    assert world.define() is None


def test_a_file_that_a_changed_pattern_leaves_out_is_not_missed(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", b"one\ntwo\n")
    b = write(tmp_path / "b.txt", b"three\n")
    world = World(tmp_path / "*.txt", max_bytes_per_batch=4)
    world.define()
    world.glob = b
    world.restart()
    assert [texts(rows) for rows in world.batches()] == [["three"]]


# --- against a model --------------------------------------------------------------------------------------------------

NAMES = ["a.txt", "b.txt", "sub/a.txt"]
chunks = st.lists(st.sampled_from(["x", "größe", "\n", "\r\n", "\r", "日本語", "\n\n", " "]), max_size=8).map("".join)


class FilesAgainstModel(RuleBasedStateMachine):
    """Files grow and appear; batches are made, replayed and cut short by restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.world: World | None = None
        self.given: list[Row] = []

    @precondition(lambda self: self.world is None)
    @rule(max_bytes=st.integers(1, 60))
    def start(self, max_bytes: int) -> None:
        self.world = World(self.directory / "**" / "*.txt", max_bytes_per_batch=max_bytes)

    @rule(name=st.sampled_from(NAMES), chunk=chunks)
    def append(self, name: str, chunk: str) -> None:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        if self.taken_without_end(path):
            chunk = "\n" + chunk
        write(path, chunk.encode())

    def taken_without_end(self, path: Path) -> bool:
        cursor: Any = self.world.cursors.get(str(path), [0]) if self.world else [0]
        end = cursor[0]
        return bool(end) and path.exists() and end == path.stat().st_size and not path.read_bytes().endswith(b"\n")

    @precondition(lambda self: self.world)
    @rule()
    def time_passes(self) -> None:
        assert self.world
        # A carriage return may be half of a line's end: a writer that stops there for long breaks the contract.
        if not any(path.read_bytes().endswith(b"\r") for path in self.directory.rglob("*.txt")):
            self.world.pass_time()

    @precondition(lambda self: self.world)
    @rule()
    def batch(self) -> None:
        assert self.world
        if metadata := self.world.define():
            rows = self.world.rows(metadata)
            size = sum(end - start for _, start, end, *_ in metadata)
            assert size <= self.world.options["max_bytes_per_batch"] or len(rows) == 1
            assert [row[1] for row in rows] == sorted(row[1] for row in rows)
            self.given += rows

    @precondition(lambda self: self.world and self.world.stored)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        assert self.world
        number = data.draw(st.integers(0, len(self.world.stored) - 1))
        before = [row for metadata in self.world.stored[:number] for row in self.world.rows(metadata)]
        again = self.world.rows(self.world.stored[number])
        assert self.given[len(before) : len(before) + len(again)] == again

    @precondition(lambda self: self.world)
    @rule()
    def restart(self) -> None:
        assert self.world
        self.world.restart()

    @invariant()
    def no_line_was_given_twice(self) -> None:
        places = [(path, position) for _, path, position in self.given]
        assert len(set(places)) == len(places)

    def teardown(self) -> None:
        if self.world:
            for rows in self.world.all():
                self.given += rows
            assert sorted(self.given) == sorted(lines_of(*self.directory.rglob("*.txt")))
        shutil.rmtree(self.directory)


TestFilesAgainstModel = FilesAgainstModel.TestCase
TestFilesAgainstModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


# --- sharing the work -------------------------------------------------------------------------------------------------


def test_a_batch_is_cut_into_about_as_many_shares_as_there_are_tasks() -> None:
    mib = 1024 * 1024
    plain, packed = (Split(name, 0, 10 * mib, 10 * mib, None) for name in ("a", "a.gz"))
    ((one,), (two,)) = shares([plain], 2)
    assert (one, two) == (Piece("a", 0, 10 * mib, 0, 5 * mib), Piece("a", 0, 10 * mib, 5 * mib, 10 * mib))
    assert len(shares([plain], 100)) == 10
    small = shares([Split(f"{number}", 0, 1000, 2000, None) for number in range(5000)], 4)
    assert [len(share) for share in small] == [1250, 1250, 1250, 1250] or len(small) in (4, 5)
    assert shares([packed], 4) == [[Piece("a.gz", 0, 10 * mib, 0, 10 * mib)]]


def test_shares_are_read_as_one_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES_MIN", 7)
    monkeypatch.setattr(files, "SMALL_BYTES", 0)
    a = write(tmp_path / "a.txt", b"a line\n" * 20)
    b = write(tmp_path / "b.txt", "größe\n".encode() * 9)
    world, collector = World(tmp_path / "*"), ListCollector()
    emitter = FileSpout(tmp_path / "*").get_emitter("lines", CONF, evolve(CONTEXT, parallelism=8))
    emitter.emit_batch(TransactionAttempt(1, 0), world.define(), collector)
    assert len(collector.splits) == 8
    assert collector.rows == lines_of(a, b)


def test_a_batch_is_cut_for_as_many_tasks_as_run_at_once(tmp_path: Path) -> None:
    six = evolve(CONTEXT, parallelism=6)
    assert FileSpout(tmp_path / "*").get_emitter("lines", CONF, six).tasks == 6
    assert FileSpout(tmp_path / "*").get_emitter("lines", CONF, CONTEXT).tasks == 1


# --- the start, and bad input -----------------------------------------------------------------------------------------


def test_a_directory_that_does_not_exist_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SpoutError, match="there is no directory"):
        halves(FileSpout(tmp_path / "no" / "*.txt"))


def test_a_pattern_that_matches_nothing_yet_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        coordinator, _ = halves(FileSpout(tmp_path / "*.txt"))
    assert f"spout 'lines': no file matches '{tmp_path}/*.txt' yet" in caplog.text
    assert not coordinator.is_ready(1)
    write(tmp_path / "a.txt", b"one\n")
    assert coordinator.is_ready(1)


def test_a_file_that_is_not_utf8_is_named_with_the_offset(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", b"good\ncaf\xe9\n")
    with pytest.raises(SpoutError, match=r"a.txt' is not utf-8 at byte 8 .*errors='replace'"):
        batches(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_bytes_per_batch": 0}, "max_bytes_per_batch must be a whole number of at least 1, not 0"),
        ({"max_bytes_per_batch": 1.5}, "max_bytes_per_batch must be"),
        ({"encoding": "utf-16"}, "in the encoding 'utf-16' a line feed is not the byte 10"),
        ({"encoding": "cp037"}, "in the encoding 'cp037' a line feed is not the byte 10"),
        ({"encoding": "utf-9"}, "there is no text encoding 'utf-9'"),
        ({"encoding": "rot13"}, "there is no text encoding 'rot13'"),
        ({"encoding": None}, "there is no text encoding None"),
        ({"errors": "surrogateescape"}, "errors is one of 'strict', 'replace', 'ignore', 'backslashreplace', not"),
    ],
)
def test_an_argument_that_cannot_work_is_refused_where_it_is_given(options: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        FileSpout("*.txt", **options)


def test_metadata_is_json_and_stays_small(tmp_path: Path) -> None:
    for number in range(1500):
        write(tmp_path / f"{number:04}.txt", b"a line\n")
    world = World(tmp_path / "*.txt")
    assert sum(map(len, world.all())) == 1500
    assert max(len(json.dumps(metadata)) for metadata in world.stored) < 128 * 1024
    assert not world.coordinator.is_ready(world.txid)


def test_replays_are_promised_exactly(tmp_path: Path) -> None:
    assert FileSpout(tmp_path / "*").replay is Replay.EXACT
