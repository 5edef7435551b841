"""The search for new files: what a look lists, what came late, what is too old, and what stops by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from coordinators.values.canonical import json_copy
from tests.unit.trident_py.spouts.files.buckets import Bucket
from trident_py import SpoutError
from trident_py.spouts.files.inventory import Inventory
from trident_py.spouts.files.search import AnyOrder, NameOrder, Search
from trident_py.spouts.files.whole import WholeFileCoordinator
from trident_py.spouts.spool.files import SpoolDirectory

HOUR_SECONDS = 3600.0


@define
class Player:
    """Defines batch after batch of objects in memory, at a time of the test's own."""

    directory: Path
    search: type[Search] = NameOrder
    options: dict[str, Any] = field(factory=dict)
    objects: dict[str, float] = field(factory=dict)
    listed: list[str] = field(factory=list)
    today: float = 1e6
    txid: int = 0
    cursors: Any = field(factory=dict)
    coordinator: WholeFileCoordinator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        usual = {"relist": HOUR_SECONDS, "reads_late": False} if self.search is NameOrder else {"settled": 0.0}
        made: Any = self.search
        self.coordinator = WholeFileCoordinator(
            search=made(place=Bucket(self.objects, self.listed.append), **{**usual, **self.options}),
            inventory=Inventory(where="spout 'in'", files=SpoolDirectory(self.directory), epoch=1),
            max_bytes=100,
            today=lambda: self.today,
        )
        cursors: Any = json_copy(self.cursors)
        self.coordinator.restore(cursors)

    def put(self, *names: str, age: float = 0) -> None:
        self.objects.update(dict.fromkeys(names, self.today - age))

    def batch(self) -> list[str]:
        """The names in the next batch; empty: none is ready, or it leaves all out."""
        if not self.coordinator.is_ready(self.txid + 1):
            return []
        self.txid += 1
        metadata: Any = self.coordinator.initialize_transaction(self.txid, None, None)
        self.cursors |= json_copy(dict(self.coordinator.moved(metadata)))
        self.coordinator.success(self.txid)
        return [path for path, *_ in metadata["files"]]


@pytest.fixture
def player(tmp_path: Path) -> Player:
    return Player(tmp_path)


def test_a_look_lists_what_comes_after_the_greatest_name_also_in_a_new_process(player: Player) -> None:
    player.put("a", "b")
    assert player.batch() == ["a", "b"]
    player.put("c")
    assert player.batch() == ["c"]
    player.restart()
    assert player.batch() == []
    assert player.listed == ["list after ''", "list after 'b'", "list after 'c'"]


def test_a_full_look_finds_what_came_late_and_is_not_misled_by_deleted_objects(player: Player) -> None:
    player.put("b", "d", "f")
    assert player.batch() == ["b", "d", "f"]
    del player.objects["d"]
    player.today += HOUR_SECONDS
    assert player.batch() == []
    player.put("e")
    assert player.batch() == []  # no full look is due
    player.today += HOUR_SECONDS
    with pytest.raises(SpoutError, match=r"spout 'in': 'e' came after 'f', which has a greater name.*late='read'"):
        player.batch()


def test_late_objects_are_read_once(player: Player) -> None:
    player.options = {"reads_late": True}
    player.restart()
    player.put("b", "d")
    assert player.batch() == ["b", "d"]
    for late in ("c", "a"):
        player.put(late)
        player.today += HOUR_SECONDS
        assert player.batch() == [late]
        player.restart()
    player.today += HOUR_SECONDS
    player.put("e")
    assert player.batch() == ["e"]
    assert player.batch() == []


def test_a_full_look_is_due_after_its_time_whatever_restarts_there_are(player: Player) -> None:
    player.put("b")
    assert player.batch() == ["b"]
    player.put("a")
    for _ in range(3):
        player.today += HOUR_SECONDS / 4
        player.restart()
        assert player.batch() == []
    player.today += HOUR_SECONDS / 4
    player.restart()
    with pytest.raises(SpoutError, match="'a' came after 'b'"):
        player.batch()


@pytest.mark.parametrize("search", [AnyOrder, NameOrder])
def test_files_that_are_too_old_at_first_sight_are_left_out_for_ever_and_counted(
    tmp_path: Path, search: type[Search]
) -> None:
    player = Player(tmp_path, search, {"max_age": 60.0})
    player.put("a", "c", age=61)
    player.put("b", age=59)
    assert player.batch() == ["b"]
    assert player.cursors["left_out"] == 2
    player.options = {}
    player.restart()
    player.put("d")
    assert player.batch() == ["d"]
    player.today += HOUR_SECONDS
    assert player.batch() == []
    assert player.cursors["left_out"] == 2


def test_only_old_files_are_left_out_by_a_batch_of_no_files(player: Player) -> None:
    player.options = {"max_age": 60.0}
    player.restart()
    player.put("a", age=61)
    assert player.batch() == []
    assert (player.cursors["left_out"], player.cursors["greatest"]) == (1, "a")
    assert not player.coordinator.is_ready(2)


def test_a_long_look_continues_and_the_age_is_that_at_its_beginning(
    player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.spouts.files.search.LOOK_FILES_MAX", 2)
    player.options = {"max_age": 60.0}
    player.restart()
    player.put("a", "b", "c", "d", "e", age=59)
    assert player.batch() == ["a", "b"]
    player.today += 2
    assert [player.batch(), player.batch(), player.batch()] == [["c", "d"], ["e"], []]
    assert player.cursors["left_out"] == 0


def test_an_object_that_was_replaced_stops_at_the_next_full_look(player: Player) -> None:
    player.put("a", "b")
    player.batch()
    player.objects["a"] = 0  # written again with the same content
    player.today += HOUR_SECONDS
    assert player.batch() == []
    player.cursors["shards"] = []
    inventory = player.coordinator.inventory
    inventory.shards = ()
    inventory.add(9, {"a": "2 other", "b": "1 tag of b"})
    player.today += HOUR_SECONDS
    with pytest.raises(SpoutError, match="file 'a' was changed after a batch was defined with its 2 bytes"):
        player.batch()


def test_a_store_that_lists_in_another_order_stops_by_name(tmp_path: Path) -> None:
    player = Player(tmp_path)
    player.put("a", "b")

    @define
    class Unordered(Bucket):
        def find(self, after: str = "") -> Any:
            return reversed([*super().find(after)])

    player.coordinator.search.place = Unordered(player.objects)
    with pytest.raises(SpoutError, match="the store lists 'a' after 'b', so not in the order of names; to fix this"):
        player.batch()


def test_an_order_can_be_left_but_not_be_taken_up_later(tmp_path: Path) -> None:
    player = Player(tmp_path)
    player.put("b")
    assert player.batch() == ["b"]
    player.search, player.options = AnyOrder, {}
    player.restart()
    player.put("a")
    assert player.batch() == ["a"]
    player.search = NameOrder
    player.restart()
    with pytest.raises(SpoutError, match=r"its files were read in any order.*leave out order='name'"):
        player.batch()
