"""``trident dead-letters NAME list``: shows the bad rows in the table of a topology."""

from __future__ import annotations

import json
import sqlite3
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from coordinators.values.error_text import counted
from trident_py.cli.terminal import cell, json_text
from trident_py.cli.usage import config_of
from trident_py.errors import TridentError
from trident_py.streams.dead_letters import dead_letters_place

COLUMNS = ("txid", "branch", "spout", "operation", "error", "row", "count")


def run(arguments: Namespace) -> int:
    """Print the last dead letters of a topology.

    Raises:
        TridentError: it has no table of them here.
    """
    place = dead_letters_place(config_of(arguments).state_dir, arguments.name)
    if not place.is_file():
        raise TridentError(
            f"topology {arguments.name!r} has no dead letters here: there is no file {place}. They are kept if "
            f"on_bad_row is 'quarantine', or on_error() is called and nothing reads its stream; --state-dir is the "
            f"state_dir of the topology",
            topology=arguments.name,
        )
    letters = sorted(_letters(place), key=lambda letter: (letter["txid"], letter["branch"], letter["row"]))
    shown = letters[-arguments.last :]
    if arguments.json:
        print(json_text([{**letter, "row": json.loads(letter["row"])} for letter in shown], indent=2))
    else:
        _print(shown, len(letters) - len(shown))
    return 0


def _letters(place: Path) -> Iterator[dict[str, Any]]:
    with closing(sqlite3.connect(f"{place.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_*'")
        for (table,) in tables.fetchall():
            rows = connection.execute(f'SELECT {", ".join(COLUMNS)} FROM "{table}"')  # noqa: S608 - names of ours
            yield from (dict(zip(COLUMNS, row, strict=True)) for row in rows)


def _print(letters: list[dict[str, Any]], hidden: int) -> None:
    table = Table(*(Column(name) for name in COLUMNS), box=None, pad_edge=False)
    for letter in letters:
        error, *_ = str(letter["error"]).splitlines() or [""]
        table.add_row(*(cell(str(each)) for each in {**letter, "error": error}.values()))
    Console(width=None).print(table)
    if hidden:
        print(f"and {counted(hidden, 'earlier dead letter')}; --last N shows more")
