"""Skip tests whose server or program isn't installed, and count them; fail them in CI."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest

IS_CI = os.environ.get("CI", "").lower() == "true"
_NOT_INSTALLED = " is not installed"


def lacks(name: str, why: object = "") -> NoReturn:
    """Skip the running test because ``name`` isn't installed; fail it in CI."""
    if IS_CI:
        pytest.fail(f"{name}{_NOT_INSTALLED}; .ci/install installs it. {why}")
    pytest.skip(f"{name}{_NOT_INSTALLED}")


def count_missing(reasons: Iterable[str]) -> str:
    """Return a line that counts the skipped tests by what is missing; empty if nothing is."""
    missing = Counter(reason.removeprefix("Skipped: ") for reason in reasons if reason.endswith(_NOT_INSTALLED))
    if not missing:
        return ""
    parts = [reason if len(missing) == 1 else f"{count}: {reason}" for reason, count in sorted(missing.items())]
    total = missing.total()
    return f"{total} {'test was' if total == 1 else 'tests were'} skipped: {'; '.join(parts)}"
