"""The rows that a page shows of parked transactions and dead letters, read from their files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from attrs import evolve

from coordinators.record.parking import Parked
from coordinators.values.errors import TridentError
from tests.unit.trident_py.engine.threads.test_dead_letters import table
from trident_py.engine.threads.parked_rows import ParkedRows, parked_directory
from trident_py.interfaces.config import TridentConfig
from trident_py.web.left_out import ROWS_MAX, RowsLeftOut


def test_rows_of_a_parked_transaction_have_their_positions_in_the_batch(tmp_path: Path) -> None:
    config = TridentConfig(state_dir=tmp_path)
    files, left_out = ParkedRows("t", "1234", parked_directory("t", config)), RowsLeftOut("t", config)
    stored = files.store("3:0", "numbers", pa.table({"n": range(1_000)}))
    entry = Parked(txid=3, number=2, definition={"numbers": [1]})
    parts = [
        evolve(entry, stored={"numbers": stored.keeping(((7, 8),))}),
        evolve(entry, part=1, stored={"numbers": stored.keeping(((0, 7), (8, 1_000)))}),
    ]
    assert left_out.parked(3, [entry.to_json()]) == {"stored": False, "spouts": []}
    failing, others = left_out.parked(3, [each.to_json() for each in parts])["spouts"]
    assert failing == {"spout": "numbers", "count": 1, "rows": [{"position": 7, "n": 7}]}
    assert (others["count"], len(others["rows"]), others["rows"][7]) == (999, ROWS_MAX, {"position": 8, "n": 8})
    (parked_directory("t", config) / stored.file).unlink()
    with pytest.raises(TridentError, match="is missing"):
        left_out.parked(3, [parts[0].to_json()])


def test_dead_letters_are_shown_by_transaction_and_a_table_that_is_none_is_named(tmp_path: Path) -> None:
    left_out = RowsLeftOut("t", TridentConfig(state_dir=tmp_path))
    assert left_out.letters() == {"count": 0, "letters": []}
    place = table(tmp_path, (4, "a", "s", 1, 2), (3, "b", "s", 5, 1)).place.rename(tmp_path / "t-dead-letters.db")
    found = left_out.letters()
    assert found["count"] == 3
    assert [(each["txid"], each["branch"], each["row"]) for each in found["letters"]] == [
        (3, "b", '{"n": 5}'),
        (4, "a", '{"n": 1}'),
    ]
    place.write_text("not a database, but long enough to be read as one: " * 20)
    with pytest.raises(TridentError, match=r"the dead letters in .* can't be read"):
        left_out.letters()
