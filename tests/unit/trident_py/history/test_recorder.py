"""The recorder of a history: what it writes, and what it does where nothing can be written."""

from __future__ import annotations

import logging
import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.trident_py.history.told import ALL_GOOD, LIFE, PROGRAM, committed, emitted, ended, leading, succeeded
from trident_py.engine.monitoring.listeners import Listeners
from trident_py.history.database import history_at
from trident_py.history.entries import Entries
from trident_py.history.recorder import Recorder, recorded, this_program


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """Where a directory is expected there is a file, until it is removed."""
    (tmp_path / "state").touch()
    return tmp_path / "state"


def recorder_at(path: Path) -> Recorder:
    return Recorder("wc", history_at(path), Entries(PROGRAM))


def phases(path: Path) -> dict[int, str]:
    with closing(history_at(path, reads=True)) as reader:
        return {each.txid: each.phase for each in reader.attempts(LIFE, 1, 100)}


def test_all_that_listeners_are_told_is_written_by_the_end(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    listeners = recorded(Listeners(), path, "wc", lambda: this_program((), [{"id": 0}]))
    for event in [*ALL_GOOD, emitted("2:0"), ended()]:
        listeners.tell(event)
    listeners.close()
    assert phases(path) == {1: "committed", 2: "processing"}
    assert listeners.history_error() == ""
    with closing(history_at(path, reads=True)) as reader:
        (leadership,) = reader.leaderships("wc")
    assert (leadership.program.pid, leadership.ended) == (os.getpid(), 105.0)
    assert leadership.program.plan == ({"id": 0},)


def test_none_is_kept_where_none_is_wanted() -> None:
    listeners = Listeners()
    assert recorded(listeners, None, "wc", lambda: pytest.fail("nobody asks")) is listeners


def test_what_could_not_be_written_is_written_later_and_both_are_said_once(
    blocked: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trident_py.history.recorder.AGAIN_SECONDS", 0.0)
    path = blocked / "history.db"
    recorder = recorder_at(path)
    recorder.receive([leading(), emitted("1:0")])
    recorder.receive([committed("1:0"), succeeded("9:0")])
    assert "history.db" in recorder.trouble
    blocked.unlink()
    recorder.receive([emitted("2:0")])
    assert recorder.trouble == ""
    assert phases(path) == {1: "committed", 2: "processing"}
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["topology wc"] * 2
    assert "the topology continues, and its history is written later" in caplog.records[0].getMessage()
    assert caplog.records[1].getMessage() == "topology wc: its history is written again"


def test_a_database_that_cannot_be_written_is_left_alone_for_a_while_but_not_at_the_end(blocked: Path) -> None:
    path = blocked / "history.db"
    recorder = recorder_at(path)
    recorder.receive([leading(), emitted("1:0")])
    blocked.unlink()
    recorder.receive([emitted("2:0")])
    assert recorder.trouble != ""
    assert not path.exists()
    recorder.receive([ended()])
    assert phases(path) == {1: "processing", 2: "processing"}


def test_what_waits_to_be_written_is_bounded(blocked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.history.recorder.UNWRITTEN_MAX", 3)
    recorder = recorder_at(blocked / "history.db")
    for txid in range(1, 10):
        recorder.receive([leading(), emitted(f"{txid}:0")])
    blocked.unlink()
    recorder.receive([ended()])
    assert set(phases(blocked / "history.db")) == {7, 8, 9}


def test_the_oldest_are_forgotten_as_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.history.recorder.PRUNE_EVERY", 5)
    monkeypatch.setattr("trident_py.history.database.ATTEMPTS_MAX", 10)
    recorder = recorder_at(tmp_path / "history.db")
    recorder.receive([leading()])
    for txid in range(1, 61):
        recorder.receive([emitted(f"{txid}:0", at=float(txid))])
    assert 10 <= len(phases(tmp_path / "history.db")) <= 16


def test_a_defect_in_it_hurts_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = recorder_at(tmp_path / "history.db")
    recorder.receive([leading(), emitted("1:0"), committed("1:0", counts={"x": object()})])  # no JSON
    recorder.receive([leading(), emitted("2:0")])
    assert phases(tmp_path / "history.db") == {2: "processing"}
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "a part of its history is lost; the topology continues" in caplog.text
