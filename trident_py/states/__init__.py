"""What aggregates and updates are kept in: the interfaces, and the states that come with the product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trident_py._lazy import lazy

if TYPE_CHECKING:
    from trident_py.states.base import FencedState as FencedState
    from trident_py.states.base import MapState as MapState
    from trident_py.states.base import ReadOnlyMapState as ReadOnlyMapState
    from trident_py.states.base import ReadOnlySnapshottable as ReadOnlySnapshottable
    from trident_py.states.base import Snapshottable as Snapshottable
    from trident_py.states.base import State as State
    from trident_py.states.base import StateFactory as StateFactory
    from trident_py.states.base import StateUpdater as StateUpdater
    from trident_py.states.base import ValueUpdater as ValueUpdater
    from trident_py.states.base import combiner_updater as combiner_updater
    from trident_py.states.base import reducer_updater as reducer_updater
    from trident_py.states.memory import MemoryMapState as MemoryMapState
    from trident_py.states.postgres import PostgresState as PostgresState
    from trident_py.states.sqlite import SQLiteState as SQLiteState
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "trident_py.states.base": [
                "FencedState",
                "MapState",
                "ReadOnlyMapState",
                "ReadOnlySnapshottable",
                "Snapshottable",
                "State",
                "StateFactory",
                "StateUpdater",
                "ValueUpdater",
                "combiner_updater",
                "reducer_updater",
            ],
            "trident_py.states.memory": ["MemoryMapState"],
            "trident_py.states.postgres": ["PostgresState"],
            "trident_py.states.sqlite": ["SQLiteState"],
        },
    )
