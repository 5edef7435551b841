"""Faults under a branch that leaves out bad rows, where a function raises over other rows in each attempt.

Each line is in the table of the good ones, or in that of the bad ones, whatever dies between the two commits.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.faults.beside import BAD, TABLE
from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.check import words_in
from tests.faults.crashes import crash
from tests.faults.points import SQLITE


def _rows(directory: Path, table: str, columns: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(directory / f"{table}.db")) as connection:
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall()  # noqa: S608 - constants


def compared(case: Case, point: str) -> None:
    """The leader dies at this point; each line is in one of the two tables, once."""
    directory = case.world.directory / "bad-rows" / case.topology
    directory.mkdir(parents=True)
    case.beside = ["bad-rows", str(directory)]
    crash(point, case)
    case.drain()
    good = Counter(word for (word,) in _rows(directory, TABLE, "word"))
    bad = _rows(directory, BAD, "path, position, value")
    happened(bad, "some lines are bad")
    lines = {(path, position) for path, position, _ in bad}
    assert len(lines) == len(bad), "a bad line is there twice"
    words = good + Counter(word for _, _, value in bad for word in value.split())
    expected = words_in(case.feeder.files)
    assert words == expected, f"lost are {expected - words}, too many are {words - expected}"


for each in SQLITE:

    @fault(f"bad-rows-crash-{each.partition('_')[0]}-commit", fast=each == "after_sqlite_commit")
    def _(case: Case, point: str = each) -> None:
        """A2, A3: the good lines are committed, and the bad ones not yet; or neither, or both."""
        compared(case, point)
