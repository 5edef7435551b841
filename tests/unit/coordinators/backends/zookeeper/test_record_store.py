"""Reading a record while its leader goes on writing it, and wishes from a server that lags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from attrs import define, evolve, field

from coordinators.backends.zookeeper.access import ANONYMOUS
from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore, load
from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.backends.zookeeper.znodes import TopologyPaths, Znode
from coordinators.record.record import CoordinatorRecord, encode
from coordinators.record.store import TopologyIdentity
from coordinators.record.wishes import Action, Hold, Outcome, Standing, Wish
from coordinators.values.canonical import Json
from coordinators.values.cursors import Cursors
from coordinators.values.errors import MetadataError

PATHS = TopologyPaths("/trident/busy")
FILES = 24


def position(upto: int) -> Json:
    return [upto, "x" * 40_000]


@define
class Busy:
    """A session with a server whose record is written once between any two reads, each time about another file."""

    record: CoordinatorRecord = field(
        factory=lambda: CoordinatorRecord(
            epoch=1,
            cursors={"files": Cursors().updated({f"{number:02}": position(0) for number in range(FILES)})},
        )
    )
    hosts: str = "here:1"
    rounds: int = 0
    writes: bool = True
    damaged: str | None = None

    def read(self, *paths: str) -> list[Znode | None]:
        self.rounds += 1
        if self.writes:
            moved = {f"{self.rounds % FILES:02}": position(self.rounds)}
            cursors = {"files": self.record.cursors["files"].updated(moved)}
            self.record = evolve(self.record, seq=self.record.seq + 1, cursors=cursors)
        encoded = encode(self.record)
        nodes = {PATHS.blob(name): Znode(text.encode(), 0) for name, text in encoded.blobs.items()}
        nodes[PATHS.record] = Znode(encoded.head.encode(), self.record.seq)
        if self.damaged is not None:
            name = next(path for path in nodes if self.damaged in path)
            nodes[name] = evolve(nodes[name], data=b"?")
        return [nodes.get(path) for path in paths]

    def load(self) -> CoordinatorRecord:
        stored = load(cast("ZooKeeperSession", self), PATHS)
        assert stored is not None
        assert stored.version == stored.record.seq
        return stored.record


def test_a_record_is_read_while_its_leader_writes_it_faster_than_its_blobs_can_be_read() -> None:
    busy = Busy()
    record = busy.load()
    assert busy.rounds <= 4
    assert len(dict(record.cursors["files"].items())) == FILES
    assert busy.record.seq - record.seq <= 1


def test_a_record_that_nobody_writes_is_read_in_two_rounds() -> None:
    busy = Busy(writes=False)
    assert busy.load() == busy.record
    assert busy.rounds == 2


def test_a_damaged_blob_is_named_and_not_looked_for_without_end() -> None:
    busy = Busy(writes=False, damaged="cursors.files")
    with pytest.raises(MetadataError, match=r"'cursors.files.*' is damaged"):
        busy.load()
    assert busy.rounds <= 3


class Lagging:
    """A session with a server that goes on showing a wish after the write that removed it."""

    access, hosts = ANONYMOUS, "here:1"
    wish = Wish("a", Action.PAUSE)

    def retry_within_lease(self, operation: Callable[[], Any]) -> Any:
        return operation()

    def read(self, *paths: str) -> list[Znode | None]:
        return [Znode(self.wish.text.encode(), 0) if path == PATHS.wish(self.wish.id) else None for path in paths]

    def children(self, _path: str) -> list[str]:
        return []

    def watch_children(self, _path: str, _changed: object) -> list[str]:
        return [self.wish.id]

    def commit(self, _steps: object) -> None:
        """It is carried out."""


def test_a_wish_that_was_carried_out_is_not_told_again_by_a_server_that_lags() -> None:
    session = cast("ZooKeeperSession", Lagging())
    store = ZooKeeperRecordStore(TopologyIdentity("busy", "uuid", 1), 1, epoch_version=0, session=session, paths=PATHS)
    assert list(store.wishes(lambda _: None)) == [Lagging.wish]
    store.write(CoordinatorRecord(1, outcomes=(Outcome("a", Action.PAUSE, Standing(Hold.PAUSED), 0),)))
    assert list(store.wishes(lambda _: None)) == []
