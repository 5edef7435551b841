"""Every recorded scenario of a real Storm Trident, run on Spark: each component must see the calls that Storm's saw.

What is compared is the order within a component. Differences on purpose, all from the design:

- ``isReady`` is not compared: it is asked right before ``initializeTransaction``, of txids that were never defined only
  (Storm asks a second instance, also for replays).
- A batch is defined while its predecessor is still active, one beyond the window, so that closing the one and admitting
  the other share a write: it may be defined before an earlier one is defined again, and a run may define one more.
- ``coordinator.success`` may therefore come after the definition of a later batch than in Storm, so definitions and
  successes are compared each on its own; so are an emitter's emissions, commits and successes, which are in order each,
  and run beside each other: only the commit of an attempt always comes before its success.
- A new leader delivers again the successes that the one before it may not have delivered.
- Tasks of cancelled attempts may or may not have run: ``bolt.process`` is compared for attempts that committed.
- Storm forgets the last stored attempt id of its window when it is restarted: its 6:0 of the second run is 6:1 here.
- A committer's ``emitter.commit`` runs before the states' commits, not beside them.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen
from pyspark.sql import SparkSession

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from trident_py.errors import FailedException
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics, TopologyContext
from trident_py.interfaces.spouts import CommitterEmitter, Emitter, ICommitterTridentSpout, ITridentSpout
from trident_py.interfaces.states import State, StateFactory, StateUpdater
from trident_py.query import TridentQuery
from trident_py.topology import TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

RECORDINGS = Path(__file__).parent / "recordings"
SCENARIOS = sorted(path.stem for path in RECORDINGS.glob("*.json"))
PATIENCE_SECONDS = 120


@define(eq=False)
class Recorder:
    """The calls of the driver's components in order, and the gates that scripted failures wait at."""

    directory: Path
    scenario: dict[str, Any]
    calls: list[tuple[Any, ...]] = field(factory=list)
    happened: dict[str, threading.Event] = field(factory=dict)
    _lock: threading.Lock = field(factory=threading.Lock)

    def record(self, call: str, *details: Any) -> None:
        with self._lock:
            self.calls.append((call, *details))
        if call == "emitter.emitBatch":
            self.event(f"{call} {details[0]}").set()
            for path in self.directory.glob(f"{details[0]}.gate".replace(":", "-")):
                threading.Thread(target=let_through, args=(path,), daemon=True).start()

    def event(self, name: str) -> threading.Event:
        with self._lock:
            return self.happened.setdefault(name, threading.Event())

    def rule(self, at: str, txid: int) -> dict[str, Any] | None:
        return next((rule for rule in self.scenario["rules"] if (rule["at"], rule["tx"]) == (at, txid)), None)

    def of(self, *names: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return [call for call in self.calls if call[0] in names]


def let_through(gate: Path) -> None:
    """Whoever waits at the gate has it open for reading, and is let through when our end closes."""
    with gate.open("wb"):
        gate.unlink()  # for whoever comes later


@frozen
class Process:
    """What Storm's bolt does to a row: notes that it was there, and perhaps waits at a gate and fails."""

    log: str
    gates: dict[tuple[int, int], str]

    def __call__(self, row: Any) -> None:
        self._note(f"{row.tx}:{row.attempt} {row.value}")
        gate = self.gates.get((row.tx, row.attempt))
        if gate:
            with suppress(FileNotFoundError), open(gate, "rb") as waiting:
                waiting.read()
        if gate is not None:
            raise FailedException(f"scripted failure of {row.tx}:{row.attempt}")

    def _note(self, line: str) -> None:
        descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)


@define
class ScriptedCoordinator(BatchCoordinator[Any]):
    recorder: Recorder

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        self.recorder.record("coordinator.initializeTransaction", txid, prev_metadata, curr_metadata)
        start = prev_metadata[1] if prev_metadata else 0
        return curr_metadata or [start, start + self.recorder.scenario["batchSize"]]

    def is_ready(self, txid: int) -> bool:
        return txid <= int(self.recorder.scenario["batches"])

    def success(self, txid: int) -> None:
        self.recorder.record("coordinator.success", txid)


@define
class ScriptedEmitter(Emitter[Any]):
    recorder: Recorder
    spark: SparkSession

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: TridentCollector) -> None:
        rows = [(attempt.txid, attempt.attempt_id, value) for value in range(*metadata)]
        # With the attempt in it no row comes again as it was; a DataFrame's are not compared.
        collector.emit_dataframe(self.spark.createDataFrame(rows, ScriptedSpout.output_schema))
        self.recorder.record("emitter.emitBatch", str(attempt), metadata)

    def success(self, attempt: TransactionAttempt) -> None:
        self.recorder.record("emitter.success", str(attempt))


class ScriptedCommitterEmitter(ScriptedEmitter, CommitterEmitter[Any]):
    def commit(self, attempt: TransactionAttempt) -> None:
        self.recorder.record("emitter.commit", str(attempt))


@define
class ScriptedSpout(ITridentSpout[Any]):
    recorder: Recorder
    output_schema = "tx bigint, attempt int, value bigint"

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> ScriptedCoordinator:
        return ScriptedCoordinator(self.recorder)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> ScriptedEmitter:
        assert context.spark is not None
        return ScriptedEmitter(self.recorder, context.spark)


class ScriptedCommitterSpout(ScriptedSpout, ICommitterTridentSpout[Any]):
    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> ScriptedEmitter:
        assert context.spark is not None
        return ScriptedCommitterEmitter(self.recorder, context.spark)


@define
class RecordingState(State):
    recorder: Recorder

    def begin_commit(self, txid: int) -> None:
        self.recorder.record("state.beginCommit", txid)

    def commit(self, txid: int) -> None:
        self.recorder.record("state.commit", txid)
        rule = self.recorder.rule("state.commit", txid)
        if rule and rule["times"]:
            rule["times"] -= 1
            assert self.recorder.event(rule["until"]).wait(PATIENCE_SECONDS)
            self.recorder.record("state.commit!FailedException", txid)
            raise FailedException(f"scripted failure of the commit of {txid}")


@define
class RecordingStateFactory(StateFactory):
    recorder: Recorder

    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> State:
        return RecordingState(self.recorder)


class RecordingUpdater(StateUpdater[RecordingState]):
    def update_state(self, state: RecordingState, tuples: Sequence[Any], collector: TridentCollector) -> None:
        (attempt,) = {f"{row.tx}:{row.attempt}" for row in tuples}
        state.recorder.record("state.updateState", attempt, sorted(row.value for row in tuples))


def run(recorder: Recorder, zookeeper: str, spark: SparkSession) -> TridentQuery:
    """Start the scenario's topology."""
    gates: dict[tuple[int, int], str] = {}
    for rule in recorder.scenario["rules"]:
        if rule["at"] == "bolt.process":
            gates[rule["tx"], rule["attempt"]] = ""
        if rule["at"] == "bolt.process" and rule["until"]:
            gate = recorder.directory / f"{rule['until'].split()[-1]}.gate".replace(":", "-")
            if not gate.exists():
                os.mkfifo(gate)
            gates[rule["tx"], rule["attempt"]] = str(gate)
    spout = ScriptedCommitterSpout(recorder) if recorder.scenario["committer"] else ScriptedSpout(recorder)
    topology = TridentTopology("recording")
    stream = topology.new_stream("tx", spout).peek(Process(str(recorder.directory / "bolt.log"), gates))
    stream.partition_persist(RecordingStateFactory(recorder), RecordingUpdater(), ["tx", "attempt", "value"])
    config = TridentConfig(max_spout_pending=recorder.scenario["pending"], zookeeper=zookeeper, session_timeout=5)
    return topology.start(config, spark=spark)


def recorded(name: str, number: int) -> list[dict[str, Any]]:
    """What Storm's components were called with in this run, where it says so."""
    lines = (RECORDINGS / f"{name}.jsonl").read_text().splitlines()
    return [call for call in map(json.loads, lines) if call.get("run", 1) == number]


PARTS = {
    "coordinator.initializeTransaction": ("definitions", ("tx", "prev", "curr")),
    "coordinator.success": ("coordinator", ("tx",)),
    "emitter.emitBatch": ("emissions", ("attempt", "meta")),
    "emitter.commit": ("commits", ("attempt",)),
    "emitter.success": ("successes", ("attempt",)),
    "state.beginCommit": ("state", ("tx",)),
    "state.updateState": ("state", ("attempt", "values")),
    "state.commit": ("state", ("tx",)),
    "state.commit!FailedException": ("state", ("tx",)),
    "bolt.process": ("bolt", ("attempt", "value")),
}
"""Which of Storm's calls are compared, in which sequence, and with which details."""


def storms(calls: list[dict[str, Any]], forgotten: dict[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    """The recording in our form, by what is compared."""
    found: dict[str, list[tuple[Any, ...]]] = {part: [] for part, _ in PARTS.values()}
    for call in calls:
        if call["call"] in PARTS:
            part, details = PARTS[call["call"]]
            attempt = f"{call['tx']}:{call.get('attempt')}"
            values = {**call, "attempt": forgotten.get(attempt, attempt)}
            found[part].append((call["call"], *(values[detail] for detail in details)))
    return found


def compare(recorder: Recorder, calls: list[dict[str, Any]], forgotten: dict[str, str]) -> None:
    """Each component against the recording."""
    expected = storms(calls, forgotten)
    for is_fresh in (True, False):
        ours, storm = (
            [call for call in calls if (call[-1] is None) is is_fresh]
            for calls in (recorder.of("coordinator.initializeTransaction"), expected["definitions"])
        )
        assert ours[: len(storm)] == storm
        assert len(ours) - len(storm) <= is_fresh  # the one that is made ahead
    successes = recorder.of("coordinator.success")
    owed = len(successes) - len(expected["coordinator"])
    assert successes[owed:] == expected["coordinator"]
    assert all(txid < expected["coordinator"][0][1] for _, txid in successes[:owed])
    assert recorder.of("emitter.emitBatch") == expected["emissions"]
    assert recorder.of("emitter.commit") == expected["commits"]
    assert recorder.of("emitter.success")[owed:] == expected["successes"]
    for _, attempt in expected["commits"] and expected["successes"]:
        assert recorder.calls.index(("emitter.commit", attempt)) < recorder.calls.index(("emitter.success", attempt))
    states = ("state.beginCommit", "state.updateState", "state.commit", "state.commit!FailedException")
    assert recorder.of(*states) == expected["state"]
    committed = {attempt for _, attempt in recorder.of("emitter.success")}
    lines = [line.split() for line in (recorder.directory / "bolt.log").read_text().splitlines()]
    processed = sorted((attempt, int(value)) for attempt, value in lines if attempt in committed)
    assert processed == sorted(call[1:] for call in expected["bolt"] if call[1] in committed)


@pytest.mark.parametrize("name", SCENARIOS)
def test_components_see_the_calls_that_storms_saw(
    name: str, tmp_path: Path, zookeeper: str, spark: SparkSession
) -> None:
    scenario = json.loads((RECORDINGS / f"{name}.json").read_text())
    runs = 1
    if scenario["resubmitOn"]:
        first = Recorder(tmp_path, json.loads(json.dumps(scenario)))
        query = run(first, zookeeper, spark)
        assert first.event(scenario["resubmitOn"]).wait(PATIENCE_SECONDS)
        query.stop(drain=False)
        compare(first, recorded(name, 1), {})
        (tmp_path / "bolt.log").unlink()
        runs, scenario["rules"] = 2, []
    recorder = Recorder(tmp_path, scenario)
    with run(recorder, zookeeper, spark) as query:
        query.process_all_available(timeout=PATIENCE_SECONDS)
    compare(recorder, recorded(name, runs), {"6:0": "6:1"} if runs == 2 else {})
