"""How topologies are listed on terminals of several widths."""

from __future__ import annotations

import pytest

from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import TopologyIdentity
from coordinators.status.candidate import Leader
from coordinators.status.description import TopologyDescription
from trident_py.cli.status import Readable, Unreadable, _print_all

NAME = "access-log-of-the-shop-in-the-north-of-the-country"


def topology() -> Readable:
    return Readable(
        TopologyDescription(
            identity=TopologyIdentity(name=NAME, uuid="u", incarnation=1),
            epoch=3,
            leader=Leader("vm", 42, "2026-11-23T05:00:00+00:00"),
            record=CoordinatorRecord(epoch=3, current_txid=7, attempt_ids={7: 2}),
        )
    )


@pytest.mark.parametrize("columns", [80, 60])
def test_a_table_never_cuts_a_name(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    _print_all([topology()], "here")
    assert NAME in capsys.readouterr().out


def test_a_narrow_terminal_has_a_line_for_each_fact(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _print_all([topology(), Unreadable("broken", "no JSON")], "here")
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
