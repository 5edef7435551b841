"""Dead letters are read from their table, and their rows are stored by branch and spout."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from coordinators.protocol.messages import LettersRead
from coordinators.record.wishes import Action, Wish
from trident_py.engine.plane.sifting import rows_of_letters
from trident_py.engine.threads.dead_letters import COLUMNS, DeadLetterTable
from trident_py.engine.threads.parked_rows import ParkedRows
from trident_py.rows.schema import schema_of

SOURCE = schema_of("n bigint")


def table(directory: Path, *letters: tuple[int, str, str, int, int], spout: str = "s") -> DeadLetterTable:
    """A table with a transaction, branch, spout, number and count of each letter, and the fields of one spout."""
    place = directory / "letters.db"
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute(f"CREATE TABLE s_dead_letters ({', '.join(COLUMNS)})")
        rows = [(txid, branch, name, "map", "no", f'{{"n": {n}}}', count) for txid, branch, name, n, count in letters]
        connection.executemany("INSERT INTO s_dead_letters VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return DeadLetterTable(place, ParkedRows("t", "1234", directory / "parked"), {spout: SOURCE})


def numbers(table: DeadLetterTable, answer: LettersRead) -> dict[str, list[int]]:
    """The rows that are stored, by branch."""
    assert answer.refusal == ""
    found: dict[str, pa.Table] = {
        each.branch: table.parked.read(spout, stored)
        for each in answer.letters
        for spout, stored in each.stored.items()
    }
    return {branch: rows_of_letters(rows, SOURCE).column("n").to_pylist() for branch, rows in found.items()}


def test_the_letters_that_are_wished_are_stored_and_those_that_were_released_are_not(tmp_path: Path) -> None:
    letters = table(tmp_path, (3, "a", "s", 1, 2), (4, "a", "s", 5, 1), (4, "b", "s", 6, 1), (4, "b", "s", 7, 0))
    every = letters.answer(Wish("w", Action.LETTERS))
    assert [(each.branch, each.txid) for each in every.letters] == [("a", 3), ("b", 4)]
    assert numbers(letters, every) == {"a": [1, 1, 5], "b": [6]}
    assert numbers(letters, letters.answer(Wish("w", Action.LETTERS, txids=(4,)))) == {"a": [5], "b": [6]}
    assert numbers(letters, letters.answer(Wish("w", Action.LETTERS, txids=(4,), branch="b"))) == {"b": [6]}


def test_letters_of_another_spout_or_in_no_file_are_not_stored(tmp_path: Path) -> None:
    letters = table(tmp_path, (3, "a", "gone", 1, 1))
    said = letters.answer(Wish("w", Action.LETTERS)).refusal
    assert said.startswith(f"the dead letters in {letters.place} can't be processed: ")
    assert "rows of spout 'gone', which this topology doesn't have" in said
    letters.place.write_text("not a database, but long enough to be read as one: " * 20)
    assert "file is not a database" in letters.answer(Wish("w", Action.LETTERS)).refusal
    letters.place.unlink()
    assert letters.answer(Wish("w", Action.LETTERS)) == LettersRead(Wish("w", Action.LETTERS))
