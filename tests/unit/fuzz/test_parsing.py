"""What is parsed from outside is read, or refused by an error of ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fuzz.parsing import EXAMPLES, TARGETS, searching


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_it_is_read_or_refused_by_name(target: Callable[..., None]) -> None:
    searching(target, EXAMPLES)()
