"""Files that were corrected in place after a batch of them failed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trident_py.states.sql.everywhere import select
from trident_py.errors import PoisonBatchError, SpoutError, TopologyError
from trident_py.interfaces.config import RetryPolicy, TridentConfig
from trident_py.operations.builtin import Count
from trident_py.spouts.files.files import FileSpout
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.testing import LocalCoordination
from trident_py.topology import TridentTopology


class World:
    """A topology that counts the numbers of a file, in memory but for its state."""

    def __init__(self, path: Path, lines: list[str], bytes_max: int = 1 << 20) -> None:
        self.log, self.database, self.bytes_max = path / "numbers.log", path / "counts.db", bytes_max
        self.coordination = LocalCoordination()
        self.write(lines)

    def write(self, lines: list[str]) -> None:
        self.log.write_text("".join(f"{line}\n" for line in lines))

    def run(self, *accept: str, **settings: Any) -> None:
        topology = TridentTopology("numbers")
        spout = FileSpout(self.log, max_bytes_per_batch=self.bytes_max)
        numbers = topology.new_stream("lines", spout).map(lambda line: (int(line.value),), "n int")
        state = SQLiteState(self.database, table="counts")
        numbers.group_by("n").persistent_aggregate(state, Count(), "count")
        config = TridentConfig(accept=accept, retry=RetryPolicy(attempts=1), max_spout_pending=2, **settings)
        with topology.start(config, coordination=self.coordination) as query:
            query.process_all_available(timeout=60)

    def counts(self) -> list[Any]:
        return list(select(f"sqlite:///{self.database}", "SELECT n, count FROM counts ORDER BY n"))

    def refusal(self, *accept: str) -> str:
        with pytest.raises(TopologyError, match="is not what it was, and was not started") as refused:
            self.run(*accept)
        return str(refused.value)


def accepted(refusal: str) -> str:
    (text,) = re.findall(r"accept=\['(corrected:lines:[0-9a-f]{8})'\]", refusal)
    return str(text)


@pytest.mark.parametrize("line", ["2", "two hundred and two"], ids=["shorter", "still wrong"])
def test_corrected_bytes_are_read_once_the_user_accepts_them_by_name_and_hash(line: str, tmp_path: Path) -> None:
    world = World(tmp_path, ["1", "twenty-two", "3"])
    with pytest.raises(PoisonBatchError):
        world.run()
    world.write(["1", line, "3", "4"])
    refusal = world.refusal()
    assert "the bytes of file" in refusal
    assert "Transaction 1 failed, or came after it, and no output has it" in refusal
    text = accepted(refusal)
    if line == "2":
        world.run(text)
        world.run()
        assert world.counts() == [(1, 1), (2, 1), (3, 1), (4, 1)]
    else:
        with pytest.raises(PoisonBatchError):
            world.run(text)
        world.write(["1", "2", "3"])
        again = accepted(world.refusal(text))
        assert again != text
        world.run(again)
        assert world.counts() == [(1, 1), (2, 1), (3, 1)]


def test_what_was_committed_of_the_file_stays_and_later_batches_of_it_are_defined_anew(tmp_path: Path) -> None:
    world = World(tmp_path, ["1", "2", "bad", "4", "5", "6"], bytes_max=4)
    with pytest.raises(PoisonBatchError):
        world.run()
    assert world.counts() == [(1, 1), (2, 1)]
    world.write(["1", "2", "33333", "34", "4", "5", "6"])
    refusal = world.refusal()
    assert "of the 4 bytes of" in refusal
    world.run(accepted(refusal))
    assert world.counts() == [(n, 1) for n in (1, 2, 4, 5, 6, 34, 33333)]


def test_a_file_with_another_beginning_is_not_taken_for_a_corrected_one(tmp_path: Path) -> None:
    world = World(tmp_path, ["1", "2", "bad", "4"], bytes_max=4)
    with pytest.raises(PoisonBatchError):
        world.run()
    world.write(["9", "2", "3", "4"])
    with pytest.raises(SpoutError, match="it was cut, replaced or removed"):
        world.run()
    assert world.counts() == [(1, 1), (2, 1)]


def test_a_file_that_was_renamed_is_no_corrected_one(tmp_path: Path) -> None:
    world = World(tmp_path, ["1", "bad"])
    with pytest.raises(PoisonBatchError):
        world.run()
    world.log.rename(tmp_path / "numbers.log.1")
    world.write(["7"])
    with pytest.raises(PoisonBatchError):
        world.run()
