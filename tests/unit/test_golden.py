"""What earlier releases have left (``tests/golden``) is read without loss, and gone on from; without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from coordinators.record.record import CoordinatorRecord, decode, encode
from coordinators.record.store import TopologyIdentity
from coordinators.takeover.takeover import recover
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Fingerprint
from coordinators.values.errors import About
from tests.golden import release_230fe66, topologies
from tests.golden.loading import coordination, encoded, restore_databases, restored_files, scenarios
from tests.golden.topologies import FILES, TOPOLOGIES, Transactions, file_lines
from tests.transactions import begin
from trident_py.engine.plane.emitted import Splits
from trident_py.engine.threads.spout_executor import SpoutCollector
from trident_py.engine.wiring.assembly import participant_of
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics, TopologyContext
from trident_py.interfaces.sinks import SinkTransaction, TopologyKey, TransactionKey
from trident_py.interfaces.spouts import ITridentSpout
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import everything
from trident_py.planner.plan import plan
from trident_py.rows.schema import schema_of
from trident_py.states.keys import UNGROUPED
from trident_py.windows.window_store import KEYS, LocalWindows, WindowRows
from trident_py.windows.windows import MICROS, SlidingDuration, TumblingDuration, Window

CONFIG = TridentConfig()


def recorded(name: str) -> CoordinatorRecord:
    found = encoded(name)
    return decode(found.head, found.blobs, where=name)


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "current", "attempted", "committing", "success_upto"),
    [
        ("torn-group", 2, [1, 2, 3, 4], [], 0),
        ("split-group", 2, [1, 2, 3, 4], [], 0),
        ("owed-success", 4, [3], [], 2),
        ("exact-partitions", 2, [1, 2, 3, 4], [2], 0),
        ("opaque-partitions", 2, [1, 2, 3, 4], [2], 0),
        ("windows", 4, [3, 4], [], 2),
        ("long-window", 3, [], [], 2),
        ("files", 4, [3, 4, 5, 6, 7], [], 2),
        ("postgres", 2, [1, 2, 3, 4], [], 0),
    ],
)
def test_records_of_version_1_say_what_they_said(
    name: str, current: int, attempted: list[int], committing: list[int], success_upto: int
) -> None:
    record = recorded(name)
    assert (record.current_txid, sorted(record.attempt_ids), record.success_upto) == (current, attempted, success_upto)
    assert [pin.attempt.txid for pin in record.committing] == committing
    assert set(range(current, max([*attempted, 0]) + 1)) <= set(record.metadata)
    assert (record.failures, record.times, record.declared, record.accepted) == ({}, {}, None, ())


@pytest.mark.parametrize("name", scenarios())
def test_nothing_is_lost_when_a_record_of_version_1_is_written_again(name: str) -> None:
    written = encode(recorded(name))
    assert decode(written.head, written.blobs, where=name) == recorded(name)


def test_metadata_and_positions_come_back_from_blobs() -> None:
    assert recorded("owed-success").metadata[3]["numbers"] == {"batch": 3, "padding": "x" * 5000}
    assert dict(recorded("exact-partitions").cursors["shelves"].items()) == {"left": {"next": 2}, "right": {"next": 2}}
    files = dict(recorded("files").cursors["lines"].items())
    assert files[f"{FILES}/a.log"] == 116
    assert files[f"{FILES}/e.log"] == [348, 870]


def test_the_release_at_230fe66_refuses_what_is_written_today_by_its_version() -> None:
    assert release_230fe66.verified(encoded("files").head)["current_txid"] == 4
    with pytest.raises(ValueError, match="it has version 2, this release reads version 1"):
        release_230fe66.verified(encode(recorded("files")).head)


# --- takeovers --------------------------------------------------------------------------------------------------------


CLOSED = {"split-group": 5, "opaque-partitions": 3}
"""Where they lead from: what every state has is closed. Elsewhere some state lacks it, or none has it."""


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_a_takeover_accepts_what_a_crash_left_and_closes_what_every_state_has(name: str, tmp_path: Path) -> None:
    restore_databases(name, tmp_path)
    store = coordination(name).acquire()
    branches = plan(TOPOLOGIES[name](tmp_path, 6)._graph).branches
    context = ParticipantContext(config=TridentConfig(state_dir=tmp_path), metrics=Metrics())
    participants = [participant_of(branch, context) for branch in branches]
    record = recover(store, [each for each in everything(participants) if each.capabilities.commits])
    for participant in participants:
        participant.close()
    assert record.epoch == recorded(name).epoch + 1
    assert record.states == recorded(name).states
    assert record.current_txid == CLOSED.get(name, recorded(name).current_txid)


# --- rows that have a fingerprint -------------------------------------------------------------------------------------


def emitted(spout: ITridentSpout[Any], txid: int, metadata: Any) -> Fingerprint | None:
    """The fingerprint of what is emitted again."""
    collector = SpoutCollector("the test", schema_of(spout.output_schema), Metrics(), About())
    emitter = spout.get_emitter("spout", CONFIG, TopologyContext("topology", "spout"))
    emitter.emit_batch(TransactionAttempt(txid, 1), metadata, collector)
    batch = collector.collected()
    if not isinstance(batch.chunks[0], Splits):
        return batch.fingerprint()
    rows = hashed = 0
    for split in batch.chunks[0].splits:
        reading = Returning(batch.chunks[0].read(split))
        rows += sum(each.num_rows for each in reading)
        hashed += reading.returned
    return Fingerprint(rows, hashed)


class Returning:
    """An iterator over a generator that remembers what it returned."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self.returned: Any = None

    def __iter__(self) -> Any:
        self.returned = yield from self._generator


def check_agree(again: Fingerprint | None, then: Fingerprint) -> None:
    """Rows in memory were hashed otherwise: of those the number is all that is compared."""
    assert again is not None
    assert again.agrees(then)
    assert not again.agrees(evolve(then, rows=then.rows + 1))


def test_rows_that_are_emitted_again_agree_with_the_fingerprints_of_then() -> None:
    record, spout = recorded("torn-group"), Transactions(4, 20)
    for txid in (2, 3, 4):
        check_agree(emitted(spout, txid, record.metadata[txid]["numbers"]), record.fingerprints[txid]["numbers"])


def test_lines_that_are_read_again_agree_with_the_fingerprints_of_then() -> None:
    record, spout = recorded("files"), files_spout()
    with restored_files():
        for txid in (4, 5, 6):
            check_agree(emitted(spout, txid, record.metadata[txid]["lines"]), record.fingerprints[txid]["lines"])


# --- files ------------------------------------------------------------------------------------------------------------


def files_spout() -> Any:
    return plan(topologies.files(Path("nowhere"))._graph).spouts[0].spout


def test_file_positions_of_then_are_gone_on_from() -> None:
    record = recorded("files")
    with restored_files() as directory:
        spout = files_spout()
        coordinator = spout.get_coordinator("lines", CONFIG, TopologyContext("topology", "lines"))
        coordinator.restore(dict(record.cursors["lines"].items()))
        positions = []
        for txid in range(8, 11):
            assert coordinator.is_ready(txid)
            positions += [each[:3] for each in coordinator.initialize_transaction(txid, None, None)]
        assert positions == [[f"{directory}/e.log", start, start + 174] for start in (348, 522, 696)]
        assert not coordinator.is_ready(11)
        assert (directory / "e.log").read_text().splitlines() == file_lines("e.log", 30)


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "window", "fired"),
    [
        ("tumbling-time", TumblingDuration(3600), [21]),
        ("sliding-time", SlidingDuration(7200, 3600), [21, 14]),
    ],
)
def test_rows_that_wait_in_windows_by_time_fire_when_their_time_has_come(
    tmp_path: Path, name: str, window: Window, fired: list[int]
) -> None:
    restore_databases("windows", tmp_path)
    identity = coordination("windows").identity
    rows = WindowRows(window, schema_of("number bigint"))
    factory = LocalWindows(identity.name, name).for_fields(KEYS, rows.value)
    state: Any = factory.make_state(TridentConfig(state_dir=tmp_path), Metrics(), 0, 1)
    token = state.recover(key(identity), 2)
    assert begin(state, transaction(identity, token.txid + 1))
    found = rows.feed(state, {UNGROUPED: []}, 1_600_020_000 * MICROS)[UNGROUPED]
    state.commit_group()
    state.close()
    assert [len(each) for _, each in found] == fired


def key(identity: TopologyIdentity) -> TopologyKey:
    return TopologyKey(identity.name, identity.uuid, identity.incarnation)


def transaction(identity: TopologyIdentity, txid: int) -> SinkTransaction:
    return SinkTransaction(
        TransactionKey(identity.uuid, identity.incarnation, txid), TransactionAttempt(txid, 0), epoch=2
    )
