"""The connections that staging tasks keep in their process, which is the test's own where a task runs in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trident_py.states.sql import staging


def close_task_links() -> None:
    """Close what tasks have opened."""
    for link in staging._links.values():
        link.close()
    staging._links.clear()


@pytest.fixture(autouse=True)
def _no_links_left() -> Iterator[None]:
    """For a module that imports it: no test leaves a connection."""
    yield
    close_task_links()
