"""Which batches are defined on a cluster that holds what a test says."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import define, field
from confluent_kafka import KafkaError, KafkaException

from coordinators.values.canonical import Json
from trident_py.errors import FailedException, SpoutError
from trident_py.spouts.kafka.cluster import Cluster, Look, Topic, Topics
from trident_py.spouts.kafka.coordinator import KafkaCoordinator, Limits, Start
from trident_py.spouts.kafka.ranges import OffsetRange, Partition

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STARTS: tuple[Start, ...] = ("earliest", "latest", "committed", NOON, {("t", 0): 7})


@define(kw_only=True)
class ClusterOfATest(Cluster):
    """Partitions from a first offset up to a last stable one.

    Attributes:
        held: both, by partition.
        at_noon: the offset of the first record from then on, where there is one.
        group: what the group of the options has committed.
        generation: of all topics: they have other ids where it is another one.
        grows: how many records come to each partition whenever somebody asks for its end.
    """

    options: Mapping[str, Any] = field(factory=dict)
    held: dict[Partition, tuple[int, int]]
    at_noon: dict[Partition, int] = field(factory=dict)
    group: dict[Partition, int] = field(factory=dict)
    grows: int = 0
    generation: str = ""

    def look(self, wanted: Topics, expected: Collection[Partition]) -> Look:
        topics = self.described({name for name, _ in self.held})
        found = [(topic.name, number) for topic in topics.values() for number in topic.partitions]
        return Look(topics, self.beginnings(found), self.ends(found))

    def described(self, names: Collection[str]) -> dict[str, Topic]:
        return {
            name: Topic(name, f"id{self.generation} of {name}", tuple(n for topic, n in self.held if topic == name))
            for name in names
            if any(topic == name for topic, _ in self.held)
        }

    def compacted(self, topics: Collection[str]) -> list[str]:
        return []

    def beginnings(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {each: self.held[each][0] for each in partitions}

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        for each in partitions:
            self.add(each, self.grows)
        return {each: self.held[each][1] for each in partitions}

    def at(self, moment: datetime, partitions: Collection[Partition]) -> dict[Partition, int]:
        assert moment == NOON
        return {each: self.at_noon.get(each, self.held[each][1]) for each in partitions}

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {each: self.group[each] for each in partitions if each in self.group}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        self.group.update(offsets)

    def add(self, partition: Partition, records: int) -> None:
        first, end = self.held.get(partition, (0, 0))
        self.held[partition] = first, end + records


@define
class Life:
    """A topology's spout from its first start on; `again` is a restart, or another program of the same name."""

    cluster: ClusterOfATest
    start: Start = "earliest"
    cursors: dict[str, Json] = field(factory=dict)
    txid: int = 0
    coordinator: KafkaCoordinator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.again(self.start)

    def again(self, start: Start) -> None:
        self.coordinator = KafkaCoordinator(
            name="records",
            cluster=self.cluster,
            topics=re.compile(".*"),
            start=start,
            is_exact=True,
            limits=Limits(records=1_000, bytes=1_000_000),
            commits=True,
            mean_bytes=lambda _: 1.0,
        )
        self.coordinator.restore(json.loads(json.dumps(self.cursors)))

    def reset(self, start: Start) -> None:
        """`trident reset`: what was stored is forgotten."""
        self.cursors, self.txid = {}, 0
        self.again(start)

    def batch(self) -> list[tuple[str, int, int, int]] | None:
        """The next one that is defined; None: nothing is there."""
        if not self.coordinator.is_ready(self.txid + 1):
            return None
        self.txid += 1
        metadata = self.coordinator.initialize_transaction(self.txid, None, None)
        self.cursors |= self.coordinator.moved(metadata)
        return [(each["topic"], each["partition"], each["from"], each["to"]) for each in metadata]


def hundred(**more: Any) -> ClusterOfATest:
    """One partition of a hundred records."""
    return ClusterOfATest(held={("t", 0): (0, 100)}, **more)


def test_a_new_topology_begins_at_the_first_record() -> None:
    assert Life(hundred()).batch() == [("t", 0, 0, 100)]


def test_a_parked_batch_is_expiring_once_the_oldest_records_are_its_neighbours() -> None:
    life = Life(ClusterOfATest(held={("t", 0): (0, 100), ("t", 1): (50, 100)}))
    life.batch()
    near, far = ([OffsetRange("t", number, 55, 60, "id of t").stored] for number in (1, 0))
    assert (
        life.coordinator.expiring(near)
        == "t/1 has deleted the records up to offset 50 by now, and the batch begins at 55"
    )
    assert life.coordinator.expiring(far) == "", "nothing was ever deleted"
    life.cluster.held["t", 1] = 50, 1_000
    life.batch()
    assert life.coordinator.expiring([OffsetRange("t", 1, 900, 910, "id of t").stored]) == ""


def test_at_the_latest_a_new_topology_stores_the_end_and_reads_nothing_before_it() -> None:
    life = Life(hundred(), "latest")
    assert life.batch() == [("t", 0, 100, 100)]
    life.cluster.add(("t", 0), 10)
    assert life.batch() == [("t", 0, 100, 110)]


def test_at_the_latest_a_topic_that_appears_where_there_was_none_is_read_from_its_first_record() -> None:
    life = Life(ClusterOfATest(held={}), "latest")
    assert life.batch() is None
    life.cluster.add(("t", 0), 10)
    assert life.batch() == [("t", 0, 0, 10)]


def test_a_new_topology_begins_at_a_time_and_at_the_end_where_no_record_is_that_late() -> None:
    cluster = ClusterOfATest(held={("t", 0): (0, 100), ("t", 1): (0, 5)}, at_noon={("t", 0): 2})
    assert Life(cluster, NOON).batch() == [("t", 0, 2, 100), ("t", 1, 5, 5)]


@pytest.mark.parametrize("start", STARTS)
def test_whatever_start_says_a_topology_that_has_read_goes_on_where_it_was(start: Start) -> None:
    life = Life(ClusterOfATest(held={("t", 0): (0, 50)}, at_noon={("t", 0): 2}))
    life.batch()
    life.cluster.add(("t", 0), 50)
    life.again(start)
    assert life.batch() == [("t", 0, 50, 100)]


@pytest.mark.parametrize(
    ("start", "begins"), [("earliest", 0), ("latest", 100), (NOON, 2), ({("t", 0): 7}, 7), ("committed", 100)]
)
def test_after_a_reset_start_says_where_it_begins(start: Start, begins: int) -> None:
    life = Life(hundred(at_noon={("t", 0): 2}))
    life.batch()
    life.coordinator.success(1)
    life.reset(start)
    assert life.batch() == [("t", 0, begins, 100)]


def test_there_is_no_batch_while_there_is_nothing_and_then_the_new_records_only() -> None:
    life = Life(hundred(), "latest")
    life.batch()
    assert [life.batch() for _ in range(10)] == [None] * 10
    life.cluster.add(("t", 0), 10)
    assert life.batch() == [("t", 0, 100, 110)]


def test_records_that_come_between_an_empty_first_batch_and_a_restart_are_read() -> None:
    life = Life(hundred(), "latest")
    life.batch()
    life.cluster.add(("t", 0), 10)
    life.again("latest")
    assert life.batch() == [("t", 0, 100, 110)]


def test_where_an_empty_partition_begins_is_its_first_offset() -> None:
    life = Life(ClusterOfATest(held={("t", 0): (0, 0)}), "latest")
    assert life.batch() == [("t", 0, 0, 0)]
    life.cluster.add(("t", 0), 1)
    assert life.batch() == [("t", 0, 0, 1)]


def test_a_batch_that_comes_again_is_the_same_though_there_is_more_by_now() -> None:
    life = Life(hundred())
    assert life.coordinator.is_ready(1)
    stored = life.coordinator.initialize_transaction(1, None, None)
    life.cursors |= life.coordinator.moved(stored)
    life.cluster.add(("t", 0), 10)
    assert life.coordinator.initialize_transaction(1, None, stored) == stored
    for start in STARTS:
        life.again(start)
        assert life.coordinator.initialize_transaction(1, None, json.loads(json.dumps(stored))) == stored
        assert life.batch() == [("t", 0, 100, 110)]
        life.cursors = dict(life.coordinator.moved(stored))


def test_partitions_are_in_one_order_and_one_that_is_added_leaves_it() -> None:
    numbers = [3, 10, 1, 2, 0]
    life = Life(ClusterOfATest(held={("t", number): (0, 1) for number in numbers}))
    first = life.batch()
    assert first == [("t", number, 0, 1) for number in sorted(numbers)]
    backwards = Life(ClusterOfATest(held={("t", number): (0, 1) for number in reversed(numbers)}))
    assert backwards.batch() == first
    more = Life(ClusterOfATest(held={("t", number): (0, 1) for number in [11, *numbers]}))
    assert more.batch() == [*first, ("t", 11, 0, 1)]


@pytest.mark.parametrize("start", STARTS)
def test_partitions_and_topics_that_are_added_are_in_the_next_batch_from_their_first_record_on(start: Start) -> None:
    life = Life(hundred(), start)
    life.batch()
    life.cluster.add(("t", 1), 3)
    life.cluster.add(("u", 0), 4)
    assert life.batch() == [("t", 1, 0, 3), ("u", 0, 0, 4)]


def test_a_partition_that_is_away_for_a_while_goes_on_where_it_was() -> None:
    life = Life(ClusterOfATest(held={("t", 0): (0, 5), ("t", 1): (0, 5)}))
    life.batch()
    life.cluster.held = {("t", 0): (0, 6)}
    assert life.batch() == [("t", 0, 5, 6)]
    life.cluster.held = {("t", 0): (0, 6), ("t", 1): (0, 9)}
    assert life.batch() == [("t", 1, 5, 9)]


def test_the_offsets_of_a_batch_are_committed_once_it_has_succeeded() -> None:
    life = Life(hundred())
    life.batch()
    assert life.cluster.group == {}
    life.coordinator.success(1)
    assert life.cluster.group == {("t", 0): 100}


@pytest.mark.parametrize("start", ["latest", NOON])
def test_records_that_come_while_it_is_found_where_to_begin_are_no_mistake(start: Start) -> None:
    life = Life(hundred(grows=1), start)
    ((_, _, begins, ends),) = life.batch() or []
    assert 100 <= begins <= ends
    assert life.batch() == [("t", 0, ends, ends + 1)]


@pytest.mark.parametrize("begins", [3, 101])
def test_to_begin_where_nothing_is_stops_by_name(begins: int) -> None:
    life = Life(ClusterOfATest(held={("t", 0): (5, 100)}, group={("t", 0): begins}), "committed")
    with pytest.raises(SpoutError, match=rf"t/0 is to begin at offset {begins}, .* from 5 up to 100"):
        life.batch()


def test_records_that_are_gone_before_they_were_read_stop_by_name() -> None:
    life = Life(hundred())
    life.batch()
    life.cluster.held["t", 0] = 103, 110
    with pytest.raises(SpoutError, match="was read up to offset 100, and begins at 103 by now: 3 records have expired"):
        life.batch()
    life.cluster.held["t", 0] = 0, 99
    with pytest.raises(SpoutError, match="was read up to offset 100, and ends at 99"):
        life.batch()


def test_ranges_of_one_batch_name_the_topic_by_its_id() -> None:
    life = Life(hundred())
    assert life.coordinator.is_ready(1)
    (stored,) = life.coordinator.initialize_transaction(1, None, None)
    assert OffsetRange.parse(stored) == OffsetRange("t", 0, 0, 100, "id of t")


def test_a_batch_of_a_topic_that_was_made_anew_is_not_given_again() -> None:
    life = Life(hundred())
    assert life.coordinator.is_ready(1)
    stored = life.coordinator.initialize_transaction(1, None, None)
    life.cluster.generation = "2"
    life.again("earliest")
    with pytest.raises(SpoutError, match=r"topic 't' was deleted and made again since it was read .* `trident reset`"):
        life.coordinator.initialize_transaction(1, None, stored)


def test_a_topic_that_was_read_and_is_deleted_is_waited_for_a_moment_and_then_stops_by_name() -> None:
    life = Life(ClusterOfATest(held={("t", 0): (0, 100), ("u", 0): (0, 100)}))
    stored = life.coordinator.initialize_transaction(1, None, None) if life.coordinator.is_ready(1) else []
    del life.cluster.held["t", 0]
    now = [100.0]
    life.coordinator._ids.clock = lambda: now[0]
    for ask in (
        lambda: life.coordinator.is_ready(2),
        lambda: life.coordinator.initialize_transaction(1, None, stored),
    ):
        with pytest.raises(FailedException, match="topic 't', which was read before, is not there just now"):
            ask()
        now[0] += 11
        with pytest.raises(SpoutError, match="topic 't', which was read before, is not there any more"):
            ask()
        life.cluster.add(("t", 0), 100)
        ask()
        del life.cluster.held["t", 0]


def test_a_topic_that_is_deleted_and_no_longer_asked_for_is_left_alone() -> None:
    life = Life(ClusterOfATest(held={("t", 0): (0, 100), ("u", 0): (0, 100)}))
    life.batch()
    del life.cluster.held["t", 0]
    life.again("earliest")
    life.coordinator.topics = ["u"]
    life.cluster.add(("u", 0), 10)
    assert life.batch() == [("u", 0, 100, 110)]


def test_a_batch_is_cut_by_bytes_though_its_first_records_were_aborted() -> None:
    life = Life(ClusterOfATest(held={("t", 0): (0, 10_000)}))
    asked: list[OffsetRange] = []

    def mean_bytes(given: OffsetRange) -> float:
        asked.append(given)
        return 100_000.0 if given.end > 5_000 else 0.0

    life.coordinator.mean_bytes = mean_bytes
    assert life.batch() == [("t", 0, 0, 10)]
    assert life.batch() == [("t", 0, 10, 20)]
    assert [each.size for each in asked] == [100, 10_000]


def test_where_all_that_is_there_was_aborted_the_next_batch_looks_again_how_large_records_are() -> None:
    life = Life(hundred())
    life.coordinator.mean_bytes = lambda given: 0.0 if given.end <= 100 else 100_000.0
    assert life.batch() == [("t", 0, 0, 100)]
    life.cluster.add(("t", 0), 100)
    assert life.batch() == [("t", 0, 100, 110)]


@pytest.mark.parametrize(
    ("code", "raised", "message"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SpoutError, r"spout 'records': Kafka refuses: .*authorization failed"),
        (KafkaError.UNSUPPORTED_VERSION, SpoutError, "Kafka refuses"),
        (KafkaError._TRANSPORT, KafkaException, "transport failure"),
        (9999, KafkaException, "9999"),
    ],
)
def test_what_kafka_refuses_for_ever_stops_by_name_and_all_else_is_asked_again(
    code: int, raised: type[Exception], message: str
) -> None:
    class Refusing(ClusterOfATest):
        def beginnings(self, partitions: Collection[Partition]) -> dict[Partition, int]:
            raise KafkaException(KafkaError(code))

        def described(self, names: Collection[str]) -> dict[str, Topic]:
            if refuses:
                raise KafkaException(KafkaError(code))
            return super().described(names)

    refuses = False
    life = Life(Refusing(held={("t", 0): (0, 100)}))
    with pytest.raises(raised, match=message):
        life.batch()
    refuses = True
    again = FailedException if raised is KafkaException else raised
    with pytest.raises(again, match=message):
        life.coordinator.initialize_transaction(1, None, [OffsetRange("t", 0, 0, 100, "id of t").stored])
