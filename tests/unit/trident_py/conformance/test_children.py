"""Processes are forked with what those before them have loaded, and leave the lines that they come to."""

from __future__ import annotations

import importlib
import os
import sys
from functools import partial

import pytest

from trident_py.conformance.child_process import Subject, serve
from trident_py.conformance.children import Answer, Child, Died, Nursery, Request

SELDOM = "colorsys"
"""A module of Python's that nothing here uses."""


class Loads(Subject):
    def load(self) -> bool:
        was_there = SELDOM in sys.modules
        importlib.import_module(SELDOM)
        return was_there

    def end(self) -> None:
        os._exit(3)


def asked(child: Child, method: str) -> object:
    child.ask(Request(method, ()))
    return child.reply(60, lambda: False, lambda: False)


def test_what_a_call_loads_is_there_when_the_next_process_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, SELDOM, raising=False)  # another test may have loaded it
    with Nursery.open(partial(serve, make=Loads), lambda: None) as nursery:
        first = asked(nursery.child(), "load")
        assert isinstance(first, Answer)
        assert (first.value, first.imported) == (False, (SELDOM,))
        nursery.has_use_of([*first.imported, "no_such_module"])
        second = asked(nursery.child(), "load")
        assert isinstance(second, Answer)
        assert (second.value, second.imported) == (True, ())
    assert SELDOM not in sys.modules


def test_a_process_that_ends_has_left_its_lines() -> None:
    with Nursery.open(partial(serve, make=Loads), lambda: None) as nursery:
        child = nursery.child()
        assert isinstance(asked(child, "end"), Died)
        assert [each.line for each in child.trail.lines()] == [Loads.end.__code__.co_firstlineno + 1]
        child.end()
