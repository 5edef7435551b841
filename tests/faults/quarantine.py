"""Faults under a branch that leaves out bad rows, where a function raises over other rows in each attempt.

Each line is in the table of the good ones, or in that of the bad ones, whatever dies between the two commits. Dead
letters that are released are all in the table of the good ones in the end, once.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from coordinators.record.wishes import Action
from tests.faults.beside import BAD, MENDED, TABLE
from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.check import words_in
from tests.faults.crashes import crash
from tests.faults.drivers import await_death, wait_until
from tests.faults.points import RELEASING, SQLITE, WISHES
from trident_py.engine.threads.dead_letters import letters_in


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


def released(case: Case, point: str) -> None:
    """The leader dies at this point of the release of all dead letters."""
    directory = case.world.directory / "letters" / case.topology
    directory.mkdir(parents=True)
    case.beside = ["letters", str(directory)]
    leader, standby = case.pair()
    wait_until("some lines are bad", lambda: _letters(directory, case))
    case.await_counts()  # so that the next commits are those of the release
    (directory / MENDED).touch()
    leader.tell("order", orders={point: ["crash", 1]})
    case.wish(Action.LETTERS)
    died = case.await_fired(leader)["at"]
    happened(await_death(leader), "SIGKILL")
    case.await_takeover(standby, died)
    wait_until("no letter is left", lambda: not _letters(directory, case))
    wait_until("all are released", lambda: not case.record().parked.entries)
    case.drain()
    words, expected = Counter(word for (word,) in _rows(directory, TABLE, "word")), words_in(case.feeder.files)
    assert words == expected, f"lost are {expected - words}, too many are {words - expected}"


def _letters(directory: Path, case: Case) -> bool:
    place = directory / f"{case.topology}-dead-letters.db"
    return place.exists() and any(True for _ in letters_in(place))


for each in (*SQLITE, *WISHES[1:], *RELEASING[1:]):
    fault(f"letters-crash-{each.replace('_', '-')}")(partial(released, point=each))


for each in SQLITE:

    @fault(f"bad-rows-crash-{each.partition('_')[0]}-commit", fast=each == "after_sqlite_commit")
    def _(case: Case, point: str = each) -> None:
        """A2, A3: the good lines are committed, and the bad ones not yet; or neither, or both."""
        compared(case, point)
