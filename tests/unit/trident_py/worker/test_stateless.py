"""What can be shown to keep nothing from one call to the next."""

from __future__ import annotations

import enum
import functools
import itertools
import math
import operator
import textwrap
from collections.abc import Callable
from shlex import split
from typing import Any

import pyarrow as pa
import pytest
from attrs import define
from pyspark.sql.types import StringType

from trident_py import Count, Replay, Sum
from trident_py.operations import FilterNull
from trident_py.rows.schema import schema_of
from trident_py.worker.pipeline import FilterStep, MapStep, RowPipeline
from trident_py.worker.stateless import is_stateless


def source(text: str, **names: Any) -> Any:
    """Return ``f`` of a program that is not imported, as a user's script isn't."""
    made: dict[str, Any] = {"__name__": "__main__", **names}
    exec(textwrap.dedent(text), made)  # noqa: S102
    return made["f"]


def closed_over(value: Any) -> Callable[[], Any]:
    return lambda: value


@define
class Remembers:
    seen: int = 0

    def __call__(self, row: Any) -> Any:
        return row


class Words(str):
    """A value that isn't only a value: it can have attributes."""


class Once(enum.Enum):
    ONE = 1


class Partly(functools.partial[list[str]]):
    pass


PLAIN = {
    "an imported function": split,
    "a lambda": lambda row: row,
    "over immutable values": closed_over(("a", 1, frozenset({2}))),
    "that calls another": source("def g(x):\n  return x\ndef f(row):\n  return g(row)"),
    "that calls itself": source("def f(row):\n  return f(row[1:]) if row else row"),
    "that uses a module": source("def f(row):\n  return math.sqrt(row)", math=math),
    "with local variables of inner functions": source("def f(row):\n  x = 1\n  return [x + y for y in row]"),
    "a part of it": functools.partial(split, posix=True),
    "a method of a value": "x".join,
    "of the library": operator.itemgetter(1),
    "types and members that are imported": closed_over((StringType(), pa.int64(), Replay.EXACT, Once.ONE)),
    "our aggregators": (Count(), Sum("amount")),
    "our filters": FilterNull("amount").is_keep,
}

KEEPING = {
    "over a list": closed_over([1]),
    "over an iterator": closed_over(itertools.count()),
    "a default that changes": source("def f(row, seen=[]):\n  return row"),
    "a global of its script": source("seen = {}\ndef f(row):\n  seen[row] = 1"),
    "an assigned global": source("n = 0\ndef f(row):\n  global n\n  n = 1"),
    "an attribute of itself": source("def f(row):\n  f.n = row"),
    "a variable of the function around it": source(
        "def g():\n  n = 0\n  def f(row):\n    nonlocal n\n    n += 1\n  return f\nf = g()"
    ),
    "through what it calls": source("seen = []\ndef g(x):\n  seen.append(x)\ndef f(row):\n  g(row)"),
    "by its namespace": source("def f(row):\n  globals()['n'] = row"),
    "an object": Remembers(),
    "a method of an object": Remembers().__call__,
    "a class of its script": source("class f:\n  seen = []"),
    "a value of a subclass": closed_over(Words("a")),
    "a part of a subclass": Partly(split, posix=True),
    "a member of its script": source("import enum\nclass Own(enum.Enum):\n  ONE = 1\ndef f(row):\n  return Own.ONE"),
    "a generator": (each for each in "ab"),
}


@pytest.mark.parametrize("value", PLAIN.values(), ids=PLAIN.keys())
def test_it_keeps_nothing(value: object) -> None:
    assert is_stateless(value)


@pytest.mark.parametrize("value", KEEPING.values(), ids=KEEPING.keys())
def test_it_may_keep_something(value: object) -> None:
    assert not is_stateless(value)


@pytest.mark.parametrize(("user", "expected"), [(lambda row: (row[0],), True), (Remembers(), False)])
def test_a_branch_keeps_nothing_if_the_functions_of_the_user_don_t(user: Any, expected: bool) -> None:
    fields = schema_of("word string")
    step = MapStep(title="map", source=("word",), in_fields=("word",), target=fields, fn=user)
    kept = FilterStep(title="filter", source=("word",), in_fields=("word",), target=fields, keep=bool)
    assert is_stateless(RowPipeline(fields, (step, kept))) == expected
