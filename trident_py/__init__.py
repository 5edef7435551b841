"""Exactly-once batch pipelines for Python on Apache Spark, coordinated the way Storm's Trident does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trident_py._lazy import lazy

if TYPE_CHECKING:
    from coordinators.attempt import TransactionAttempt as TransactionAttempt
    from coordinators.batch_coordinator import BatchCoordinator as BatchCoordinator
    from coordinators.batch_coordinator import CursorCoordinator as CursorCoordinator
    from coordinators.secret import Secret as Secret
    from coordinators.zookeeper.access import ZooKeeperTLS as ZooKeeperTLS
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
    from trident_py.interfaces.collector import TridentCollector as TridentCollector
    from trident_py.interfaces.config import RetryPolicy as RetryPolicy
    from trident_py.interfaces.config import TridentConfig as TridentConfig
    from trident_py.interfaces.context import Metrics as Metrics
    from trident_py.interfaces.context import TopologyContext as TopologyContext
    from trident_py.interfaces.operations import Aggregator as Aggregator
    from trident_py.interfaces.operations import Assembly as Assembly
    from trident_py.interfaces.operations import CombinerAggregator as CombinerAggregator
    from trident_py.interfaces.operations import Filter as Filter
    from trident_py.interfaces.operations import Function as Function
    from trident_py.interfaces.operations import GroupedMultiReducer as GroupedMultiReducer
    from trident_py.interfaces.operations import MultiReducer as MultiReducer
    from trident_py.interfaces.operations import Operation as Operation
    from trident_py.interfaces.operations import ReducerAggregator as ReducerAggregator
    from trident_py.interfaces.partitioned import IOpaquePartitionedTridentSpout as IOpaquePartitionedTridentSpout
    from trident_py.interfaces.partitioned import IPartitionedTridentSpout as IPartitionedTridentSpout
    from trident_py.interfaces.partitioned import ISpoutPartition as ISpoutPartition
    from trident_py.interfaces.partitioned import OpaquePartitionedEmitter as OpaquePartitionedEmitter
    from trident_py.interfaces.partitioned import PartitionedCoordinator as PartitionedCoordinator
    from trident_py.interfaces.partitioned import PartitionedEmitter as PartitionedEmitter
    from trident_py.interfaces.sinks import CommitToken as CommitToken
    from trident_py.interfaces.sinks import SinkTransaction as SinkTransaction
    from trident_py.interfaces.sinks import TopologyKey as TopologyKey
    from trident_py.interfaces.sinks import TransactionalSink as TransactionalSink
    from trident_py.interfaces.sinks import TransactionKey as TransactionKey
    from trident_py.interfaces.spouts import CommitterEmitter as CommitterEmitter
    from trident_py.interfaces.spouts import Emitter as Emitter
    from trident_py.interfaces.spouts import IBatchSpout as IBatchSpout
    from trident_py.interfaces.spouts import ICommitterTridentSpout as ICommitterTridentSpout
    from trident_py.interfaces.spouts import ITridentSpout as ITridentSpout
    from trident_py.interfaces.spouts import Replay as Replay
    from trident_py.interfaces.states import FencedState as FencedState
    from trident_py.interfaces.states import ITupleCollection as ITupleCollection
    from trident_py.interfaces.states import MapState as MapState
    from trident_py.interfaces.states import QueryFunction as QueryFunction
    from trident_py.interfaces.states import ReadOnlyMapState as ReadOnlyMapState
    from trident_py.interfaces.states import ReadOnlySnapshottable as ReadOnlySnapshottable
    from trident_py.interfaces.states import ReadOnlyState as ReadOnlyState
    from trident_py.interfaces.states import RemovableMapState as RemovableMapState
    from trident_py.interfaces.states import Snapshottable as Snapshottable
    from trident_py.interfaces.states import State as State
    from trident_py.interfaces.states import StateFactory as StateFactory
    from trident_py.interfaces.states import StateKind as StateKind
    from trident_py.interfaces.states import StateUpdater as StateUpdater
    from trident_py.interfaces.states import ValueUpdater as ValueUpdater
    from trident_py.interfaces.states import combiner_updater as combiner_updater
    from trident_py.interfaces.states import reducer_updater as reducer_updater
    from trident_py.operations.assemblies import FirstN as FirstN
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
    from trident_py.query import active as active
    from trident_py.rows.row import Row as Row
    from trident_py.spouts.feeder import FeederBatchSpout as FeederBatchSpout
    from trident_py.spouts.feeder import FeederCommitterBatchSpout as FeederCommitterBatchSpout
    from trident_py.spouts.files.files import FileSpout as FileSpout
    from trident_py.spouts.fixed import FixedBatchSpout as FixedBatchSpout
    from trident_py.spouts.rich import IRichSpout as IRichSpout
    from trident_py.spouts.rich import SpoutOutputCollector as SpoutOutputCollector
    from trident_py.states.backing import CachedMap as CachedMap
    from trident_py.states.backing import IBackingMap as IBackingMap
    from trident_py.states.backing import MicroBatchIBackingMap as MicroBatchIBackingMap
    from trident_py.states.maps import NonTransactionalMap as NonTransactionalMap
    from trident_py.states.maps import OpaqueMap as OpaqueMap
    from trident_py.states.maps import SnapshottableMap as SnapshottableMap
    from trident_py.states.maps import TransactionalMap as TransactionalMap
    from trident_py.states.memory import MemoryMapState as MemoryMapState
    from trident_py.states.sql.postgres import PostgresState as PostgresState
    from trident_py.states.sql.sqlite import SQLiteState as SQLiteState
    from trident_py.states.values import JSONNonTransactionalSerializer as JSONNonTransactionalSerializer
    from trident_py.states.values import JSONOpaqueSerializer as JSONOpaqueSerializer
    from trident_py.states.values import JSONTransactionalSerializer as JSONTransactionalSerializer
    from trident_py.states.values import OpaqueValue as OpaqueValue
    from trident_py.states.values import Serializer as Serializer
    from trident_py.states.values import TransactionalValue as TransactionalValue
    from trident_py.streams.stream import GroupedStream as GroupedStream
    from trident_py.streams.stream import Stream as Stream
    from trident_py.streams.stream import TridentState as TridentState
    from trident_py.topology import TridentTopology as TridentTopology
    from trident_py.windows.windows import SlidingCount as SlidingCount
    from trident_py.windows.windows import SlidingDuration as SlidingDuration
    from trident_py.windows.windows import TumblingCount as TumblingCount
    from trident_py.windows.windows import TumblingDuration as TumblingDuration
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "coordinators.zookeeper.access": ["ZooKeeperTLS"],
            "coordinators.attempt": ["TransactionAttempt"],
            "coordinators.batch_coordinator": ["BatchCoordinator", "CursorCoordinator"],
            "coordinators.secret": ["Secret"],
            "trident_py.interfaces.collector": ["TridentCollector"],
            "trident_py.interfaces.config": ["RetryPolicy", "TridentConfig"],
            "trident_py.interfaces.context": ["Metrics", "TopologyContext"],
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
            "trident_py.interfaces.operations": [
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
            "trident_py.query": ["TransactionStatus", "TridentQuery", "active"],
            "trident_py.rows.row": ["Row"],
            "trident_py.interfaces.sinks": [
                "CommitToken",
                "SinkTransaction",
                "TopologyKey",
                "TransactionKey",
                "TransactionalSink",
            ],
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
            "trident_py.states.backing": ["CachedMap", "IBackingMap", "MicroBatchIBackingMap"],
            "trident_py.interfaces.states": [
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
            "trident_py.states.sql.postgres": ["PostgresState"],
            "trident_py.states.sql.sqlite": ["SQLiteState"],
            "trident_py.states.values": [
                "JSONNonTransactionalSerializer",
                "JSONOpaqueSerializer",
                "JSONTransactionalSerializer",
                "OpaqueValue",
                "Serializer",
                "TransactionalValue",
            ],
            "trident_py.streams.stream": ["GroupedStream", "Stream", "TridentState"],
            "trident_py.topology": ["TridentTopology"],
            "trident_py.windows.windows": ["SlidingCount", "SlidingDuration", "TumblingCount", "TumblingDuration"],
        },
    )
