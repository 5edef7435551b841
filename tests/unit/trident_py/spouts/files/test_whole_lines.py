"""Lines of complete files: each one once, wherever a file is cut into parts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from trident_py.spouts.files.columns import WholeReader
from trident_py.spouts.files.formats import TextLines
from trident_py.spouts.files.paths import PathPattern
from trident_py.spouts.files.places import LocalFiles
from trident_py.spouts.files.whole_lines import WholeLines

TEXT = b"one\n\ntwo and more\r\nthree"
LINES = [("one", 0), ("", 4), ("two and more", 5), ("three", 19)]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
@pytest.mark.parametrize("part", [1, 4, 7, 1000])
def test_lines_are_read_once_wherever_a_file_is_cut(
    tmp_path: Path, name: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.spouts.files.whole_lines.PART_BYTES", part)
    packed = {".txt": TEXT, ".gz": gzip.compress(TEXT), ".zst": pa.compress(TEXT, "zstd", asbytes=True)}
    path = tmp_path / name
    path.write_bytes(packed[path.suffix])
    reader = WholeReader(WholeLines(TextLines("utf-8", "strict")), LocalFiles(PathPattern.of(path)))
    portions = reader.portions(reader.place.find()[str(path)])
    assert len(portions) == (-(-len(TEXT) // part) if name == "a.txt" else 1)
    found = [row for each in portions for batch in reader([each]) for row in batch.to_pylist()]
    assert [(row["value"], row["position"]) for row in found] == LINES
