"""What a line is said to be about."""

from __future__ import annotations

import logging
from contextvars import ContextVar, copy_context

import pytest

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import StateError
from coordinators.values.log_fields import fields_of, log_about, logging_about

ATTEMPT = TransactionAttempt(7, 1)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that drive a leader on their own thread leave behind what its log was about."""
    monkeypatch.setattr("coordinators.values.log_fields._known", ContextVar("known", default={}))  # noqa: B039 - it never changes


def line(*args: object, error: BaseException | None = None) -> logging.LogRecord:
    raised = (type(error), error, None) if error else None
    return logging.LogRecord("log", logging.INFO, "file.py", 1, " %s" * len(args), args, raised)


def test_a_line_outside_of_a_topology_is_about_nothing() -> None:
    assert fields_of(line()) == {}


def test_a_line_is_about_what_is_said_around_it_and_no_longer() -> None:
    with logging_about(topology="wc", epoch=3):
        with logging_about(attempt=ATTEMPT):
            assert fields_of(line()) == {"topology": "wc", "epoch": 3, "txid": 7, "attempt": "7:1"}
        assert fields_of(line()) == {"topology": "wc", "epoch": 3}
    assert fields_of(line()) == {}


def test_another_transaction_has_other_attempts() -> None:
    with logging_about(attempt=ATTEMPT):
        with logging_about(txid=8):
            assert fields_of(line()) == {"txid": 8}
        with logging_about(txid=7, topology="wc"):
            assert fields_of(line()) == {"txid": 7, "attempt": "7:1", "topology": "wc"}


@pytest.mark.parametrize("is_raised", [True, False])
def test_an_error_knows_best_what_a_line_is_about(is_raised: bool) -> None:
    error = StateError("it is gone", topology="wc", txid=8, state="counts")
    told = line(error=error) if is_raised else line("what ends it:", error)
    with logging_about(topology="other", epoch=3, attempt=ATTEMPT):
        assert fields_of(told) == {"topology": "wc", "epoch": 3, "txid": 8, "state": "counts"}
    assert fields_of(line(ValueError("not ours"))) == {}


def test_what_is_said_in_a_context_ends_with_it() -> None:
    def called() -> dict[str, object]:
        log_about(topology="wc")
        log_about(epoch=3)
        return fields_of(line())

    assert copy_context().run(called) == {"topology": "wc", "epoch": 3}
    assert fields_of(line()) == {}
