from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinators.backends.zookeeper.znodes import EpochClaim, StoredIdentity, TopologyPaths, parse, to_bytes
from coordinators.status.candidate import Leader
from coordinators.values.errors import MetadataError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = (
    st.builds(StoredIdentity, TEXT, st.integers())
    | st.builds(EpochClaim, st.integers(), TEXT, TEXT, st.integers())
    | st.builds(Leader, TEXT, st.integers(), TEXT)
)


@given(VALUES)
def test_what_is_stored_comes_back_equal(value: StoredIdentity | EpochClaim | Leader) -> None:
    assert parse(type(value), to_bytes(value).decode(), "/here") == value


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "7", "{}", '{"uuid": "u"}', '{"uuid": 1, "incarnation": 1}', "[" * 100_000]
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(MetadataError, match="/trident/x/identity cannot be read"):
        parse(StoredIdentity, text, "/trident/x/identity")


@given(TEXT, TEXT)
def test_any_two_blobs_have_two_nodes_below_their_parent(one: str, other: str) -> None:
    paths = TopologyPaths("/trident/wordcount")
    name = paths.blob(f"metadata.{one}.1").removeprefix("/trident/wordcount/blobs/")
    assert name.isascii()
    assert "/" not in name
    assert one == other or paths.blob(f"metadata.{one}.1") != paths.blob(f"metadata.{other}.1")


def test_every_node_of_a_topology_is_below_its_own() -> None:
    paths = TopologyPaths("/apps/trident/wordcount")
    assert [paths.identity, paths.epoch, paths.leader, paths.record, paths.blobs] == [
        f"/apps/trident/wordcount/{name}" for name in ("identity", "epoch", "leader", "record", "blobs")
    ]


def test_a_claim_says_whose_it_is() -> None:
    assert str(EpochClaim(3, "o", "h", 7)) == "epoch 3 (pid 7 on host h)"
