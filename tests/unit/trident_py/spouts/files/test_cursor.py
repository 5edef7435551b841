from __future__ import annotations

from pathlib import Path

import pytest

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.files import cursor
from trident_py.spouts.files.content import open_content
from trident_py.spouts.files.cursor import STILL_SECONDS, FileCursor, Sight
from trident_py.spouts.files.identity import stamp_of
from trident_py.spouts.files.splits import Split
from trident_py.spouts.files.whereabouts import Here, Likeness

YOUNG, OLD = 0.0, STILL_SECONDS
"""For how long a file has not changed, in seconds."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.txt"


def looked_at(file: Path, stored: Json = 0) -> FileCursor:
    found = FileCursor.restored(str(file), stored)
    look(found)
    return found


def look(found: FileCursor) -> None:
    with open_content(found.path) as content:
        found.take(content, Sight(stamp_of(content.status), 0.0), 0.0)


def next_split(found: FileCursor, age: float, budget: int = 10**9) -> Split | None:
    with open_content(found.path) as content:
        return found.next_split(content, budget, age)


def next_end(found: FileCursor, age: float, budget: int = 10**9) -> int | None:
    split = next_split(found, age, budget)
    return split.end if split else None


def here(found: FileCursor) -> Here:
    with open_content(found.path) as content:
        return found.here(content)


def likeness(found: FileCursor, path: Path) -> Likeness | None:
    with open_content(str(path)) as content:
        return found.likeness(content)


# --- where to read to -------------------------------------------------------------------------------------------------


def test_whole_lines_are_taken_up_to_the_budget_and_one_at_least(file: Path) -> None:
    file.write_bytes(b"one\ntwo\nthree\n")
    assert [next_end(looked_at(file), YOUNG, budget) for budget in (1, 4, 7, 8, 14, 99)] == [4, 4, 4, 8, 14, 14]


def test_a_line_longer_than_the_budget_is_taken_whole(file: Path) -> None:
    file.write_bytes(b"x" * 200_000 + b"\nnext\n")
    assert next_end(looked_at(file), YOUNG, 10) == 200_001


def test_a_last_line_without_its_end_waits_until_the_file_has_not_changed_for_a_while(file: Path) -> None:
    file.write_bytes(b"one\ntwo")
    assert next_end(looked_at(file), YOUNG) == 4
    assert next_end(looked_at(file), STILL_SECONDS - 0.1) == 4
    assert next_end(looked_at(file), OLD) == 7
    assert next_end(looked_at(file, 4), YOUNG) is None
    assert next_end(looked_at(file, [4, 7]), OLD) == 7
    assert next_end(looked_at(file, 4), OLD, 1) == 7


def test_a_last_line_that_has_changed_since_the_look_waits(file: Path) -> None:
    file.write_bytes(b"one\ntwo")
    found = looked_at(file, 4)
    with file.open("ab") as more:
        more.write(b" and")
    assert next_end(found, OLD) is None


def test_what_is_another_file_since_the_look_is_not_read(file: Path) -> None:
    file.write_bytes(b"one\ntwo\n")
    found = looked_at(file, 4)
    file.write_bytes(b"another\nfile\n")
    assert next_end(found, OLD) is None


def test_what_was_searched_is_not_searched_again(file: Path) -> None:
    file.write_bytes(b"x" * 100)
    found = looked_at(file)
    assert next_end(found, YOUNG) is None
    assert found.searched == 100
    with file.open("ab") as more:
        more.write(b"y\nz")
    look(found)
    split = next_split(found, YOUNG)
    assert split
    assert split.end == 102
    found.advance(split)
    assert next_end(found, YOUNG) is None


def test_a_taken_last_line_may_still_get_its_end(file: Path) -> None:
    for end in (b"\n", b"\r\n"):
        file.write_bytes(b"one" + end + b"two\n")
        found = looked_at(file, 3)
        assert next_end(found, YOUNG) == file.stat().st_size
        assert found.position == 3 + len(end)
        file.write_bytes(b"one" + end)
        found = looked_at(file, 3)
        assert next_end(found, OLD) is None
        assert found.position == 3 + len(end)
        stored = found.split_beside(found).cursor
        assert isinstance(stored, list)
        assert stored[:2] == [3 + len(end), 3 + len(end)]


def test_half_of_a_line_end_is_waited_for(file: Path) -> None:
    file.write_bytes(b"one\r")
    assert next_end(looked_at(file, 3), OLD) is None


@pytest.mark.parametrize("content", [b"one more\n", b"one\rmore\n", b"one more"])
def test_a_file_that_goes_on_inside_a_line_that_was_taken_is_an_error_with_a_way_out(
    file: Path, content: bytes
) -> None:
    file.write_bytes(content)
    with pytest.raises(
        SpoutError,
        match=r"a.txt', of which 3 bytes were read and \d+ were seen, continues inside its last .* at byte 3",
    ):
        next_end(looked_at(file, 3), OLD)
    file.write_bytes(content[:3] + b"\n" + content[3:])
    assert next_end(looked_at(file, 3), OLD) == len(content) + 1


def test_a_carriage_return_that_was_taken_as_text_cannot_become_a_line_end(file: Path) -> None:
    file.write_bytes(b"one\r\n")
    with pytest.raises(SpoutError, match="continues inside its last line"):
        next_end(looked_at(file, 4), YOUNG)


@pytest.mark.parametrize("age", [YOUNG, OLD])
@pytest.mark.parametrize("content", [b"x" * 101, b"x" * 101 + b"\n"])
def test_a_line_without_end_is_taken_for_a_mistake(
    file: Path, content: bytes, age: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor, "LINE_BYTES_MAX", 100)
    file.write_bytes(content)
    with pytest.raises(SpoutError, match="has a line of more than 100 bytes; to fix this: move it out of the pattern"):
        next_end(looked_at(file), age, 50)


# --- which file it is -------------------------------------------------------------------------------------------------


def test_a_file_is_the_same_while_it_has_what_was_seen_of_it(file: Path) -> None:
    file.write_bytes(b"one\ntwo\n")
    found = looked_at(file)
    split = next_split(found, YOUNG, 4)
    assert split
    found.advance(split)
    assert here(found) is Here.SAME
    for content, expected in [
        (b"one\ntwo\nthree\n", Here.SAME),
        (b"one\ntwo", Here.OTHER),
        (b"one\n", Here.OTHER),
        (b"", Here.OTHER),
        (b"ONE\ntwo\nthree\n", Here.OTHER),
    ]:
        file.write_bytes(content)
        assert here(found) is expected


def test_another_file_is_like_it_or_begins_like_it(file: Path, tmp_path: Path) -> None:
    file.write_bytes(b"one\ntwo\n")
    found = looked_at(file)
    for content, expected in [
        (b"one\ntwo\nmore", Likeness.EQUAL),
        (b"one\nt", Likeness.BEGINNING),
        (b"", Likeness.BEGINNING),
        (b"one\ntwO\n", None),
        (b"two\n", None),
    ]:
        other = tmp_path / "b.txt"
        other.write_bytes(content)
        assert likeness(found, other) is expected


@pytest.mark.parametrize("stored", ["4", None, 1.5, [1], [1, "2"], [1, 2, "3"], [1, 2, [3, 4]], [1, 2, [3, 4, 5]]])
def test_a_position_that_is_none_is_an_error(stored: Json) -> None:
    with pytest.raises(SpoutError, match=r"'a.txt' has the position .*which is not a position"):
        FileCursor.restored("a.txt", stored)
