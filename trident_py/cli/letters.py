"""``trident dead-letters NAME list|release``: shows the bad rows of a topology, and lets it process them again."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from coordinators.record.wishes import Action
from coordinators.values.error_text import counted
from trident_py.cli.terminal import cell, json_text
from trident_py.cli.tx import mend
from trident_py.cli.usage import UsageError, config_of
from trident_py.engine.threads.dead_letters import COLUMNS, letters_in
from trident_py.errors import TridentError
from trident_py.streams.dead_letters import dead_letters_place


def run(arguments: Namespace) -> int:
    """Print the last dead letters of a topology, or send the leader the command to process some.

    Raises:
        TridentError: it has no table of them here.
    """
    if arguments.action == "release":
        return _release(arguments)
    if arguments.txids or arguments.all or arguments.branch:
        raise UsageError("trident dead-letters NAME list takes no transaction and no branch; --last N shows more")
    place = dead_letters_place(config_of(arguments).state_dir, arguments.name)
    if not place.is_file():
        raise TridentError(
            f"topology {arguments.name!r} has no dead letters here: there is no file {place}. They are kept if "
            f"on_bad_row is 'quarantine', or on_error() is called and nothing reads its stream; --state-dir is the "
            f"state_dir of the topology",
            topology=arguments.name,
        )
    letters = letters_in(place)
    shown = letters[-arguments.last :]
    if arguments.json:
        print(json_text([{**letter, "row": json.loads(letter["row"])} for letter in shown], indent=2))
    else:
        _print(shown, len(letters) - len(shown))
    return 0


def _release(arguments: Namespace) -> int:
    if bool(arguments.txids) == arguments.all:
        raise UsageError("trident dead-letters NAME release TXID …, or trident dead-letters NAME release --all")
    return mend(arguments, Action.LETTERS, arguments.branch)


def _print(letters: list[dict[str, Any]], hidden: int) -> None:
    table = Table(*(Column(name) for name in COLUMNS), box=None, pad_edge=False)
    for letter in letters:
        error, *_ = str(letter["error"]).splitlines() or [""]
        table.add_row(*(cell(str(each)) for each in {**letter, "error": error}.values()))
    Console(width=None).print(table)
    if hidden:
        print(f"and {counted(hidden, 'earlier dead letter')}; --last N shows more")
