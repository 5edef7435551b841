"""What is special about coordination in memory; what it shares with ZooKeeper's is in tests/contract."""

from __future__ import annotations

import gc

import pytest

from coordinators.backends.coordination import Coordination
from coordinators.backends.local import LocalCoordination
from coordinators.record.record import CoordinatorRecord
from coordinators.values.errors import ConfigError, CoordinationLost, FencedError


def test_each_is_a_place_of_its_own() -> None:
    one, other = LocalCoordination(), LocalCoordination()
    one.lead("wordcount")
    assert one.place != other.place
    assert other.topologies() == []


def test_a_second_leader_is_refused_at_once() -> None:
    coordination: Coordination = LocalCoordination()
    coordination.lead("wordcount")
    with pytest.raises(FencedError, match="'wordcount' is led by pid"):
        coordination.lead("wordcount")


def test_a_leadership_that_was_ended_is_told_from_one_that_was_taken_over() -> None:
    coordination = LocalCoordination()
    ended = coordination.lead("wordcount")
    coordination.expire("wordcount")
    lost = CoordinationLost("it is over")
    with pytest.raises(CoordinationLost, match="epoch 1 is over, no process leads now"):
        ended.ensure_leading()
    assert ended.explain_loss(lost) is lost
    coordination.lead("wordcount").write(CoordinatorRecord(2))
    with pytest.raises(FencedError, match="epoch 1 is over, epoch 2 leads"):
        ended.ensure_leading()
    assert isinstance(ended.explain_loss(lost), FencedError)


def test_what_was_never_started_cannot_be_ended() -> None:
    with pytest.raises(ConfigError, match=r"there is no topology 'wordcount' in memory .*; there is none at all"):
        LocalCoordination().expire("wordcount")


def test_its_directory_goes_with_it() -> None:
    coordination = LocalCoordination()
    directory = coordination.state_dir
    (directory / "windows.db").touch()
    del coordination
    gc.collect()
    assert not directory.exists()
