"""How topologies are listed on terminals of several widths."""

from __future__ import annotations

from typing import Any

import pytest

from trident_py.cli.status import _print_all

NAME = "access-log-of-the-shop-in-the-north-of-the-country"


def facts() -> dict[str, Any]:
    leader = {"host": "vm", "pid": 42, "since": "now"}
    return {
        "name": NAME,
        "leader": leader,
        "epoch": 3,
        "committed": 6,
        "attempt_ids": {"7": 2},
        "failing": [],
        "standing": {"hold": "nothing"},
        "wishes": [],
    }


@pytest.mark.parametrize("columns", [80, 60])
def test_a_table_never_cuts_a_name(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    _print_all([facts()], "here")
    assert NAME in capsys.readouterr().out


def test_a_narrow_terminal_has_a_line_for_each_fact(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _print_all([facts(), {"name": "broken", "error": "no JSON"}], "here")
    assert capsys.readouterr().out.splitlines() == [
        NAME,
        "  state: running",
        "  leader: pid 42 on vm",
        "  epoch: 3",
        "  committed: 6",
        "  last attempts: 7:2",
        "broken",
        "  state: unreadable",
        "  last attempts: no JSON",
    ]
