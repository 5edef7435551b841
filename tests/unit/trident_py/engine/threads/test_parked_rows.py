"""Files with the rows of parked transactions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from coordinators.record.parking import Parked, ParkedList
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.threads.parked_rows import LostRows, ParkedRows

ATTEMPT = TransactionAttempt(7, 2)
ROWS = pa.table({"n": [1, 2]})


def test_rows_are_read_as_they_were_stored(tmp_path: Path) -> None:
    files = ParkedRows("t", "1234", tmp_path / "new")
    stored = files.store(str(ATTEMPT), "any/name", ROWS)
    assert stored.file.startswith("1234-7-2-any-name-")
    assert stored.rows == 2
    assert files.read("any/name", stored) == ROWS


@pytest.mark.parametrize(("damage", "said"), [("gone", "is missing"), ("other", "is not what was stored")])
def test_a_file_that_is_gone_or_another_is_named_with_its_host(tmp_path: Path, damage: str, said: str) -> None:
    files = ParkedRows("t", "1234", tmp_path)
    stored = files.store(str(ATTEMPT), "s", ROWS)
    path = tmp_path / stored.file
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(LostRows, match=said) as error:
        files.read("s", stored)
    assert str(path) in str(error.value)
    assert stored.host in str(error.value)


def test_files_that_no_record_names_are_removed(tmp_path: Path) -> None:
    files = ParkedRows("t", "1234", tmp_path)
    kept, _ = (files.store(str(ATTEMPT), "s", ROWS) for _ in range(2))
    others = ParkedRows("t", "5678", tmp_path).store(str(ATTEMPT), "s", ROWS)
    files.remove_others({kept.file})
    assert {path.name for path in tmp_path.iterdir()} == {kept.file, others.file}
    ParkedRows("t", "1234", tmp_path / "never").remove_others(set())


def test_a_leader_on_another_machine_is_warned_of_rows_that_are_not_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here, elsewhere = ParkedRows("t", "1234", tmp_path / "here"), ParkedRows("t", "1234", tmp_path / "elsewhere")
    entry = Parked(txid=7, number=3, definition={"s": None}, stored={"s": here.store(str(ATTEMPT), "s", ROWS)})
    parked = ParkedList(None, (entry,))
    here.warn_of_missing(parked)
    assert caplog.messages == []
    elsewhere.warn_of_missing(parked)
    (said,) = caplog.messages
    assert "the rows of parked transaction 7 from spout 's' are not here" in said
    assert "let parked_dir be a directory that all machines share" in said
