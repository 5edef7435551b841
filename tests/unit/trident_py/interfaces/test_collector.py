"""Collectors: what all of them take, and what only those of spouts do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.trident_py.spouts.collecting import ListCollector
from trident_py.interfaces.collector import TridentCollector


class Plain(TridentCollector):
    """As a function's."""

    def emit(self, row: Sequence[Any]) -> None: ...

    def report_error(self, error: BaseException) -> None: ...


@pytest.mark.parametrize(
    "call",
    [
        lambda collector: collector.emit_arrow(pa.table({"n": [1]})),
        lambda collector: collector.emit_dataframe(None),
        lambda collector: collector.emit_splits([1], iter),
        lambda collector: collector.emit_extents([1], iter),
    ],
)
def test_only_a_spout_emits_more_than_rows(call: Any) -> None:
    with pytest.raises(TypeError, match="only a spout's emitter"):
        call(Plain())


def test_the_former_name_of_splits_still_works() -> None:
    collector = ListCollector()
    collector.emit_extents([1, 2], read, on_driver=True)
    assert collector.rows == [(1,), (2,)]


def read(split: int) -> Any:
    yield pa.record_batch({"n": [split]})
