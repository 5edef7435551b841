"""No text from outside moves a terminal's cursor, colours it, or looks like a line of ours."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from coordinators.record.record import CoordinatorRecord, Failure
from coordinators.record.store import TopologyIdentity
from coordinators.record.wishes import Hold, Standing
from coordinators.status.candidate import Leader
from coordinators.status.description import TopologyDescription
from coordinators.status.status import TopologyStatus
from coordinators.values.cursors import Cursors
from tests.unit.trident_py.history.told import PROGRAM, emitted, failed, leading
from trident_py.cli.app import main
from trident_py.cli.logs import JsonFormatter, TextFormatter
from trident_py.cli.progress_line import fitted, parts
from trident_py.cli.status import Readable, Unreadable, _print_all
from trident_py.cli.terminal import json_text, safe_lines, traceback_text
from trident_py.history.database import history_at
from trident_py.history.entries import Entries

EVIL = "\x1b]0;owned\x07 \x1b[31m[red]red[/]\r2026-01-01 ERROR forged\u202e \x9b1m \x85 \u2028 M\udcfcller \0"
FORGED = f"{EVIL}\n2026-01-01 ERROR forged"
STORED = FORGED.replace("\udcfc", "").replace("\0", "")
"""As a database may have it."""


class BrokenText(Exception):
    def __str__(self) -> str:
        raise RuntimeError(EVIL)


def is_harmless(text: str) -> bool:
    return text.isprintable() and text == text.encode(errors="replace").decode()


def assert_harmless(text: str) -> None:
    lines = text.split("\n")
    assert all(map(is_harmless, lines)), text
    assert not any(line.startswith("2026-01-01 ERROR") for line in lines), text


def test_a_text_of_many_lines_is_cut() -> None:
    assert safe_lines("a\nb\x1b") == "a\nb\\x1b"
    assert len(safe_lines("x\n" * 1_000_000)) < 1000
    assert len(safe_lines("x" * 1_000_000)) <= 4096


def test_json_is_readable_where_it_can_be_printed_and_json_in_any_case() -> None:
    assert json_text({"ü": "😀"}) == '{"ü": "😀"}'
    for value in ({"a": FORGED}, [FORGED], FORGED):
        text = json_text(value, indent=2)
        assert json.loads(text) == value
        assert_harmless(text)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - of any class
        return caught


@pytest.mark.parametrize("error", [ValueError(FORGED), BrokenText(), ExceptionGroup(FORGED, [KeyError(FORGED)])])
def test_a_traceback_has_its_frames_and_texts_that_are_safe(error: BaseException) -> None:
    text = traceback_text(raised(error))
    assert_harmless(text)
    assert "in raised" in text
    assert text.splitlines()[-1].startswith(f"{type(error).__name__}: ")


def record_of(message: str, *given: Any, error: BaseException | None = None) -> logging.LogRecord:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    return logging.makeLogRecord({"msg": message, "args": given, "exc_info": exc_info, "levelname": "ERROR"})


@pytest.mark.parametrize(
    "record",
    [
        record_of(FORGED),
        record_of("a %s", FORGED),
        record_of("a %s", BrokenText()),
        record_of("a %d", "b"),
        record_of("a", error=raised(ValueError(FORGED))),
        record_of("a", error=raised(BrokenText())),
    ],
)
def test_a_log_has_no_line_that_is_not_ours(record: logging.LogRecord) -> None:
    text = TextFormatter("%(levelname)s: %(message)s").format(record)
    assert_harmless(text)
    assert all(line.startswith(("ERROR: ", "Traceback", " ", "ValueError", "BrokenText")) for line in text.split("\n"))
    assert is_harmless(JsonFormatter().format(record))


def test_a_log_record_is_the_same_for_its_other_handlers() -> None:
    record = record_of("a %s", "b", error=raised(ValueError("c")))
    TextFormatter().format(record)
    assert (record.msg, record.args) == ("a %s", ("b",))
    assert logging.Formatter().format(record).endswith("ValueError: c")


def described(*, reason: str = FORGED) -> TopologyDescription:
    failure = Failure(count=1, attempt_id=2, cause=FORGED, since=0.0, last=0.0, tries=1)
    record = CoordinatorRecord(
        epoch=3,
        current_txid=7,
        attempt_ids={7: 2},
        metadata={7: {FORGED: [FORGED]}},
        states={FORGED: 1},
        cursors={FORGED: Cursors().updated({"a": 1})},
        failures={7: failure},
        standing=Standing(Hold.PAUSED, reason=reason),
    )
    identity = TopologyIdentity(name=FORGED, uuid="u", incarnation=1)
    return TopologyDescription(identity=identity, epoch=3, leader=Leader(FORGED, 42), record=record)


@pytest.mark.parametrize("columns", ["200", "40"])
def test_the_status_is_harmless(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert_harmless(Readable(described(), (FORGED,)).text())
    _print_all([Readable(described()), Unreadable(FORGED, FORGED)], "here")
    shown = capsys.readouterr().out
    assert_harmless(shown)
    assert "[red]" in shown, "which is no markup of ours"


def test_the_line_of_a_run_is_harmless() -> None:
    status = evolve(described().status(0.0), error=ValueError(FORGED))
    assert isinstance(status, TopologyStatus)
    done = {"committed_transactions": 1, "total_input_rows": 1, "seconds": 1.0}
    for columns in (40, 200):
        assert_harmless(fitted(parts(FORGED, status, done, 1.0), columns))


def test_transactions_are_shown_harmlessly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Entries(PROGRAM).take([leading(), emitted("1:0"), failed("1:0", ValueError("x"))])
    [attempt] = change.attempts
    evil = evolve(attempt, error=STORED, definition={STORED: [STORED]}, written={STORED: 1})
    path = tmp_path / "history.db"
    with closing(history_at(path)) as database:
        database.write(evolve(change, attempts=(evil,)))

    def sleep(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trident_py.cli.follow.sleep", sleep)
    for words in (["tx", "wc", "list"], ["tx", "wc", "show", "1"], ["watch", "wc"]):
        assert main([*words, "--history", str(path)]) == 0
        shown = capsys.readouterr().out
        assert_harmless(shown)
        assert "\\x1b[31m" in shown
