"""What spouts continue from; above all the offsets of storm-kafka-client, as Storm 2.8.3 has stored them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinators.values.canonical import Json
from tests.storm_data.dumps import ExactLines, OpaqueLines, snapshot_of
from trident_py.errors import SpoutError
from trident_py.spouts.adapting import as_trident_spout
from trident_py.storm.snapshot import StormSpout
from trident_py.storm.spouts import ImportedKafkaSpout, imported_spout

IDS = {"storm-lines": "id-1"}


def kafka(name: str, current: int, **changed: Json) -> ImportedKafkaSpout:
    spout = snapshot_of(name).spouts[name]
    partitions = {each: {**stored} for each, stored in spout.partitions.items()}
    for place, value in changed.items():
        partition, _, txid = place.partition("_")
        partitions[f"storm-lines@{partition.removeprefix('p')}"][int(txid)] = value
    stored = StormSpout(tx_id=name, current=current, metadata=spout.metadata, partitions=partitions)
    return ImportedKafkaSpout(stored=stored, current=current, topology=name, topic_ids=IDS)


def ranges(imported: ImportedKafkaSpout, txid: int) -> Any:
    definition: Any = imported.definition(txid)
    return definition and [(each["partition"], each["from"], each["to"], each["id"]) for each in definition[0]]


def positions(imported: ImportedKafkaSpout, last: int) -> dict[str, Any]:
    return {partition: each["offset"] for partition, each in imported.cursors(last).items()}  # type: ignore[index,call-overload]


def test_exact_batches_have_their_ranges_and_an_empty_one_has_none() -> None:
    imported = kafka("storm-kafka-exact", 4)
    assert ranges(imported, 3) == [(1, 8, 12, "id-1")]
    assert ranges(imported, 5) == [(1, 16, 20, "id-1")]
    assert imported.definition(6) is None
    assert positions(imported, 5) == {"storm-lines/0": 0, "storm-lines/1": 20}
    assert positions(imported, 3) == {"storm-lines/0": 0, "storm-lines/1": 12}
    assert dict(imported.cursors(5))["storm-lines/1"] == {"offset": 20, "id": "id-1"}


def test_an_opaque_batch_is_known_once_it_was_committed() -> None:
    imported = kafka("storm-kafka-opaque", 3)
    assert imported.knows_batch
    assert ranges(imported, 3) == [(1, 8, 12, "id-1")]
    assert imported.definition(4) is None
    torn = kafka("storm-kafka-opaque", 3, p1_3=None)
    assert not torn.knows_batch
    assert torn.definition(3) is None
    assert positions(torn, 2) == {"storm-lines/0": 0, "storm-lines/1": 8}


def meta(first: int, last: int, id: str = "storm-kafka-exact-4-17") -> dict[str, Json]:
    return {"firstOffset": first, "lastOffset": last, "topologyId": id}


def test_a_batch_without_records_is_told_from_one_of_one_record_by_the_batch_before() -> None:
    imported = kafka("storm-kafka-exact", 3, p0_2=meta(0, 4), p0_3=meta(4, 4), p0_4=meta(5, 5), p0_5=meta(8, 8))
    assert [ranges(imported, txid)[:1] for txid in (4, 5)] == [[(0, 5, 6, "id-1")], [(0, 6, 9, "id-1")]]
    assert ranges(imported, 3) == [(1, 8, 12, "id-1")]
    assert positions(imported, 3)["storm-lines/0"] == 5


def test_offsets_that_may_be_of_one_record_or_of_none_are_refused() -> None:
    with pytest.raises(
        SpoutError, match="transaction 3 is the first of storm-lines@0, and its offsets 9 to 9 are those"
    ):
        kafka("storm-kafka-exact", 3, p0_2=None, p0_3=meta(9, 9))
    assert positions(kafka("storm-kafka-exact", 3, p0_2=meta(9, 9), p0_3=meta(9, 9)), 3)["storm-lines/0"] == 10
    first = kafka("storm-kafka-exact", 3, p0_2=None, p0_3=meta(9, 10))
    assert positions(first, 2)["storm-lines/0"] == 9


def test_offsets_of_another_topology_or_of_another_spout_are_refused() -> None:
    with pytest.raises(
        SpoutError, match=r"in transaction 5 are those of topology other-1-2, not of storm-kafka-exact. To"
    ):
        kafka("storm-kafka-exact", 3, p0_5=meta(9, 10, "other-1-2"))
    odd_ones: list[Json] = [7, {"from": 1}, {**meta(1, 2), "lastOffset": "2"}]
    for odd in odd_ones:
        with pytest.raises(SpoutError, match="partition 'storm-lines@0' was not stored by KafkaTridentSpoutOpaque or"):
            kafka("storm-kafka-exact", 3, p0_5=odd)
    stored = StormSpout(tx_id="a", partitions={"part-0": {}})
    with pytest.raises(SpoutError, match="its name is not TOPIC@NUMBER"):
        ImportedKafkaSpout(stored=stored, current=1, topology="s", topic_ids=IDS)


def test_a_topic_that_is_not_read_any_more_is_left_out() -> None:
    spout = snapshot_of("storm-kafka-exact").spouts["storm-kafka-exact"]
    imported = ImportedKafkaSpout(stored=spout, current=4, topology="storm-kafka-exact", topic_ids={"other": "id"})
    assert (ranges(imported, 4), imported.cursors(5)) == ([], {})


def test_an_opaque_partitioned_spout_continues_after_what_was_committed() -> None:
    stored = snapshot_of("storm-opaque").spouts["storm-opaque"]
    opaque = imported_spout(as_trident_spout(OpaqueLines()), stored, 3, "storm-opaque")
    assert opaque.definition(3) == ({"partitions": 2},)
    assert opaque.definition(2) == (
        {"partitions": 2, "extents": {"part-0": {"from": 2, "to": 4}, "part-1": {"from": 2, "to": 4}}},
    )
    assert opaque.cursors(3) == {"part-0": {"from": 2, "to": 4}, "part-1": {"from": 2, "to": 4}}
    assert not opaque.knows_batch


def test_what_storm_stored_as_null_of_a_late_batch_is_nothing() -> None:
    stored = StormSpout(tx_id="a", metadata={3: 1}, partitions={"p": {2: "at 2", 3: None}, "q": {3: "at 3"}, "r": {}})
    exact = imported_spout(as_trident_spout(ExactLines()), stored, 3, "s")
    assert exact.definition(3) == ({"partitions": 1, "extents": {"q": "at 3"}},)
    assert exact.cursors(3) == {"p": "at 2"}
