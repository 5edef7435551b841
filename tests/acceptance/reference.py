"""Write the generated tables of docs/reference: ``python -m tests.acceptance.reference``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from trident_py.cli.app import _parser
from trident_py.telemetry.instruments import INSTRUMENTS

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
BEGIN, END = "<!-- generated: python -m tests.acceptance.reference -->", "<!-- end of the generated part -->"


def command_line() -> str:
    """Return a section for each command, with its arguments and options."""
    parser = _parser()
    (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return "\n\n".join(_section(name, command) for name, command in commands.choices.items())


def _section(name: str, command: argparse.ArgumentParser) -> str:
    rows = [f"| {_spelled(action)} | {_cell(action.help or '')} |" for action in _documented(command)]
    description = (command.description or "").strip()
    lines = [f"## trident {name}", "", f"{description[:1].upper()}{description[1:]}.", ""]
    return "\n".join([*lines, "| argument | meaning |", "|---|---|", *rows])


def _documented(command: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    yield from (each for each in command._actions if not isinstance(each, argparse._HelpAction))


def _spelled(action: argparse.Action) -> str:
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    if not action.option_strings:
        return f"`{_cell(str(value))}`"
    return ", ".join(f"`{_cell(f'{option} {value}'.strip())}`" for option in action.option_strings)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def metrics() -> str:
    """Return the table of all instruments."""
    rows = [
        f"| `{each.name}` | {each.kind.value} | `{each.unit}` | "
        f"{', '.join(f'`{name}`' for name in each.attributes)} | {_cell(each.description)} |"
        for each in INSTRUMENTS
    ]
    return "\n".join(["| name | kind | unit | attributes | meaning |", "|---|---|---|---|---|", *rows])


GENERATED = {"command-line.md": command_line, "metrics.md": metrics}
"""The pages, and what their generated part is made by."""


def page(name: str) -> str:
    """Return the page with its generated part as it is now."""
    text = (REFERENCE / name).read_text(encoding="utf-8")
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{GENERATED[name]()}\n\n{END}", text, flags=re.DOTALL)


if __name__ == "__main__":
    for name in GENERATED:
        (REFERENCE / name).write_text(page(name), encoding="utf-8")
