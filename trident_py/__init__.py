"""Exactly-once batch pipelines for Python on Apache Spark, coordinated the way Storm's Trident does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trident_py._lazy import lazy

if TYPE_CHECKING:
    from coordinators.access import ZooKeeperTLS as ZooKeeperTLS
    from coordinators.attempt import TransactionAttempt as TransactionAttempt
    from coordinators.batch_coordinator import BatchCoordinator as BatchCoordinator
    from coordinators.batch_coordinator import CursorCoordinator as CursorCoordinator
    from coordinators.secret import Secret as Secret
    from trident_py.collector import TridentCollector as TridentCollector
    from trident_py.config import RetryPolicy as RetryPolicy
    from trident_py.config import TridentConfig as TridentConfig
    from trident_py.context import Metrics as Metrics
    from trident_py.context import TopologyContext as TopologyContext
    from trident_py.errors import ConfigError as ConfigError
    from trident_py.errors import CoordinationLost as CoordinationLost
    from trident_py.errors import FailedException as FailedException
    from trident_py.errors import FencedError as FencedError
    from trident_py.errors import MetadataError as MetadataError
    from trident_py.errors import PoisonBatchError as PoisonBatchError
    from trident_py.errors import RequestError as RequestError
    from trident_py.errors import SinkError as SinkError
    from trident_py.errors import SparkLost as SparkLost
    from trident_py.errors import SpoutError as SpoutError
    from trident_py.errors import StateError as StateError
    from trident_py.errors import TopologyError as TopologyError
    from trident_py.errors import TridentError as TridentError
    from trident_py.operations.assemblies import FirstN as FirstN
    from trident_py.operations.base import Aggregator as Aggregator
    from trident_py.operations.base import Assembly as Assembly
    from trident_py.operations.base import CombinerAggregator as CombinerAggregator
    from trident_py.operations.base import Filter as Filter
    from trident_py.operations.base import Function as Function
    from trident_py.operations.base import GroupedMultiReducer as GroupedMultiReducer
    from trident_py.operations.base import MultiReducer as MultiReducer
    from trident_py.operations.base import Operation as Operation
    from trident_py.operations.base import ReducerAggregator as ReducerAggregator
    from trident_py.operations.builtin import Count as Count
    from trident_py.operations.builtin import Debug as Debug
    from trident_py.operations.builtin import Equals as Equals
    from trident_py.operations.builtin import FilterNull as FilterNull
    from trident_py.operations.builtin import Max as Max
    from trident_py.operations.builtin import Min as Min
    from trident_py.operations.builtin import Negate as Negate
    from trident_py.operations.builtin import Sum as Sum
    from trident_py.operations.queries import MapGet as MapGet
    from trident_py.operations.queries import SnapshotGet as SnapshotGet
    from trident_py.operations.queries import TupleCollectionGet as TupleCollectionGet
    from trident_py.query import TransactionStatus as TransactionStatus
    from trident_py.query import TridentQuery as TridentQuery
    from trident_py.row import Row as Row
    from trident_py.sinks.base import CommitToken as CommitToken
    from trident_py.sinks.base import SinkTransaction as SinkTransaction
    from trident_py.sinks.base import TopologyKey as TopologyKey
    from trident_py.sinks.base import TransactionalSink as TransactionalSink
    from trident_py.sinks.base import TransactionKey as TransactionKey
    from trident_py.spouts.base import CommitterEmitter as CommitterEmitter
    from trident_py.spouts.base import Emitter as Emitter
    from trident_py.spouts.base import IBatchSpout as IBatchSpout
    from trident_py.spouts.base import ICommitterTridentSpout as ICommitterTridentSpout
    from trident_py.spouts.base import ITridentSpout as ITridentSpout
    from trident_py.spouts.base import Replay as Replay
    from trident_py.spouts.feeder import FeederBatchSpout as FeederBatchSpout
    from trident_py.spouts.feeder import FeederCommitterBatchSpout as FeederCommitterBatchSpout
    from trident_py.spouts.files import FileSpout as FileSpout
    from trident_py.spouts.fixed import FixedBatchSpout as FixedBatchSpout
    from trident_py.spouts.partitioned import IOpaquePartitionedTridentSpout as IOpaquePartitionedTridentSpout
    from trident_py.spouts.partitioned import IPartitionedTridentSpout as IPartitionedTridentSpout
    from trident_py.spouts.partitioned import ISpoutPartition as ISpoutPartition
    from trident_py.spouts.partitioned import OpaquePartitionedEmitter as OpaquePartitionedEmitter
    from trident_py.spouts.partitioned import PartitionedCoordinator as PartitionedCoordinator
    from trident_py.spouts.partitioned import PartitionedEmitter as PartitionedEmitter
    from trident_py.spouts.rich import IRichSpout as IRichSpout
    from trident_py.spouts.rich import SpoutOutputCollector as SpoutOutputCollector
    from trident_py.states.backing import CachedMap as CachedMap
    from trident_py.states.backing import IBackingMap as IBackingMap
    from trident_py.states.backing import MicroBatchIBackingMap as MicroBatchIBackingMap
    from trident_py.states.base import FencedState as FencedState
    from trident_py.states.base import ITupleCollection as ITupleCollection
    from trident_py.states.base import MapState as MapState
    from trident_py.states.base import QueryFunction as QueryFunction
    from trident_py.states.base import ReadOnlyMapState as ReadOnlyMapState
    from trident_py.states.base import ReadOnlySnapshottable as ReadOnlySnapshottable
    from trident_py.states.base import ReadOnlyState as ReadOnlyState
    from trident_py.states.base import RemovableMapState as RemovableMapState
    from trident_py.states.base import Snapshottable as Snapshottable
    from trident_py.states.base import State as State
    from trident_py.states.base import StateFactory as StateFactory
    from trident_py.states.base import StateKind as StateKind
    from trident_py.states.base import StateUpdater as StateUpdater
    from trident_py.states.base import ValueUpdater as ValueUpdater
    from trident_py.states.base import combiner_updater as combiner_updater
    from trident_py.states.base import reducer_updater as reducer_updater
    from trident_py.states.maps import NonTransactionalMap as NonTransactionalMap
    from trident_py.states.maps import OpaqueMap as OpaqueMap
    from trident_py.states.maps import SnapshottableMap as SnapshottableMap
    from trident_py.states.maps import TransactionalMap as TransactionalMap
    from trident_py.states.memory import MemoryMapState as MemoryMapState
    from trident_py.states.postgres import PostgresState as PostgresState
    from trident_py.states.sqlite import SQLiteState as SQLiteState
    from trident_py.states.values import JSONNonTransactionalSerializer as JSONNonTransactionalSerializer
    from trident_py.states.values import JSONOpaqueSerializer as JSONOpaqueSerializer
    from trident_py.states.values import JSONTransactionalSerializer as JSONTransactionalSerializer
    from trident_py.states.values import OpaqueValue as OpaqueValue
    from trident_py.states.values import Serializer as Serializer
    from trident_py.states.values import TransactionalValue as TransactionalValue
    from trident_py.stream import GroupedStream as GroupedStream
    from trident_py.stream import Stream as Stream
    from trident_py.stream import TridentState as TridentState
    from trident_py.topology import TridentTopology as TridentTopology
    from trident_py.windows import SlidingCount as SlidingCount
    from trident_py.windows import SlidingDuration as SlidingDuration
    from trident_py.windows import TumblingCount as TumblingCount
    from trident_py.windows import TumblingDuration as TumblingDuration
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "coordinators.access": ["ZooKeeperTLS"],
            "coordinators.attempt": ["TransactionAttempt"],
            "coordinators.batch_coordinator": ["BatchCoordinator", "CursorCoordinator"],
            "coordinators.secret": ["Secret"],
            "trident_py.collector": ["TridentCollector"],
            "trident_py.config": ["RetryPolicy", "TridentConfig"],
            "trident_py.context": ["Metrics", "TopologyContext"],
            "trident_py.errors": [
                "ConfigError",
                "CoordinationLost",
                "FailedException",
                "FencedError",
                "MetadataError",
                "PoisonBatchError",
                "RequestError",
                "SinkError",
                "SparkLost",
                "SpoutError",
                "StateError",
                "TopologyError",
                "TridentError",
            ],
            "trident_py.operations.assemblies": ["FirstN"],
            "trident_py.operations.base": [
                "Aggregator",
                "Assembly",
                "CombinerAggregator",
                "Filter",
                "Function",
                "GroupedMultiReducer",
                "MultiReducer",
                "Operation",
                "ReducerAggregator",
            ],
            "trident_py.operations.builtin": ["Count", "Debug", "Equals", "FilterNull", "Max", "Min", "Negate", "Sum"],
            "trident_py.operations.queries": ["MapGet", "SnapshotGet", "TupleCollectionGet"],
            "trident_py.query": ["TransactionStatus", "TridentQuery"],
            "trident_py.row": ["Row"],
            "trident_py.sinks.base": [
                "CommitToken",
                "SinkTransaction",
                "TopologyKey",
                "TransactionKey",
                "TransactionalSink",
            ],
            "trident_py.spouts.base": [
                "CommitterEmitter",
                "Emitter",
                "IBatchSpout",
                "ICommitterTridentSpout",
                "ITridentSpout",
                "Replay",
            ],
            "trident_py.spouts.feeder": ["FeederBatchSpout", "FeederCommitterBatchSpout"],
            "trident_py.spouts.files": ["FileSpout"],
            "trident_py.spouts.fixed": ["FixedBatchSpout"],
            "trident_py.spouts.partitioned": [
                "IOpaquePartitionedTridentSpout",
                "IPartitionedTridentSpout",
                "ISpoutPartition",
                "OpaquePartitionedEmitter",
                "PartitionedCoordinator",
                "PartitionedEmitter",
            ],
            "trident_py.spouts.rich": ["IRichSpout", "SpoutOutputCollector"],
            "trident_py.states.backing": ["CachedMap", "IBackingMap", "MicroBatchIBackingMap"],
            "trident_py.states.base": [
                "FencedState",
                "ITupleCollection",
                "MapState",
                "QueryFunction",
                "ReadOnlyMapState",
                "ReadOnlySnapshottable",
                "ReadOnlyState",
                "RemovableMapState",
                "Snapshottable",
                "State",
                "StateFactory",
                "StateKind",
                "StateUpdater",
                "ValueUpdater",
                "combiner_updater",
                "reducer_updater",
            ],
            "trident_py.states.maps": ["NonTransactionalMap", "OpaqueMap", "SnapshottableMap", "TransactionalMap"],
            "trident_py.states.memory": ["MemoryMapState"],
            "trident_py.states.postgres": ["PostgresState"],
            "trident_py.states.sqlite": ["SQLiteState"],
            "trident_py.states.values": [
                "JSONNonTransactionalSerializer",
                "JSONOpaqueSerializer",
                "JSONTransactionalSerializer",
                "OpaqueValue",
                "Serializer",
                "TransactionalValue",
            ],
            "trident_py.stream": ["GroupedStream", "Stream", "TridentState"],
            "trident_py.topology": ["TridentTopology"],
            "trident_py.windows": ["SlidingCount", "SlidingDuration", "TumblingCount", "TumblingDuration"],
        },
    )
