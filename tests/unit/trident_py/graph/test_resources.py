from __future__ import annotations

from typing import Any

import pytest
from attrs import define

from trident_py.errors import TopologyError
from trident_py.graph.partitioning import hint_before
from trident_py.spark.resources import StageResources
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


@pytest.fixture
def words(topology: TridentTopology) -> Stream:
    return topology.new_stream("words", FixedBatchSpout("word string", 2)).map(lambda row: row, "word string")


def test_s3_the_plan_says_what_tasks_need_and_partitions_stay(topology: TridentTopology, words: Stream) -> None:
    hinted = words.parallelism_hint(3).resources(cpus=2, memory="4g", gpus=0.5)
    assert "resources(cpus=2, memory='4g', gpus=0.5)" in topology.explain()
    assert hinted.schema == words.schema
    assert hint_before(hinted._node) == 3


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({}, "name at least one of cpus, memory and gpus"),
        ({"cpus": 0}, r"resources\(cpus=0\): cpus are a whole number from 1, not 0"),
        ({"cpus": 1.5}, "cpus are a whole number"),
        ({"memory": "much"}, "memory is text like '4g' or '512m', not 'much'"),
        ({"memory": 4}, "memory is text like"),
        ({"gpus": 0.7}, "gpus are a whole number from 1, or a share up to 0.5, not 0.7"),
        ({"gpus": 0}, "gpus are"),
    ],
)
def test_resources_that_cannot_be_are_errors(words: Stream, wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        words.resources(**wanted)


@define(eq=False)
class Session:
    """The settings of a session, which is all that a profile depends on."""

    conf: dict[str, str]


def test_a_profile_is_made_once_and_says_what_tasks_and_executors_need() -> None:
    session: Any = Session({"spark.master": "yarn", "spark.dynamicAllocation.enabled": "true"})
    needed = StageResources(cpus=2, memory="4g", gpus=2)
    profile = needed.profile(session)
    assert profile is needed.profile(session)
    assert profile is not None
    assert {name: each.amount for name, each in profile.taskResources.items()} == {"cpus": 2.0, "gpu": 2.0}
    assert {name: each.amount for name, each in profile.executorResources.items()} == {"memory": 4096, "gpu": 2}


def test_what_spark_cannot_give_is_refused_or_in_local_mode_ignored() -> None:
    fixed: Any = Session({"spark.master": "spark://one:7077"})
    with pytest.raises(TopologyError, match=r"memory= asks for, need spark.dynamicAllocation.enabled=true"):
        StageResources(memory="4g").profile(fixed)
    for master in ("local", "local[4]"):
        local: Any = Session({"spark.master": master})
        assert StageResources(memory="4g").profile(local) is None
    assert StageResources(cpus=1).profile(fixed) is not None
