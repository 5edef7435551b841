"""The checks as pytest fixtures: ``def test_my_sink(check_sink, tmp_path): assert check_sink(…).ok``.

Pytest loads this module wherever the library is installed, so it imports nothing until a test uses a fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trident_py.conformance.report import Report


@pytest.fixture
def check_sink() -> Callable[..., Report]:
    """`trident_py.testing.check_sink`."""
    return _check("check_sink")


@pytest.fixture
def check_state() -> Callable[..., Report]:
    """`trident_py.testing.check_state`."""
    return _check("check_state")


@pytest.fixture
def check_spout() -> Callable[..., Report]:
    """`trident_py.testing.check_spout`."""
    return _check("check_spout")


def _check(name: str) -> Callable[..., Report]:
    from trident_py import testing

    check: Callable[..., Report] = getattr(testing, name)
    return check
