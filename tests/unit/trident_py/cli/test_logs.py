"""The log of a command as JSON."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import datetime

import pytest

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.log_fields import logging_about
from trident_py.cli.logs import TEXT, JsonFormatter, LogStream, set_up


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that drive a leader on their own thread leave behind what its log was about."""
    monkeypatch.setattr("coordinators.values.log_fields._known", ContextVar("known", default={}))  # noqa: B039 - it never changes


def test_a_line_is_one_json_object_with_the_traceback_in_it() -> None:
    record = logging.makeLogRecord(
        {"name": "a.b", "levelno": 30, "levelname": "WARNING", "msg": "two\nlines", "created": 1.5}
    )
    assert json.loads(JsonFormatter().format(record)) == {
        "time": "1970-01-01T00:00:01.500+00:00",
        "level": "WARNING",
        "logger": "a.b",
        "message": "two\nlines",
    }
    try:
        raise ValueError("bad \udcff row")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    with logging_about(topology="wc", attempt=TransactionAttempt(7, 1)):
        text = JsonFormatter().format(record)
    assert "\n" not in text
    told = json.loads(text)
    assert (told["topology"], told["txid"], told["attempt"]) == ("wc", 7, "7:1")
    assert told["traceback"].startswith("Traceback (most recent call last)")
    assert datetime.fromisoformat(told["time"]).tzinfo is not None


def test_what_is_written_for_people_is_logged_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    print("one\n\n two \n", file=LogStream())  # it is one to write to
    assert [record.getMessage() for record in caplog.records] == ["one", "two"]


def test_what_py4j_logs_of_calls_that_ctrl_c_interrupts_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = [*root.handlers]
    root.handlers.clear()
    try:
        set_up(TEXT, debug=False)
        py4js = {"pathname": "/lib/site-packages/py4j/java_gateway.py", "levelno": logging.ERROR, "msg": "in a call"}
        root.handle(logging.makeLogRecord(py4js))
        root.handle(logging.makeLogRecord({**py4js, "pathname": "/app/py4j.py", "msg": "of the user"}))
    finally:
        root.handlers[:] = before
    assert capsys.readouterr().err == "trident: of the user\n"
