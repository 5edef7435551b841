from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from coordinators.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.files import cursor
from trident_py.spouts.files.cursor import SETTLED_SECS, Tail

YOUNG, OLD = 0.0, SETTLED_SECS + 1
"""How long after it was written to a file is looked at, in seconds."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.txt"


def looked_at(file: Path, cursor: Json = 0) -> Tail:
    tail = Tail.restored(str(file), cursor)
    tail.look(file.stat())
    return tail


def next_end(tail: Tail, age: float, budget: int = 10**9) -> int:
    return tail.next_end(budget, os.stat(tail.path).st_mtime + age)


def test_whole_lines_are_taken_up_to_the_budget_and_one_at_least(file: Path) -> None:
    file.write_bytes(b"one\ntwo\nthree\n")
    assert [next_end(looked_at(file), YOUNG, budget) for budget in (1, 4, 7, 8, 14, 99)] == [4, 4, 4, 8, 14, 14]


def test_a_line_longer_than_the_budget_is_taken_whole(file: Path) -> None:
    file.write_bytes(b"x" * 200_000 + b"\nnext\n")
    assert next_end(looked_at(file), YOUNG, 10) == 200_001


def test_a_last_line_without_its_end_waits_until_the_file_was_left_alone(file: Path) -> None:
    file.write_bytes(b"one\ntwo")
    assert next_end(looked_at(file), YOUNG) == 4
    assert next_end(looked_at(file), SETTLED_SECS - 0.1) == 4
    assert next_end(looked_at(file), OLD) == 7
    assert next_end(looked_at(file, 4), YOUNG) == 4
    assert next_end(looked_at(file, 4), OLD) == 7
    assert next_end(looked_at(file, 4), OLD, 1) == 7


def test_what_was_searched_is_not_searched_again(file: Path) -> None:
    file.write_bytes(b"x" * 100)
    tail = looked_at(file)
    assert next_end(tail, YOUNG) == 0
    assert tail.searched == 100
    with file.open("ab") as more:
        more.write(b"y\nz")
    assert next_end(tail, YOUNG) == 102
    tail.advance(102)
    assert next_end(tail, YOUNG) == 102


def test_a_taken_last_line_may_still_get_its_end(file: Path) -> None:
    for end in (b"\n", b"\r\n"):
        file.write_bytes(b"one" + end + b"two\n")
        tail = looked_at(file, 3)
        assert next_end(tail, YOUNG) == file.stat().st_size
        assert tail.cursor == 3 + len(end)
        file.write_bytes(b"one" + end)
        tail = looked_at(file, 3)
        assert next_end(tail, OLD) == tail.cursor == 3 + len(end)


def test_half_of_a_line_end_is_waited_for(file: Path) -> None:
    file.write_bytes(b"one\r")
    assert next_end(looked_at(file, 3), OLD) == 3


@pytest.mark.parametrize("content", [b"one more\n", b"one\rmore\n", b"one more"])
def test_a_file_that_goes_on_inside_a_line_that_was_taken_is_an_error(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(
        SpoutError, match=r"a.txt', of which 3 bytes were read and \d+ were seen, goes on inside its last"
    ):
        next_end(looked_at(file, 3), OLD)


def test_a_carriage_return_that_was_taken_as_text_cannot_become_a_line_end(file: Path) -> None:
    file.write_bytes(b"one\r\n")
    with pytest.raises(SpoutError, match="goes on inside its last line"):
        next_end(looked_at(file, 4), YOUNG)


def test_a_file_that_shrinks_is_an_error(file: Path) -> None:
    file.write_bytes(b"one\ntwo\n")
    tail = looked_at(file)
    file.write_bytes(b"one\n")
    for looking in (lambda: tail.look(file.stat()), lambda: next_end(tail, OLD), lambda: looked_at(file, [4, 8])):
        with pytest.raises(SpoutError, match=r"and 8 were seen, shrank to 4 bytes; put back"):
            looking()


def test_a_file_that_vanishes_is_an_error_if_it_was_not_read_to_the_end(file: Path) -> None:
    file.write_bytes(b"one\ntwo\n")
    unread, read = looked_at(file, 4), looked_at(file, 8)
    read.miss()
    assert read.gone
    with pytest.raises(SpoutError, match=r"of which 4 bytes were read and 8 were seen, is gone; put it back"):
        unread.miss()
    with pytest.raises(SpoutError, match="is gone; put it back"):
        Tail.restored(str(file), [4, 8]).miss()
    file.unlink()
    with pytest.raises(SpoutError, match="is gone, with lines that were not read"):
        unread.next_end(99, time.time())


def test_a_name_that_is_used_again_is_an_error(file: Path) -> None:
    file.write_bytes(b"one\n")
    tail = looked_at(file, 4)
    tail.miss()
    with pytest.raises(SpoutError, match="was read to the end, deleted, and is there again; give new files new names"):
        tail.look(file.stat())


def test_a_compressed_file_is_taken_whole_once_it_was_left_alone_and_never_again(tmp_path: Path) -> None:
    file = tmp_path / "a.txt.gz"
    file.write_bytes(b"packed")
    tail = looked_at(file)
    assert next_end(tail, YOUNG, 1) == 0
    assert next_end(tail, OLD, 1) == 6
    tail.advance(6)
    file.write_bytes(b"packed and more")
    with pytest.raises(SpoutError, match="is compressed, was read whole and has 15 bytes now"):
        tail.look(file.stat())


@pytest.mark.parametrize("settled", [YOUNG, OLD])
@pytest.mark.parametrize("content", [b"x" * 101, b"x" * 101 + b"\n"])
def test_a_line_without_end_is_taken_for_a_mistake(
    file: Path, content: bytes, settled: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor, "LINE_BYTES_MAX", 100)
    file.write_bytes(content)
    with pytest.raises(SpoutError, match="has a line of more than 100 bytes; move it out of the pattern"):
        next_end(looked_at(file), settled, 50)


@pytest.mark.parametrize("cursor", ["4", None, 1.5, [1], [1, "2"]])
def test_a_position_that_is_none_is_an_error(cursor: Json) -> None:
    with pytest.raises(SpoutError, match=r"'a.txt' has the position .*which is none"):
        Tail.restored("a.txt", cursor)
