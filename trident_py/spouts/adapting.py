"""Every kind of spout in the one shape that the engine runs."""

from __future__ import annotations

from typing import Any, TypeAlias

from trident_py.interfaces.partitioned import IOpaquePartitionedTridentSpout, IPartitionedTridentSpout
from trident_py.interfaces.spouts import IBatchSpout, ITridentSpout
from trident_py.spouts.batch import BatchSpoutAdapter
from trident_py.spouts.partition_executor import PartitionedSpoutAdapter
from trident_py.spouts.rich import IRichSpout, RichSpoutAdapter

AnySpout: TypeAlias = (
    ITridentSpout[Any]
    | IBatchSpout
    | IPartitionedTridentSpout[Any, Any, Any]
    | IOpaquePartitionedTridentSpout[Any, Any, Any]
    | IRichSpout
)
"""What ``TridentTopology.new_stream`` takes."""

SPOUTS = (ITridentSpout, IBatchSpout, IPartitionedTridentSpout, IOpaquePartitionedTridentSpout, IRichSpout)
"""The same as classes, in the order in which a class of several kinds is recognised (Storm T6 has another)."""


def as_trident_spout(spout: AnySpout) -> ITridentSpout[Any]:
    """Return ``spout`` as an `ITridentSpout`."""
    match spout:
        case ITridentSpout():
            return spout
        case IBatchSpout():
            return BatchSpoutAdapter(spout)
        case IRichSpout():
            return RichSpoutAdapter(spout)
        case _:
            return PartitionedSpoutAdapter(spout)
