"""Texts from outside in what is stored, logged and shown."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinators.values.error_text import TEXT_BYTES_MAX, QuotedError, error_text, quoted, safe_text


class BrokenText(Exception):
    """Its text can't be had."""

    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    def __str__(self) -> str:
        raise self.raised


ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=200)


@given(ANY_TEXT)
def test_a_safe_text_is_one_short_line_of_unicode(text: str) -> None:
    safe = safe_text(text, 50)
    assert len(safe.encode()) <= 50
    assert not any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in safe)
    assert safe_text(safe, 50) == safe


@pytest.mark.parametrize("text", ["", "as it was", "Müller, 東京 👩\u200d👩"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert safe_text(text) == text


@pytest.mark.parametrize(
    ("text", "safe"),
    [("a\nb", r"a\nb"), ("\x1b[31m", r"\x1b[31m"), ("M\udcfcller", r"M\udcfcller"), ("\u202eb", r"\u202eb")],
)
def test_what_a_terminal_or_a_log_would_obey_is_escaped(text: str, safe: str) -> None:
    assert safe_text(text) == safe


def test_a_text_of_a_hundred_megabytes_is_cut_to_four_kibibytes() -> None:
    cut = error_text(ValueError("é" * 50_000_000))
    assert cut.startswith("ValueError: ééé")
    assert cut.endswith("…")
    assert TEXT_BYTES_MAX - 4 <= len(cut.encode()) <= TEXT_BYTES_MAX


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (KeyError("x"), "KeyError: 'x'"),
        (SystemExit(0), "SystemExit: 0"),
        (MemoryError(), "MemoryError"),
        (QuotedError("ValueError: boom, in map"), "ValueError: boom, in map"),
        (BrokenText(RuntimeError("x")), "BrokenText: (its text can't be shown: __str__ raised RuntimeError)"),
        (BrokenText(SystemExit(1)), "BrokenText: (its text can't be shown: __str__ raised SystemExit)"),
        (
            BaseExceptionGroup("both", [ValueError("1"), SystemExit("2")]),
            "BaseExceptionGroup: both (2 sub-exceptions): ValueError: 1; SystemExit: 2",
        ),
    ],
)
def test_an_error_is_named_by_its_class_and_its_text(error: BaseException, text: str) -> None:
    assert error_text(error) == text


def test_a_quoted_error_can_be_logged_with_frames_notes_and_causes(caplog: pytest.LogCaptureFixture) -> None:
    cause: Any = BrokenText(SystemExit(1))
    cause.__cause__ = cause
    error = ValueError("a\ud800")
    error.__cause__ = cause
    error.add_note("at row\n5")
    logging.getLogger("any").warning("it failed", exc_info=quoted(error))
    (raised,) = [record.exc_info for record in caplog.records if record.exc_info]
    text = logging.Formatter().formatException(raised)
    assert r"ValueError: a\ud800" in text
    assert r"at row\n5" in text
    assert "__str__ raised SystemExit" in text
