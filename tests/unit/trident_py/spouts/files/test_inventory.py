"""The inventory: few shards with all entries, and what stops by name if one is missing or damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinators.values.canonical import Json, json_copy
from trident_py import FailedException, SpoutError
from trident_py.spouts.files.inventory import SHARD_BYTES_MAX, Inventory, Shard, merged_shards
from trident_py.spouts.spool.files import SpoolDirectory


def inventory(directory: Path, epoch: int = 1, stored: Json = None) -> Inventory:
    found = Inventory(where="spout 'lines'", files=SpoolDirectory(directory), epoch=epoch)
    found.restore(stored or [])
    return found


def entries(found: Inventory) -> dict[str, str]:
    return {path: mark for each in found.entries() for path, mark in each.items()}


def test_a_later_leader_reads_all_entries_from_few_shards(tmp_path: Path) -> None:
    first = inventory(tmp_path)
    wanted = {f"é {number}": f"{number} tag" for number in range(200)}
    for txid, (path, mark) in enumerate(wanted.items(), 1):
        first.add(txid, {path: mark})
        first.succeed(txid)
    assert len(first.shards) < 9
    assert sorted(each.name for each in first.shards) == SpoolDirectory(tmp_path).names()
    assert [*entries(inventory(tmp_path, 2, json_copy(first.stored))).items()] == [*wanted.items()]


def test_shards_of_any_sizes_stay_few_and_are_written_a_few_times() -> None:
    shards, written, total = list[Shard](), 0, 0
    for number in range(5000):
        size = 1 + number * 7919 % 50_000
        total += size
        kept = len(shards) - merged_shards(shards, size)
        new = size + sum(each.size for each in shards[kept:])
        written += new
        shards[kept:] = [Shard("", new)]
        assert len(shards) <= 25 + 3 * total / SHARD_BYTES_MAX
        assert new <= SHARD_BYTES_MAX
    assert written < 15 * total


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"a":"1 other"}'])
def test_a_damaged_shard_stops_by_name(tmp_path: Path, damage: bytes) -> None:
    first = inventory(tmp_path)
    first.add(1, {"a": "1 tag"})
    (tmp_path / first.shards[0].name).write_bytes(damage)
    with pytest.raises(SpoutError, match=f"spout 'lines': '{first.shards[0].name}' in .* was damaged; to fix this"):
        entries(first)
    with pytest.raises(SpoutError, match="was damaged"):
        first.add(2, {"b": "1 tag"})


def test_a_missing_shard_stops_by_name_also_in_a_standby(tmp_path: Path) -> None:
    first = inventory(tmp_path / "here")
    first.add(1, {"a": "1 tag"})
    first.check()
    elsewhere = inventory(tmp_path / "elsewhere", 2, first.stored)
    for look in (elsewhere.check, lambda: entries(elsewhere)):
        with pytest.raises(SpoutError, match=r"elsewhere' lacks|elsewhere lacks .*give FileSpout a directory that all"):
            look()


def test_another_form_in_the_record_is_refused(tmp_path: Path) -> None:
    stored: Any
    for stored in (["a"], [["a", "b"]], {"a": 1}, 5):
        with pytest.raises(SpoutError, match="which this version cannot read; to fix this: `trident reset`"):
            inventory(tmp_path, 1, stored)


def test_a_place_that_can_not_be_used_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    found = inventory(tmp_path / "file")
    with pytest.raises(FailedException, match="can't be written"):
        found.add(1, {"a": "1 tag"})
    assert not found.shards
    found.restore([["a-0000000001-b", 3]])
    with pytest.raises(FailedException, match="can't be read"):
        entries(found)


def test_files_of_earlier_leaders_go_and_those_of_other_inventories_stay(tmp_path: Path) -> None:
    old = inventory(tmp_path, 1)
    old.add(1, {"a": "1 tag"})
    others = [f"{old.shards[0].owner}-0000000001-orphan", "other-0000000001-orphan"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    second = inventory(tmp_path, 2, old.stored)
    second.add(2, {"b": "1 tag"})
    assert len(SpoolDirectory(tmp_path).names()) == 4
    second.succeed(2)
    assert SpoolDirectory(tmp_path).names() == sorted([second.shards[0].name, others[1]])
