"""Lazy packages, with names that are imported when they are first used (PEP 562).

So a Python worker or ``trident script`` loads neither kazoo nor a session, and optional libraries stay optional.
"""

from __future__ import annotations

import ast
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of ``package``, from its stub, ``__init__.pyi``.

    Type checkers read the same stub, so each public name is written once. ``from other import *`` means all names of a
    package, also of a lazy one.
    """
    stub = pkgutil.get_data(package, "__init__.pyi") or b""
    homes = {name: module for module, name in _imported(ast.parse(stub))}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted(homes), sorted(homes)


def _imported(stub: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each import of the stub as a module and a name."""
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                names = import_module(node.module).__all__ if alias.name == "*" else [alias.name]
                yield from ((node.module, name) for name in names)
