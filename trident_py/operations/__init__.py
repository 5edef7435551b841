"""What is done to rows: the interfaces, and the operations that come with the product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trident_py._lazy import lazy

if TYPE_CHECKING:
    from trident_py.interfaces.operations import Aggregator as Aggregator
    from trident_py.interfaces.operations import Assembly as Assembly
    from trident_py.interfaces.operations import CombinerAggregator as CombinerAggregator
    from trident_py.interfaces.operations import Filter as Filter
    from trident_py.interfaces.operations import Function as Function
    from trident_py.interfaces.operations import GroupedMultiReducer as GroupedMultiReducer
    from trident_py.interfaces.operations import MultiReducer as MultiReducer
    from trident_py.interfaces.operations import Operation as Operation
    from trident_py.interfaces.operations import ReducerAggregator as ReducerAggregator
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
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
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
        },
    )
