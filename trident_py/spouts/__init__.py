"""Where rows come from: the interfaces, and the spouts that come with the product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trident_py._lazy import lazy

if TYPE_CHECKING:
    from coordinators.batch_coordinator import BatchCoordinator as BatchCoordinator
    from coordinators.batch_coordinator import CursorCoordinator as CursorCoordinator
    from trident_py.interfaces.partitioned import IOpaquePartitionedTridentSpout as IOpaquePartitionedTridentSpout
    from trident_py.interfaces.partitioned import IPartitionedTridentSpout as IPartitionedTridentSpout
    from trident_py.interfaces.partitioned import ISpoutPartition as ISpoutPartition
    from trident_py.interfaces.partitioned import OpaquePartitionedEmitter as OpaquePartitionedEmitter
    from trident_py.interfaces.partitioned import PartitionedCoordinator as PartitionedCoordinator
    from trident_py.interfaces.partitioned import PartitionedEmitter as PartitionedEmitter
    from trident_py.interfaces.spouts import CommitterEmitter as CommitterEmitter
    from trident_py.interfaces.spouts import Emitter as Emitter
    from trident_py.interfaces.spouts import IBatchSpout as IBatchSpout
    from trident_py.interfaces.spouts import ICommitterTridentSpout as ICommitterTridentSpout
    from trident_py.interfaces.spouts import ITridentSpout as ITridentSpout
    from trident_py.interfaces.spouts import Replay as Replay
    from trident_py.spouts.feeder import FeederBatchSpout as FeederBatchSpout
    from trident_py.spouts.feeder import FeederCommitterBatchSpout as FeederCommitterBatchSpout
    from trident_py.spouts.files.files import FileSpout as FileSpout
    from trident_py.spouts.fixed import FixedBatchSpout as FixedBatchSpout
    from trident_py.spouts.rich import IRichSpout as IRichSpout
    from trident_py.spouts.rich import SpoutOutputCollector as SpoutOutputCollector
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "coordinators.batch_coordinator": ["BatchCoordinator", "CursorCoordinator"],
            "trident_py.interfaces.spouts": [
                "CommitterEmitter",
                "Emitter",
                "IBatchSpout",
                "ICommitterTridentSpout",
                "ITridentSpout",
                "Replay",
            ],
            "trident_py.spouts.feeder": ["FeederBatchSpout", "FeederCommitterBatchSpout"],
            "trident_py.spouts.files.files": ["FileSpout"],
            "trident_py.spouts.fixed": ["FixedBatchSpout"],
            "trident_py.interfaces.partitioned": [
                "IOpaquePartitionedTridentSpout",
                "IPartitionedTridentSpout",
                "ISpoutPartition",
                "OpaquePartitionedEmitter",
                "PartitionedCoordinator",
                "PartitionedEmitter",
            ],
            "trident_py.spouts.rich": ["IRichSpout", "SpoutOutputCollector"],
        },
    )
