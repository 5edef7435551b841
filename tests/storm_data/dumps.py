"""The stored data of Storm 2.8.3 for the programs of `StormPrograms.java`, and the same programs in Python."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.partitioned import (
    IOpaquePartitionedTridentSpout,
    IPartitionedTridentSpout,
    OpaquePartitionedEmitter,
    PartitionedCoordinator,
    PartitionedEmitter,
)
from trident_py.interfaces.spouts import Emitter, ITridentSpout
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import Count
from trident_py.spouts.adapting import AnySpout
from trident_py.storm.importing import Wanted
from trident_py.storm.snapshot import StormSnapshot, StormSpout, ensure_stopped
from trident_py.storm.states import StormState
from trident_py.storm.thrift import storm_base
from trident_py.topology import TridentTopology

HERE = Path(__file__).parent
DUMPS = HERE / "dumps.json"
NAMES = ("storm-exact", "storm-opaque", "storm-full", "storm-kafka-exact", "storm-kafka-opaque")
DATABASES = {"storm-opaque": 1}
"""The database of the strings of each topology that has them; hashes are in database 0."""


@cache
def dump(name: str, moment: str = "killed") -> Mapping[str, Any]:
    """Return the nodes by path, and Redis' values by database, of a moment: active, inactive or killed."""
    found: Mapping[str, Any] = json.loads(DUMPS.read_text(encoding="utf-8"))[f"{name} {moment}"]
    return found


def nodes_of(name: str, moment: str = "killed") -> dict[str, bytes]:
    """Return the data of all nodes by path."""
    stored = dump(name, moment)["znodes"]
    return {
        path: b64decode(text.removeprefix("base64:")) if text.startswith("base64:") else text.encode()
        for path, text in stored.items()
    }


def snapshot_of(name: str, moment: str = "killed", nodes: Mapping[str, bytes] | None = None) -> StormSnapshot:
    """Return the topology as an import reads it; its only spout is called like it."""
    found = nodes_of(name, moment) if nodes is None else nodes
    bases = _below(found, "/storm/storms")
    beats = {id: None for id in _below(found, "/storm/workerbeats") if _below(found, f"/storm/workerbeats/{id}")}
    is_killed = ensure_stopped(
        name, {id: storm_base(data, id) for id, data in bases.items()}, _below(found, "/storm/assignments"), beats
    )
    base = f"/transactional/{name}/"
    spout = StormSpout.of(
        name, {path.removeprefix(base): data for path, data in found.items() if path.startswith(base)}
    )
    return StormSnapshot(name, is_killed, {name: spout})


def _below(nodes: Mapping[str, bytes], path: str) -> dict[str, bytes]:
    return {each.rpartition("/")[2]: data for each, data in nodes.items() if each.rpartition("/")[0] == path}


def texts_of(name: str, state: StormState) -> Mapping[str, str]:
    """Return the stored values of a state."""
    stored = dump(name)["redis"]
    if state.hash:
        return dict(stored["0"].get(state.hash, {}))
    return dict(stored[str(DATABASES.get(name, 2))])


def wanted(name: str, moment: str = "killed", **states: str) -> Wanted:
    """Return the request for an import of the topology."""
    return Wanted(
        name=name,
        read=lambda _: snapshot_of(name, moment),
        states={ours: None if said == "empty" else StormState.parse(said) for ours, said in states.items()},
        read_state=lambda state: texts_of(name, state),
    )


# --- the same programs of ours ----------------------------------------------------------------------------------------

LINES = 20
"""Of each partition. A batch has two of each."""

Range = Mapping[str, int]


def line(partition: int, number: int) -> str:
    return f"w{number % 3} p{partition} all"


def counted(partitions: Sequence[int], lines: int = LINES) -> Counter[str]:
    """Return how often each word is in the first lines of these partitions."""
    return Counter(
        word for partition in partitions for number in range(lines) for word in line(partition, number).split()
    )


def next_range(last: Range | None) -> dict[str, int]:
    start = last["to"] if last else 0
    return {"from": start, "to": start + 2}


def emit(partition: int, lines: Range, collector: TridentCollector) -> None:
    for number in range(lines["from"], lines["to"]):
        collector.emit((line(partition, number),))


class Parts(PartitionedCoordinator[int]):
    """Two partitions, up to their last line."""

    def get_partitions_for_batch(self) -> int:
        return 2

    def is_ready(self, txid: int) -> bool:
        return txid <= LINES // 2


class PartsEmitter(PartitionedEmitter[int, str, Range]):
    def get_ordered_partitions(self, all_partition_info: int) -> Sequence[str]:
        return [f"part-{number}" for number in range(all_partition_info)]

    def emit_batch_new(
        self, tx: TransactionAttempt, collector: TridentCollector, partitions: Any, last_partition_meta_map: Any
    ) -> Mapping[str, Range]:
        found = {each: next_range(last_partition_meta_map.get(each)) for each in partitions}
        for each, lines in found.items():
            emit(int(each[-1]), lines, collector)
        return found

    def re_emit_partition_batch(
        self, tx: TransactionAttempt, collector: TridentCollector, partition: str, partition_meta: Range
    ) -> None:
        emit(int(partition[-1]), partition_meta, collector)


class ExactLines(IPartitionedTridentSpout[int, str, Range]):
    output_schema = "value string"

    def get_coordinator(self, conf: Any, context: Any) -> Parts:
        return Parts()

    def get_emitter(self, conf: Any, context: Any) -> PartsEmitter:
        return PartsEmitter()


class OpaqueLines(IOpaquePartitionedTridentSpout[int, str, Range]):
    output_schema = "value string"

    def get_coordinator(self, conf: Any, context: Any) -> Parts:
        return Parts()

    def get_emitter(self, conf: Any, context: Any) -> OpaquePartitionedEmitter[int, str, Range]:
        return PartsEmitter()


class FullLines(ITridentSpout[dict[str, int]]):
    """Says everything by its coordinator."""

    output_schema = "value string"

    def get_coordinator(self, tx_state_id: str, conf: Any, context: Any) -> BatchCoordinator[dict[str, int]]:
        return FullCoordinator()

    def get_emitter(self, tx_state_id: str, conf: Any, context: Any) -> Emitter[dict[str, int]]:
        return FullEmitter()


class FullCoordinator(BatchCoordinator[dict[str, int]]):
    def is_ready(self, txid: int) -> bool:
        return txid <= LINES // 2

    def initialize_transaction(
        self, txid: int, prev_metadata: dict[str, int] | None, curr_metadata: dict[str, int] | None
    ) -> dict[str, int]:
        return next_range(prev_metadata) if curr_metadata is None else curr_metadata


class FullEmitter(Emitter[dict[str, int]]):
    def emit_batch(self, attempt: TransactionAttempt, metadata: dict[str, int], collector: TridentCollector) -> None:
        emit(0, metadata, collector)


def words(topology: TridentTopology, tx_id: str, spout: AnySpout) -> Any:
    """Return the stream of words, by word."""
    return (
        topology.new_stream(tx_id, spout)
        .flat_map(lambda row: [(word,) for word in row.value.split()], "word string")
        .group_by("word")
    )


def program(tx_id: str, spout: AnySpout, make: Callable[[], StateFactory], name: str = "words") -> TridentTopology:
    """Return a topology that counts words into a state."""
    topology = TridentTopology(name)
    words(topology, tx_id, spout).persistent_aggregate(make(), Count(), "count")
    return topology
