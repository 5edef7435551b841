"""What Storm has stored of a topology, and whether it has stopped."""

from __future__ import annotations

import pytest
from attrs import evolve

from coordinators.values.errors import ConfigError, MetadataError, TopologyError
from tests.storm_data.dumps import snapshot_of
from trident_py.storm.snapshot import StormSnapshot, StormSpout, ensure_stopped
from trident_py.storm.thrift import StormBase, StormStatus


def test_a_killed_topology_is_read_as_storm_left_it() -> None:
    snapshot = snapshot_of("storm-exact")
    assert snapshot.is_killed
    assert (snapshot.current, snapshot.attempts) == (3, {3: 0, 4: 0, 5: 0})
    spout = snapshot.spouts["storm-exact"]
    assert spout.metadata == {2: 2, 3: 2, 4: 2, 5: 2}
    assert spout.partitions["part-0"][3] == {"from": 4, "to": 6}


def test_attempts_of_committed_transactions_are_left_out() -> None:
    assert snapshot_of("storm-full").spouts["storm-full"].attempts == {2: 0, 3: 0, 4: 0}
    assert (snapshot_of("storm-full").current, snapshot_of("storm-full").attempts) == (5, {})


def test_every_stored_value_changes_the_digest() -> None:
    before, spout = snapshot_of("storm-exact"), snapshot_of("storm-exact").spouts["storm-exact"]
    others = [
        evolve(spout, current=4),
        evolve(spout, attempts={3: 1}),
        evolve(spout, metadata={3: 2}),
        evolve(spout, partitions={"part-0": {3: {"from": 4, "to": 7}}}),
        evolve(spout, partitions={**spout.partitions, "part-2": {}}),
    ]
    digests = {evolve(before, spouts={"storm-exact": each}).digest for each in (spout, *others)}
    assert len(digests) == 1 + len(others)
    assert evolve(before, is_killed=False).digest == before.digest


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("coordinator/currtx", b"", "Expecting value"),
        ("coordinator/currtx", b'"4"', "not a transaction"),
        ("coordinator/currtx", b"0", "not a transaction"),
        ("coordinator/currattempts", b"[1]", "not attempt ids"),
        ("coordinator/currattempts", b'{"1":"0"}', "not attempt ids"),
        ("coordinator/meta/x", b"1", "not called like a transaction"),
        ("coordinator/meta/1", b"{", "Expecting property name"),
        ("user/p/1", b"\xff", "codec can't decode"),
        ("user/a/b/1", b"7", "contains a slash"),
    ],
)
def test_what_cannot_be_read_is_never_taken_for_missing(path: str, data: bytes, why: str) -> None:
    with pytest.raises(MetadataError, match=rf"^lines/{path} of Storm can't be read: .*{why}.*; nothing was imported"):
        StormSpout.of("lines", {path: data})


def test_directories_have_other_data_than_json() -> None:
    nodes = {"coordinator": b"127.0.0.1", "coordinator/meta": b"7", "user": b"", "user/p": b"7", "user/p/3": b"null"}
    assert StormSpout.of("lines", nodes) == StormSpout(tx_id="lines", partitions={"p": {3: None}})


def of(**currents: int | None) -> StormSnapshot:
    return StormSnapshot("s", True, {name: StormSpout(tx_id=name, current=each) for name, each in currents.items()})


def test_spouts_of_one_group_have_one_number_which_is_written_one_by_one() -> None:
    assert of(a=7, b=7).current == 7
    assert of(a=7, b=6).current == 7
    assert of(a=None).current == 1
    with pytest.raises(
        TopologyError, match="topology 's': spout 'b' is at transaction 5, and another one at 7, so they"
    ):
        assert of(a=7, b=5).current


def test_an_announced_success_is_known_by_what_it_has_removed() -> None:
    spout = StormSpout(tx_id="a", current=4, metadata={4: 0, 5: 0})
    assert StormSnapshot("s", True, {"a": spout}).current == 5
    for metadata in ({3: 0, 4: 0}, {3: 0}, {}, {5: 0}):
        assert StormSnapshot("s", True, {"a": evolve(spout, metadata=metadata)}).current == 4
    assert StormSnapshot("s", True, {"a": evolve(spout, current=1, metadata={1: 0})}).current == 1
    new = StormSpout(tx_id="b", current=None, metadata={4: 0})
    assert (
        StormSnapshot("s", True, {"a": evolve(spout, metadata={3: 0, 4: 0}), "b": evolve(new, current=3)}).current == 4
    )


def test_only_a_killed_or_inactive_topology_has_stopped() -> None:
    def base(status: StormStatus, name: str = "s") -> dict[str, StormBase]:
        return {"s-1-17": StormBase(name, status), "t-2-18": StormBase("t", StormStatus.ACTIVE)}

    assert not ensure_stopped("s", base(StormStatus.INACTIVE), {"s-1-17": 0}, {"s-1-17": 0})
    assert ensure_stopped("s", {}, {"t-2-18": 0}, {"s-s-1-17": 0, "s": 0})
    for status, fix in (
        ("ACTIVE", "storm deactivate s"),
        ("REBALANCING", "until it is reb"),
        ("KILLED", "until Nimbus"),
    ):
        with pytest.raises(ConfigError, match=rf"Storm's topology 's' \(s-1-17\) is {status}, so it may .*{fix}"):
            ensure_stopped("s", base(StormStatus[status]), {}, {})
    for assignments, heartbeats in (({"s-1-17"}, set[str]()), (set[str](), {"s-1-17"})):
        with pytest.raises(ConfigError, match="'s' is killed, but workers of s-1-17 may still run"):
            ensure_stopped("s", {}, dict.fromkeys(assignments), dict.fromkeys(heartbeats))
