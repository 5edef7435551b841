"""A collector for the tests of spouts: reads splits where it is, instead of in Spark tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, field

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import json_copy
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout

CONF = TridentConfig()
CONTEXT = TopologyContext("wordcount", "lines")


@define
class ListCollector(TridentCollector):
    """Keeps what is emitted."""

    rows: list[tuple[Any, ...]] = field(factory=list)
    splits: list[Any] = field(factory=list)

    def emit(self, row: Sequence[Any]) -> None:
        self.rows.append(tuple(row))

    def emit_arrow(self, data: pa.Table | pa.RecordBatch) -> None:
        self.rows.extend(zip(*(column.to_pylist() for column in data.columns), strict=True))

    def emit_splits(
        self,
        splits: Sequence[Any],
        read: Callable[[Any], Iterator[pa.RecordBatch]],
        *,
        fingerprinting: bool = False,
        on_driver: bool = False,
        verify: Callable[[], None] | None = None,
    ) -> None:
        self.splits.extend(() if on_driver else splits)
        for split in splits:
            travelled, reader = pickle.loads(pickle.dumps((split, read)))  # noqa: S301 - as Spark sends them
            for batch in reader(travelled):
                self.emit_arrow(batch)
        if verify:
            verify()

    def report_error(self, error: BaseException) -> None:
        raise error


def emitted(emitter: Emitter[Any], attempt: Any, metadata: Any) -> list[tuple[Any, ...]]:
    """The rows of one attempt."""
    collector = ListCollector()
    emitter.emit_batch(attempt, metadata, collector)
    return collector.rows


def halves(spout: ITridentSpout[Any]) -> tuple[Any, Any]:
    """A spout's coordinator and emitter."""
    return spout.get_coordinator("lines", CONF, CONTEXT), spout.get_emitter("lines", CONF, CONTEXT)


class Reader:
    """Reads batches as a driver does that stores each definition, and may restart."""

    def __init__(self, make: Callable[[], ITridentSpout[Any]]) -> None:
        self.make = make
        self.cursors: dict[str, Any] = {}
        self.definitions: list[Any] = []
        self._open()

    def _open(self) -> None:
        self.coordinator, self.emitter = halves(self.make())
        self.coordinator.restore(json_copy(self.cursors))

    def restart(self) -> None:
        self.coordinator.close()
        self._open()

    def batch(self) -> list[Any]:
        txid = len(self.definitions) + 1
        if not self.coordinator.is_ready(txid):
            return []
        self.definitions.append(json_copy(self.coordinator.initialize_transaction(txid, None, None)))
        self.cursors |= self.coordinator.moved(self.definitions[-1])
        return self.rows(txid)

    def rows(self, txid: int) -> list[Any]:
        metadata = self.coordinator.initialize_transaction(txid, None, self.definitions[txid - 1])
        return emitted(self.emitter, TransactionAttempt(txid, 0), metadata)
