from __future__ import annotations

import logging

import pytest

from coordinators.values.secret import Secret, as_secret


def test_a_secret_shows_nowhere_and_is_given_away_when_asked(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret("canary")
    caplog.set_level(logging.DEBUG)
    logging.getLogger("test").debug("%s %r %s", secret, [secret], {"password": secret})
    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r:>10}", caplog.text]
    assert not [text for text in shown if "canary" in text]
    assert str(secret) == "***"
    assert secret.reveal() == "canary"


def test_secrets_are_values() -> None:
    assert Secret("a") == as_secret("a") == as_secret(Secret("a")) != Secret("b")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
