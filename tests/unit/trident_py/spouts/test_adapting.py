"""Every kind of spout, in the one shape that the engine runs."""

from __future__ import annotations

from typing import Any

import pytest

from trident_py.interfaces.partitioned import IOpaquePartitionedTridentSpout, IPartitionedTridentSpout
from trident_py.interfaces.spouts import IBatchSpout, ITridentSpout
from trident_py.spouts.adapting import SPOUTS, BatchSpoutAdapter, IRichSpout, RichSpoutAdapter, as_trident_spout
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.spouts.partition_executor import PartitionedSpoutAdapter


def some(kind: type[Any]) -> Any:
    """An instance of an interface, with nothing in it."""
    members: dict[str, Any] = dict.fromkeys(kind.__abstractmethods__, lambda *_: None)
    return type("Some", (kind,), {**members, "output_schema": "n int"})()


@pytest.mark.parametrize(
    ("kind", "adapter"),
    [
        (IBatchSpout, BatchSpoutAdapter),
        (IRichSpout, RichSpoutAdapter),
        (IPartitionedTridentSpout, PartitionedSpoutAdapter),
        (IOpaquePartitionedTridentSpout, PartitionedSpoutAdapter),
    ],
)
def test_each_kind_has_its_adapter_which_promises_no_more_than_the_spout(kind: type[Any], adapter: type[Any]) -> None:
    spout = some(kind)
    adapted = as_trident_spout(spout)
    assert type(adapted) is adapter
    assert adapted.replay is spout.replay
    assert isinstance(spout, SPOUTS)


def test_what_has_the_shape_already_stays_as_it_is() -> None:
    spout = FixedBatchSpout("n int", 1)
    assert isinstance(spout, ITridentSpout)
    assert as_trident_spout(spout) is spout
