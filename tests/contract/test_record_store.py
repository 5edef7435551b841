"""What every record store promises, held against the in-memory one and the real ZooKeeper alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, Protocol

import pytest
from attrs import define, evolve, field

from coordinators.backends.zookeeper.leadership import lead
from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.backends.zookeeper.znodes import ANY_VERSION, Create, Put, Remove, TopologyPaths
from coordinators.record.record import CommitIntent, CoordinatorRecord, EncodedRecord
from coordinators.record.store import InMemoryCoordination, RecordStore
from coordinators.record.wishes import Action, Hold, Outcome, Rate, Standing, Wish
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.cursors import Cursors
from coordinators.values.errors import FencedError, MetadataError


class Topology(Protocol):
    """One topology in some store, as its operators and its leaders see it."""

    def acquire(self) -> RecordStore:
        """Lead it, although the leader before this one has noticed nothing yet."""
        ...

    def replace_head(self, text: str) -> None:
        """Put this where the head of the record is."""
        ...

    def wish(self, wish: Wish) -> None:
        """Leave this for whoever leads."""
        ...


@define
class InMemoryTopology:
    coordination: InMemoryCoordination = field(factory=InMemoryCoordination)

    def acquire(self) -> RecordStore:
        return self.coordination.acquire()

    def replace_head(self, text: str) -> None:
        stored = self.coordination.stored
        assert stored is not None
        self.coordination.stored = EncodedRecord(text, stored.blobs)

    def wish(self, wish: Wish) -> None:
        self.coordination.wish(wish)


@define
class ZooKeeperTopology:
    hosts: str
    admin: ZooKeeperSession
    paths: TopologyPaths
    stores: list[RecordStore] = field(factory=list)

    def acquire(self) -> RecordStore:
        # what the servers do when a leader's session expires; the leader itself is not told
        if self.admin.retry_within_lease(lambda: self.admin.read(self.paths.leader)) != [None]:
            self.admin.retry_within_lease(lambda: self.admin.commit([Remove(self.paths.leader, ANY_VERSION)]))
        store = lead("wordcount", hosts=self.hosts, session_timeout=30.0)
        self.stores.append(store)
        return store

    def replace_head(self, text: str) -> None:
        self.admin.retry_within_lease(lambda: self.admin.commit([Put(self.paths.record, text.encode(), ANY_VERSION)]))

    def wish(self, wish: Wish) -> None:
        self.admin.retry_within_lease(lambda: self.admin.ensure_path(self.paths.wishes))
        self.admin.retry_within_lease(lambda: self.admin.commit([Create(self.paths.wish(wish.id), wish.text.encode())]))


@pytest.fixture(params=["in memory", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def topology(request: pytest.FixtureRequest) -> Iterator[Topology]:
    if request.param == "in memory":
        yield InMemoryTopology()
        return
    hosts = request.getfixturevalue("zookeeper")
    admin = ZooKeeperSession.connect(hosts, who="the tests", session_timeout=30.0)
    real = ZooKeeperTopology(hosts, admin, TopologyPaths(f"{admin.chroot}/trident/wordcount"))
    yield real
    for store in real.stores:
        store.close()
    admin.close()


MANY_CURSORS = Cursors().updated({f"logs/{number:05}.txt": [number, "x" * 20] for number in range(4_000)})
FULL = CoordinatorRecord(
    epoch=1,
    seq=7,
    current_txid=5,
    attempt_ids={4: 0, 5: 3, 6: 0},
    metadata={
        4: {"lines": {"extents": [["a.txt", 0, 10]]}, "a/spout with any name: ü%": "m" * 5_000},
        5: {"lines": None},
        6: {"lines": [1, 2.5, True, "ü\u2028", {"big": 2**60}]},
    },
    committing=(CommitIntent(TransactionAttempt(5, 3), "0a1b2c3d"),),
    states={"counts": 1, "late": 4},
    cursors={"lines": MANY_CURSORS, "words": Cursors()},
    success_upto=3,
)


def test_a_new_topology_has_no_record(topology: Topology) -> None:
    assert topology.acquire().read() is None


@pytest.mark.parametrize("record", [CoordinatorRecord(1), FULL], ids=["empty", "full"])
def test_a_record_comes_back_equal_in_the_same_leadership_and_in_the_next(
    topology: Topology, record: CoordinatorRecord
) -> None:
    store = topology.acquire()
    store.write(record)
    assert store.read() == record
    assert topology.acquire().read() == record


def test_metadata_of_hundreds_of_kilobytes_come_back_equal(topology: Topology) -> None:
    store = topology.acquire()
    record = CoordinatorRecord(1, metadata={1: {"lines": ["x" * 1_000] * 700}})
    store.write(record)
    assert store.read() == record


def test_a_record_of_more_than_one_write_replaces_another_whole(topology: Topology) -> None:
    store = topology.acquire()
    cursors = Cursors().updated({f"logs/{number:06}.txt": [number, "x" * 40] for number in range(40_000)})
    large = evolve(FULL, cursors={"lines": cursors}, metadata={txid: {"lines": "x" * 500_000} for txid in (4, 5, 6)})
    for record in (FULL, large, evolve(FULL, seq=9), evolve(large, seq=10)):
        store.write(record)
        assert store.read() == record
    assert topology.acquire().read() == evolve(large, seq=10)


def test_each_record_replaces_the_one_before_with_all_of_its_parts(topology: Topology) -> None:
    store = topology.acquire()
    moved = {"lines": MANY_CURSORS.updated({"logs/00000.txt": 1, "logs/03999.txt": 2})}
    for record in [
        FULL,
        evolve(FULL, seq=8, cursors=moved),
        evolve(FULL, seq=9, cursors=moved, metadata={}),
        CoordinatorRecord(1, seq=10),
        evolve(FULL, seq=11),
    ]:
        store.write(record)
        assert store.read() == record
    assert topology.acquire().read() == evolve(FULL, seq=11)


def test_a_later_leadership_goes_on_from_the_record_it_finds(topology: Topology) -> None:
    topology.acquire().write(FULL)
    second = topology.acquire()
    second.write(evolve(FULL, epoch=2, seq=8, metadata={}))
    assert second.read() == evolve(FULL, epoch=2, seq=8, metadata={})


def test_what_an_older_leader_writes_never_lands(topology: Topology) -> None:
    older = topology.acquire()
    older.write(CoordinatorRecord(1, seq=1))
    newer = topology.acquire()
    for _ in range(3):
        with pytest.raises(FencedError, match="epoch 1 is over"):
            older.write(CoordinatorRecord(1, seq=2))
    newer.write(CoordinatorRecord(2, seq=2))
    with pytest.raises(FencedError):
        older.write(CoordinatorRecord(1, seq=3))
    assert newer.read() == CoordinatorRecord(2, seq=2)


def test_the_first_write_of_an_older_leader_is_refused_too(topology: Topology) -> None:
    older = topology.acquire()
    newer = topology.acquire()
    with pytest.raises(FencedError):
        older.write(CoordinatorRecord(1))
    assert newer.read() is None


def test_a_fenced_leader_knows_it_from_then_on(topology: Topology) -> None:
    older = topology.acquire()
    topology.acquire()
    refusals: list[Callable[[], None]] = [
        lambda: older.write(CoordinatorRecord(1)),
        older.ensure_leading,
        older.heartbeat,
    ]
    for refused in refusals:
        with pytest.raises(FencedError):
            refused()


def test_epochs_grow_by_one_and_the_identity_stays(topology: Topology) -> None:
    first, second, third = topology.acquire(), topology.acquire(), topology.acquire()
    assert [first.epoch, second.epoch, third.epoch] == [1, 2, 3]
    assert first.identity == second.identity == third.identity
    assert first.identity.incarnation == 1


def test_each_write_is_one_round(topology: Topology) -> None:
    store = topology.acquire()
    counts = [store.writes]
    for seq in range(3):
        store.write(evolve(FULL, seq=seq))
        store.heartbeat()
        store.ensure_leading()
        counts.append(store.writes)
    assert counts == [0, 1, 2, 3]


def test_what_is_not_json_is_refused_and_nothing_is_written(topology: Topology) -> None:
    store = topology.acquire()
    store.write(CoordinatorRecord(1, seq=1))
    metadata: Any = {1: {"lines": {1, 2}}}
    with pytest.raises(MetadataError, match=r"\{1, 2\} \(set\)"):
        store.write(CoordinatorRecord(1, seq=2, metadata=metadata))
    assert store.read() == CoordinatorRecord(1, seq=1)


@pytest.mark.parametrize("head", ["", "{}", "null", '{"version":1,"epoch":1}', "\x00\ufffd"])
def test_a_record_that_cannot_be_read_is_an_error_with_a_way_out(topology: Topology, head: str) -> None:
    topology.acquire().write(FULL)
    topology.replace_head(head)
    with pytest.raises(MetadataError, match=r"(?s)cannot be read.*trident reset"):
        topology.acquire().read()


def test_wishes_are_told_in_the_order_in_which_they_came(topology: Topology) -> None:
    store = topology.acquire()
    left = [Wish("b", Action.PAUSE), Wish("c", Action.RATE, Rate(pending=2)), Wish("a", Action.RESUME)]
    for wish in left:
        topology.wish(wish)
    assert list(store.wishes(lambda _: None)) == left
    assert list(topology.acquire().wishes(lambda _: None)) == left


def test_the_leader_is_told_once_when_there_is_another_wish(topology: Topology) -> None:
    store, told = topology.acquire(), SimpleQueue[object]()
    store.wishes(told.put)
    topology.wish(Wish("a", Action.PAUSE))
    told.get(timeout=60)
    topology.wish(Wish("b", Action.RESUME))
    assert [wish.id for wish in store.wishes(told.put)] == ["a", "b"]
    assert told.empty()


def test_the_write_that_stores_an_outcome_removes_its_wish(topology: Topology) -> None:
    store = topology.acquire()
    for wish in ("a", "b"):
        topology.wish(Wish(wish, Action.PAUSE))
    outcome = Outcome("a", Action.PAUSE, Standing(Hold.PAUSED), 2)
    record = CoordinatorRecord(1, seq=1, standing=outcome.standing, outcomes=(outcome,))
    store.write(record)
    store.write(evolve(record, seq=2))
    assert [wish.id for wish in store.wishes(lambda _: None)] == ["b"]
    assert store.read() == evolve(record, seq=2)


def test_an_older_leader_carries_no_wish_out(topology: Topology) -> None:
    older = topology.acquire()
    older.write(CoordinatorRecord(1))
    topology.wish(Wish("a", Action.PAUSE))
    newer = topology.acquire()
    with pytest.raises(FencedError):
        older.write(CoordinatorRecord(1, seq=1, outcomes=(Outcome("a", Action.PAUSE, Standing(Hold.PAUSED), 0),)))
    assert [wish.id for wish in newer.wishes(lambda _: None)] == ["a"]
    assert newer.read() == CoordinatorRecord(1)


def test_a_wish_that_this_release_does_not_know_is_told_all_the_same(topology: Topology) -> None:
    topology.wish(Wish("a", None))
    assert list(topology.acquire().wishes(lambda _: None)) == [Wish("a", None)]


def test_closing_is_the_end_of_it_and_may_be_repeated(topology: Topology) -> None:
    store = topology.acquire()
    store.write(CoordinatorRecord(1))
    store.close()
    store.close()
    assert topology.acquire().read() == CoordinatorRecord(1)
