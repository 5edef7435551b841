"""Which paths a `FileSink` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trident_py import TopologyError
from trident_py.sinks.files.local_path import local_path


def test_a_path_is_relative_to_the_directory_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_path("words") == local_path(Path("x/../words")) == tmp_path / "words"


@pytest.mark.parametrize("url", ["file:/data/a%20b", "file:///data/a%20b", "FILE://localhost/data/a%20b", "/data/a b"])
def test_a_url_of_a_file_is_a_path(url: str) -> None:
    assert local_path(url) == Path("/data/a b")


@pytest.mark.parametrize(
    "url",
    [
        "s3a://bucket/x", "s3://b/x", "gs://b/x", "abfss://c@a.dfs.core.windows.net/x", "http://h/x", "https://h/x",
        "hdfs://n:8020/x", "hdfs:/x", "dbfs:/x", "file://elsewhere/x",
    ],
)  # fmt: skip
def test_other_urls_are_refused_by_name(url: str) -> None:
    with pytest.raises(TopologyError, match=f"'{url}' is on no file system that is mounted here.*give a local path"):
        local_path(url)


@pytest.mark.parametrize("path", ["", "a\0b", None, 3, b"words", "/", "file:///"])
def test_what_is_no_path_of_a_directory_is_refused(path: Any) -> None:
    with pytest.raises(TopologyError):
        local_path(path)
