"""Packages whose names are imported when they are first asked for (PEP 562).

So a Python worker or ``trident script`` loads neither kazoo nor a session, and optional libraries stay optional.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of ``package``.

    Args:
        package: its ``__name__``.
        modules: for each module, the names it gives. What type checkers read is the same list as imports under
            ``TYPE_CHECKING``; a test compares the two.
    """
    home = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted(home), sorted(home)
