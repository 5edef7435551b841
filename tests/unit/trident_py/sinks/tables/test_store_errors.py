"""Errors of the place where a table is: told apart by their numbers."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trident_py.sinks.delta.tables import Leader, rows_in
from tests.unit.trident_py.sinks.tables.leaders import A, B
from trident_py import SinkError
from trident_py.errors import StoreBusyException
from trident_py.interfaces import verdict
from trident_py.sinks.delta.table import DeltaSinkTable
from trident_py.sinks.tables.store_errors import raise_store_error


@pytest.mark.parametrize(
    ("number", "raised", "message"),
    [
        (errno.EACCES, SinkError, "can't be written to: .*; to fix this: give the user that runs the topology"),
        (errno.EROFS, SinkError, "can't be written to"),
        (errno.ENOTDIR, SinkError, "no table can be at"),
        (errno.ENOSPC, StoreBusyException, "no space is left for .*, and writing is retried"),
        (errno.EDQUOT, StoreBusyException, "no space is left"),
        (errno.ECONNREFUSED, StoreBusyException, "can't be reached, and the attempt is retried"),
        (errno.EIO, StoreBusyException, "can't be reached"),
    ],
)
def test_what_stays_stops_by_name_and_what_may_pass_is_tried_again(
    tmp_path: Path, number: int, raised: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(tmp_path)

    def refuse(_: DeltaSinkTable) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(DeltaSinkTable, "look", refuse)
        with pytest.raises(raised, match=message):
            leader.commit(1, A)
    leader.commit(1, A, attempt=1)
    assert rows_in(tmp_path) == [A]


def test_an_error_without_a_number_has_that_of_the_disk_where_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(StoreBusyException, match="no space is left"):
        raise_store_error(OSError("Generic LocalFileSystem error"), "topology 'words'", str(tmp_path / "not/there"))


def test_an_unknown_error_that_comes_for_a_minute_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr("trident_py.sinks.tables.store_errors.unknown_errors", verdict.UnknownErrors(lambda: now[0]))
    with caplog.at_level(logging.WARNING):
        for at in (0.0, 59.0, 61.0):
            now[0] = at
            with pytest.raises(StoreBusyException):
                raise_store_error(OSError("Generic S3 error"), "topology 'words'", "s3://bucket/words")
    assert ["has repeated for 61 s" in record.getMessage() for record in caplog.records] == [True]


def test_a_commit_that_raises_and_was_made_all_the_same_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, commit = Leader(tmp_path), DeltaSinkTable.commit

    def raise_after(self: DeltaSinkTable, *arguments: Any) -> None:
        commit(self, *arguments)
        raise RuntimeError("it can't be read")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaSinkTable, "commit", raise_after)
        leader.commit(1, A)
    leader.commit(2, B)
    assert rows_in(tmp_path) == [A, B]


def test_a_commit_that_raises_and_was_not_made_is_a_failure_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(tmp_path)

    def fail(*_: Any) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaSinkTable, "commit", fail)
        with pytest.raises(RuntimeError, match="no"):
            leader.commit(1, A)
    leader.commit(1, A, attempt=1)
    assert rows_in(tmp_path) == [A]
