"""What aggregates and updates are kept in: the interfaces, and the states that come with the product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trident_py._lazy import lazy

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
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
        },
    )
