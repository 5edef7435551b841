from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations, pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from trident_py.errors import SpoutError
from trident_py.rows.schema import arrow_schema
from trident_py.spouts.files import lines
from trident_py.spouts.files.content import hash_bytes, is_compressed, open_content, seed_of
from trident_py.spouts.files.formats import TextLines
from trident_py.spouts.files.identity import Identity
from trident_py.spouts.files.lines import LineReader, Piece, last_line_end, line_end

Line = tuple[str, int]


def whole(path: Path) -> Piece:
    size = path.stat().st_size
    return Piece(str(path), 0, size, 0, size)


def read(*pieces: Piece, encoding: str = "utf-8", errors: str = "strict") -> list[Line]:
    found: list[Line] = []
    for batch in LineReader(TextLines(encoding, errors))(pieces):
        batch.validate(full=True)
        assert batch.schema == arrow_schema(TextLines.fields)
        assert 0 < batch.num_rows <= lines.BATCH_ROWS_MAX
        found += zip(batch["value"].to_pylist(), batch["position"].to_pylist(), strict=True)
        assert set(batch["path"].to_pylist()) <= {piece.path for piece in pieces}
    return found


def expected(data: bytes) -> list[Line]:
    """The lines of ``data``, the slow way."""
    found, start = [], 0
    while start < len(data):
        end = data.find(b"\n", start)
        stop = len(data) if end < 0 else end + 1
        line = data[start:stop]
        text = line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")
        found.append((text.decode(), start))
        start = stop
    return found


@contextmanager
def file_of(data: bytes) -> Iterator[Path]:
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield Path(file.name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.txt"


texts = st.lists(st.sampled_from(["", "a", "größe", "\r", "x\r\r", "\x0b\x85\u2028", "日本", "\0"])).map("|".join)
contents = st.lists(st.tuples(texts, st.sampled_from(["\n", "\r\n", "\n\n"]))).map(
    lambda pairs: "".join(text + end for text, end in pairs)
)


@given(contents, texts)
def test_lines_end_at_a_line_feed_and_nowhere_else(content: str, tail: str) -> None:
    data = (content + tail).encode()
    with file_of(data) as file:
        assert read(whole(file)) == expected(data)


@given(contents, texts, st.lists(st.integers(0, 80), max_size=4), st.integers(1, 9), st.data())
def test_pieces_tile_a_part_of_a_file_wherever_they_are_cut(
    content: str, tail: str, cuts: list[int], block: int, data: st.DataObject
) -> None:
    every = expected((content + tail).encode())
    bounds = [*(position for _, position in every), len((content + tail).encode())]
    first, last = sorted(data.draw(st.lists(st.sampled_from(bounds), min_size=2, max_size=2)))
    edges = [first, *sorted(cut for cut in cuts if first < cut < last), last]
    with pytest.MonkeyPatch.context() as small, file_of((content + tail).encode()) as file:
        small.setattr(lines, "BLOCK_BYTES", block)
        small.setattr(lines, "_SEARCH_BYTES", 3)
        pieces = [Piece(str(file), first, last, start, end) for start, end in pairwise(edges)]
        assert read(*pieces) == [(text, position) for text, position in every if first <= position < last]


@pytest.mark.parametrize("content", ["a\nbc\r\n\n\r\nd", "ab\n", "\n", "é\né"])
def test_pieces_tile_every_part_of_a_small_file_at_every_cut(file: Path, content: str) -> None:
    file.write_bytes(content.encode())
    every = expected(content.encode())
    bounds = [*(position for _, position in every), file.stat().st_size]
    for first, last in combinations(bounds, 2):
        between = [line for line in every if first <= line[1] < last]
        assert read(*(Piece(str(file), first, last, at, at + 1) for at in range(first, last))) == between
        for cut in range(first + 1, last):
            halves = Piece(str(file), first, last, first, cut), Piece(str(file), first, last, cut, last)
            assert read(*halves) == between


def test_a_last_line_that_goes_on_since_is_read_as_it_was(file: Path) -> None:
    file.write_bytes(b"one\ntwo")
    piece = whole(file)
    file.write_bytes(b"one\ntwo and more\nthree\n")
    assert read(piece) == [("one", 0), ("two", 4)]


def test_batches_are_of_bounded_rows(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BATCH_ROWS_MAX", 10)
    file.write_bytes(b"x\n" * 25)
    assert [batch.num_rows for batch in LineReader(TextLines("utf-8", "strict"))([whole(file)])] == [10, 10, 5]


def test_the_reader_travels(file: Path) -> None:
    file.write_bytes(b"one\n")
    reader, piece = pickle.loads(pickle.dumps((LineReader(TextLines("utf-8", "strict")), whole(file))))  # noqa: S301
    assert [batch.to_pylist() for batch in reader([piece])] == [[{"value": "one", "path": str(file), "position": 0}]]


# --- compressed -------------------------------------------------------------------------------------------------------

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_compressed_file_is_read_whole_with_offsets_in_what_is_unpacked(file: Path, suffix: str) -> None:
    content = "größe\r\n".encode() * 5000 + b"end"
    packed = file.with_suffix(f".txt{suffix}")
    packed.write_bytes(PACKERS[suffix](content[:7000]) + PACKERS[suffix](content[7000:]))
    assert is_compressed(str(packed))
    assert read(whole(packed)) == expected(content)


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("damage", [lambda packed: packed[:-10], lambda packed: b"garbage" + packed])
def test_a_damaged_compressed_file_is_named(file: Path, suffix: str, damage: Any) -> None:
    packed = file.with_suffix(f".txt{suffix}")
    packed.write_bytes(damage(PACKERS[suffix](os.urandom(3000))))
    with pytest.raises(SpoutError, match=rf"a\.txt\{suffix}' cannot be read: .*repair it, or move it"):
        read(whole(packed), encoding="latin-1")


def test_a_compressed_file_that_is_not_what_it_was_is_named(file: Path) -> None:
    packed = file.with_suffix(".gz")
    packed.write_bytes(gzip.compress(b"a\n"))
    piece = whole(packed)
    packed.write_bytes(gzip.compress(b"a\nb\nc\nd\n"))
    with pytest.raises(SpoutError, match="its batch was defined with"):
        read(piece)


# --- fingerprints -----------------------------------------------------------------------------------------------------


def fingerprint(piece: Piece, encoding: str = "utf-8", errors: str = "strict") -> int:
    reading = LineReader(TextLines(encoding, errors))([piece])
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return int(end.value)


def identified(path: Path) -> Piece:
    with open_content(str(path)) as content:
        return evolve(whole(path), identity=Identity.of(content, path.stat().st_size))


def test_a_fingerprint_is_of_the_bytes_and_the_path_alone(file: Path) -> None:
    file.write_bytes(b"plain ascii\n" * 1000)
    piece = identified(file)
    before = fingerprint(piece)
    assert fingerprint(piece, errors="replace") == fingerprint(piece, encoding="latin-1") == before
    file.rename(file.with_name("renamed"))
    assert fingerprint(piece) == before
    file.write_bytes(b"plain ascii\n" * 999 + b"plain ascij\n")
    assert fingerprint(identified(file)) != before


def test_batches_of_an_old_version_have_its_fingerprints(file: Path) -> None:
    file.write_bytes(b"one\ntwo\n")
    prints = {
        settings: hash_bytes(seed_of(str(file), *settings), 0, b"one\ntwo\n")
        for settings in [("utf-8", "strict"), ("iso8859-1", "replace")]
    }
    assert {settings: fingerprint(whole(file), *settings) for settings in prints} == prints


# --- bad files --------------------------------------------------------------------------------------------------------


def test_bytes_that_are_not_of_the_encoding_are_named_by_offset(file: Path) -> None:
    file.write_bytes(b"good\n" * 3 + b"caf\xe9 au lait\n")
    with pytest.raises(SpoutError, match=r"a.txt' is not utf-8 at byte 18 \(.*give FileSpout its encoding=, or errors"):
        read(whole(file))
    assert read(whole(file), encoding="iso8859-1")[3] == ("café au lait", 15)
    assert read(whole(file), errors="replace")[3] == ("caf\ufffd au lait", 15)
    assert read(whole(file), errors="ignore")[3] == ("caf au lait", 15)
    assert read(whole(file), errors="backslashreplace")[3] == ("caf\\xe9 au lait", 15)


def test_a_character_cut_off_at_a_line_end_does_not_swallow_it(file: Path) -> None:
    file.write_bytes("é".encode()[:1] + b"\nnext\n")
    assert read(whole(file), errors="replace") == [("\ufffd", 0), ("next", 2)]


def test_a_file_that_shrank_or_is_gone_is_named(file: Path) -> None:
    file.write_bytes(b"one\ntwo\n")
    piece = whole(file)
    file.write_bytes(b"one\n")
    with pytest.raises(
        SpoutError, match=r"a.txt' has 4 bytes, its batch was defined with 8 of them: .*restore the former content"
    ):
        read(piece)
    file.unlink()
    with pytest.raises(SpoutError, match=r"a.txt' is gone, .*put it back"):
        read(piece)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SpoutError, match=r"cannot be read: .*directory"):
        read(Piece(str(tmp_path), 0, 1, 0, 1))


# --- searching --------------------------------------------------------------------------------------------------------


@given(st.binary().map(lambda data: data.replace(b"\0", b"\n")), st.integers(0, 30), st.integers(0, 30))
def test_line_ends_are_found_from_either_side(data: bytes, start: int, stop: int) -> None:
    stop = min(stop, len(data))
    ends = [index + 1 for index in range(start, stop) if data[index : index + 1] == b"\n"]
    with pytest.MonkeyPatch.context() as small, file_of(data) as path, open_content(str(path)) as file:
        small.setattr(lines, "_SEARCH_BYTES", 4)
        assert line_end(file, start, stop) == (ends[0] if ends else None)
        assert last_line_end(file, start, stop) == (ends[-1] if ends else None)
