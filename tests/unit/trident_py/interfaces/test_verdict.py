"""Unknown errors of outside systems, which are tried again."""

from __future__ import annotations

import logging

import pytest

from trident_py.interfaces.verdict import UnknownErrors


def test_an_unknown_error_that_comes_for_a_minute_is_warned_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    errors = UnknownErrors(lambda: now[0])
    warned = []
    with caplog.at_level(logging.WARNING):
        for at in range(0, 200, 10):
            now[0] = at
            errors.came("code 9999", "it is odd")
            warned += [at] * len(caplog.records)
            caplog.clear()
    assert warned == [60, 120, 180]


def test_an_unknown_error_that_passes_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    errors = UnknownErrors(lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for at in (0, 30, 100, 130, 200):
            now[0] = at
            errors.came("code 9999", "it is odd")
    assert caplog.records == []
