"""``trident tx`` and ``trident watch`` over the histories of topologies that ran, failed and were killed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinators.backends.local import LocalCoordination
from tests.unit.trident_py.history.told import PROGRAM, committed, emitted, leading, processed
from trident_py import Count, FixedBatchSpout, MemoryMapState, TridentConfig, TridentTopology, counter
from trident_py.cli.app import main
from trident_py.history.database import history_at
from trident_py.history.entries import Entries


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Of ``words``, which had three transactions; the second failed once, at the row ``bad``."""
    path, mended = tmp_path / "history.db", tmp_path / "mended"

    def words_of(row: Any) -> list[tuple[str]]:
        if row.value == "bad" and not mended.exists():
            mended.touch()
            raise ValueError("no words")
        counter("lines").add()
        return [(word,) for word in row.value.split()]

    topology = TridentTopology("words")
    lines = FixedBatchSpout("value string", 1, ("to be or",), ("bad",), ("not to be",))
    words = topology.new_stream("lines", lines).flat_map(words_of, "word string")
    words.group_by("word").persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    with topology.start(TridentConfig(history=path), coordination=LocalCoordination()) as query:
        query.process_all_available(60)
    return path


def told(capsys: pytest.CaptureFixture[str], *words: str | Path, status: int = 0) -> str:
    assert main(list(map(str, words))) == status
    captured = capsys.readouterr()
    return captured.err if status else captured.out


def test_a_list_has_a_row_for_each_transaction_and_what_has_failed(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = told(capsys, "tx", "words", "list", "--history", history)
    assert re.search(r"^ 1 +committed +1 +1 +3 ", out, re.MULTILINE)
    assert re.search(r"^ 2 +committed +2 +1 +1 ", out, re.MULTILINE)
    assert re.search(r"^2:0: ValueError: no words .*at Row\(value='bad'\)$", out, re.MULTILINE)
    assert "`trident tx words show TXID` says more" in out


def test_a_list_can_be_short_and_about_failures_alone(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = json.loads(told(capsys, "tx", "words", "list", "--last", "1", "--json", "--history", history))
    assert [each["txid"] for each in last] == [3]
    failed = json.loads(told(capsys, "tx", "words", "list", "--failed", "--json", "--history", history))
    assert 2 in [each["txid"] for each in failed]
    assert 1 not in [each["txid"] for each in failed]


def test_one_is_shown_with_all_that_is_known(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, "tx", "words", "show", "2", "--history", history)
    first, second = out.split("attempt 2:")[1:]
    assert "transaction:  2 of words, committed; batch 2 of its spouts" in out
    assert "counted:      lines 1" in out
    assert "spout:        lines [1, 2]" in out
    assert "ValueError: no words" in first
    assert re.search(r"epoch 1, pid \d+ on .*, trident_py \S+, code [0-9a-f]{12}", first)
    assert re.search(r"committed \d\d:\d\d:\d\d, spouts told \d\d:\d\d:\d\d", second)


def test_one_is_shown_to_programs(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(told(capsys, "tx", "words", "show", "2", "--json", "--history", history))
    first, second = facts["attempts"]
    assert (facts["outcome"], first["outcome"], first["failed"]) == ("committed", "failed", "2:0")
    assert (second["rows"], second["written"], second["counts"]) == (1, {"lines-state": 1}, {"lines": 1})
    assert second["emitted"] < second["ended"] <= second["succeeded"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["words", "show", "99"], "knows nothing of transaction 99 of topology 'words'"),
        (["other", "list"], "has no topology 'other', it knows words; name the place with --state-dir"),
    ],
)
def test_what_is_not_known_is_said_with_what_is(
    words: list[str], says: str, history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    err = told(capsys, "tx", *words, "--history", history, "--state-dir", tmp_path / "none", status=1)
    assert says in err


def test_where_there_is_no_history_the_answer_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = told(capsys, "tx", "words", "list", "--state-dir", tmp_path, status=1)
    assert f"there is no history in {tmp_path / 'history.db'}; name the place with" in err
    assert list(tmp_path.iterdir()) == []


def test_a_history_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "history.db").write_text("no database at all, but long enough to be taken for one" * 100)
    err = told(capsys, "tx", "words", "list", "--state-dir", tmp_path, status=1)
    assert "the history in" in err
    assert "file is not a database" in err


@pytest.mark.parametrize("words", [["show"], ["list", "3"], ["list", "--last", "0"], ["forget"]])
def test_what_makes_no_sense_is_refused(words: list[str], history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "tx", "words", *words, "--history", history, status=2)


def test_the_place_can_be_in_the_environment_where_nobody_sees_its_password(
    history: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRIDENT_HISTORY", str(history))
    assert "committed" in told(capsys, "tx", "words", "list")


# --- watch ------------------------------------------------------------------------------------------------------------


def watching(monkeypatch: pytest.MonkeyPatch, *between: Callable[[], object]) -> None:
    """Have each of these happen between two looks of ``trident watch``, and then Ctrl-C."""
    coming = iter(between)

    def sleep(_: float) -> None:
        try:
            next(coming)()
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("trident_py.cli.follow.sleep", sleep)


def test_a_watch_has_a_line_for_each_attempt_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, entries = tmp_path / "history.db", Entries(PROGRAM)
    database = history_at(path)
    database.write(entries.take([leading(), emitted("1:0"), emitted("2:0")]))
    watching(
        monkeypatch,
        lambda: None,
        lambda: database.write(entries.take([processed("2:0"), committed("1:0", rows=3, processing=0.25)])),
        lambda: database.write(entries.take([committed("2:0", rows=1)])),
        lambda: database.write(entries.take([emitted("3:0")])),
    )
    out = told(capsys, "watch", "wc", "--history", path)
    assert [line.partition(" ")[2].partition(" ")[2] for line in out.splitlines()] == [
        "1:0 committed, 3 rows, 250 ms",
        "2:0 committed, 1 row",
    ]
    database.close()


def test_programs_hear_of_each_change_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, entries = tmp_path / "history.db", Entries(PROGRAM)
    database = history_at(path)
    database.write(entries.take([leading(), emitted("1:0")]))
    watching(
        monkeypatch,
        lambda: None,
        lambda: database.write(entries.take([processed("1:0"), emitted("2:0")])),
        lambda: database.write(entries.take([committed("1:0")])),
        lambda: None,
        lambda: database.write(entries.take([leading(epoch=2, current_txid=2, at=200.0)])),
    )
    lines = [json.loads(line) for line in told(capsys, "watch", "wc", "--json", "--history", path).splitlines()]
    assert [(each["attempt"], each["outcome"]) for each in lines] == [
        ("1:0", "processing"),
        ("1:0", "processed"),
        ("2:0", "processing"),
        ("1:0", "committed"),
        ("2:0", "abandoned"),
    ]
    database.close()


def test_a_terminal_shows_who_leads_and_a_table(
    history: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    watching(monkeypatch, lambda: None)
    out = told(capsys, "watch", "words", "--history", history)
    assert re.search(r"words: epoch 1, pid \d+ on .*, led since .* until .*; last change", out)
    assert "committed" in out
