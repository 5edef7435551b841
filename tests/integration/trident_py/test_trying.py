"""Other code over the rows of a parked transaction: what it would make of them, before it runs for real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.trident_py.test_parking import PATIENCE_SECONDS, config, select
from tests.topologies import until
from trident_py import FixedBatchSpout, SQLiteState, Sum, TridentTopology
from trident_py.cli import main, rows
from trident_py.testing import LocalCoordination

CODE = """
from trident_py import Count, FixedBatchSpout, SQLiteState, Sum, TridentTopology

topology = TridentTopology("tried")
prices = topology.new_stream("prices", FixedBatchSpout("price string", 2, ("1",))).map({function}, "price double")
prices.persistent_aggregate(SQLiteState("never.db", table="total"), Sum("price"), "total")
prices.persistent_aggregate(SQLiteState("never.db", table="count"), Count(), "n")
"""


OPAQUE = """
class Opaque(FixedBatchSpout):
    gives_again = False

topology ="""

NEW = "lambda row: (float(row.price.replace(',', '.')),)"


def price(row: Any) -> tuple[float]:
    return (float(row.price),)


@pytest.fixture
def parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with new code, beside a topology that has parked a batch."""
    coordination = LocalCoordination()

    @contextmanager
    def existing(_: object) -> Iterator[LocalCoordination]:
        yield coordination

    monkeypatch.setattr(rows, "existing", existing)
    monkeypatch.chdir(tmp_path)
    topology = TridentTopology("tried")
    prices = [(each,) for each in ("1", "2", "3", "4,5")]
    stream = topology.new_stream("prices", FixedBatchSpout("price string", 2, *prices)).map(price, "price double")
    stream.persistent_aggregate(SQLiteState(tmp_path / "t.db", table="total"), Sum("price"), "total")
    settings = config(on_poison="park", state_dir=tmp_path, history=tmp_path / "history.db")
    with topology.start(settings, coordination=coordination) as query:
        query.process_all_available(PATIENCE_SECONDS)
        yield tmp_path
        assert [each.txid for each in query.parked()] == [2]
    assert select(tmp_path / "t.db", "SELECT total FROM total") == [(3.0,)]
    assert not (tmp_path / "never.db").exists(), "no state is opened"


def test_the_changes_of_new_code_are_shown_and_an_error_is_its_exit_code(
    parked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (parked / "old_code.py").write_text(CODE.format(function="lambda row: (float(row.price),)"))
    (parked / "new_code.py").write_text(CODE.format(function=NEW))
    assert main(["try", "tried", "2", "new_code.py", "--state-dir", str(parked)]) == 0
    said = capsys.readouterr().out
    assert "2 rows of spout 'prices'\ntotal: 1 row\n    total=7.5\n" in said
    assert "count: 1 row\n    n=2\n" in said
    assert main(["try", "tried", "2", "old_code.py", "--state-dir", str(parked)]) == 1
    assert "total: ValueError: could not convert string to float: '4,5'" in capsys.readouterr().out


def test_a_committed_transaction_is_emitted_again_and_tried(parked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = '("1",), ("2",), ("3",), ("4,5",)'
    code = CODE.replace('("1",)', rows).format(function="lambda row: (10 * float(row.price),)")
    (parked / "ten.py").write_text(f"{code}prices.on_error()\n")
    words = ["try", "tried", "1", "ten.py", "--state-dir", str(parked)]
    until(lambda: main(words) == 0)  # the history comes a moment after the commit
    said = "2 rows of spout 'prices'\ntotal: 1 row\n    total=30.0\ncount: 1 row\n    n=2\n"
    assert capsys.readouterr().out.endswith(said)
    (parked / "other.py").write_text(code.replace("FixedBatchSpout(", "Opaque(").replace("topology =", OPAQUE, 1))
    assert main([*words[:3], "other.py", *words[4:]]) == 1
    assert "can't emit a batch again after its success" in capsys.readouterr().err
    assert main(["try", "tried", "9", *words[3:]]) == 1
    assert "knows nothing of transaction 9" in capsys.readouterr().err


def test_the_differences_to_other_code_are_shown(parked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (parked / "doubling.py").write_text(CODE.format(function="lambda row: (2 * float(row.price.replace(',', '.')),)"))
    (parked / "single.py").write_text(CODE.format(function=NEW))
    words = ["try", "tried", "2", "doubling.py", "--against", "single.py", "--state-dir", str(parked)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "total: 1 row\n  - total=7.5\n  + total=15.0\n" in said
    assert "count: 1 row\n    the same as before\n" in said
    assert main([*words, "--json"]) == 0
    total, count = json.loads(capsys.readouterr().out)
    assert (total["gone"], total["new"]) == ([{"total": 7.5}], [{"total": 15.0}])
    assert (count["gone"], count["new"]) == ([], [])
