"""One emission: what is read once by a job of its own, and what becomes of one that was cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from coordinators.protocol.messages import Diagnosis, FailureKind
from coordinators.record.parking import StoredRows
from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.engine.driving import spout_of
from trident_py.engine.plane.emitted import EmittedBatch, ReportedOffsets
from trident_py.engine.plane.instructions import Emit
from trident_py.engine.plane.sifting import Sifted
from trident_py.engine.plane.stimuli import CheckpointBegun, EmitFailed, Emitted
from trident_py.engine.plane.work import Job, JobMember, Processed
from trident_py.engine.ports.batch_engine import Jobs
from trident_py.engine.threads.parked_rows import ParkedRows
from trident_py.engine.threads.sifting import Sifting
from trident_py.engine.threads.threads import Running, Unwanted
from trident_py.engine.threads.workers import SpoutEmission
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.spouts import Emitter
from trident_py.worker.sieve import Quarantine

ATTEMPT = TransactionAttempt(1, 0)


class Emitting(Emitter[Any]):
    """Emits a row, or splits that tasks read, or raises."""

    def emit_batch(self, attempt: Any, metadata: Any, collector: TridentCollector) -> None:
        match metadata:
            case "splits":
                collector.emit_splits([1, 2], read=lambda split: iter(()))
            case "raises":
                raise ValueError("no rows")
            case _:
                collector.emit((1,))


@define
class Reading(Jobs):
    """Reads every batch as five rows."""

    exact: bool

    def process(self, job: Job, members: Sequence[JobMember]) -> Sequence[Processed]:
        raise AssertionError(job)

    def checkpoint(self, emit: Emit, batch: EmittedBatch, verify: bool) -> EmittedBatch:
        assert verify == self.exact
        return EmittedBatch(batch.schema, reported=ReportedOffsets((), 5))

    def sift(self, emit: Emit, batch: EmittedBatch, branch: int, quarantine: Quarantine) -> Sifted:
        raise AssertionError(quarantine)


def emission(
    metadata: str,
    *,
    readers: int = 1,
    exact: bool = True,
    number: int | None = 1,
    directory: Path = Path("parked"),
    stores: bool = False,
    stored: StoredRows | None = None,
) -> SpoutEmission:
    spout = spout_of(Emitting(), "n int")
    spout.coordinator.exact = exact

    return SpoutEmission(
        emit=Emit(ATTEMPT, number, "s", metadata, stores, stored),
        spout=spout,
        readers=range(readers),
        is_reread=False,
        sifting=Sifting.of("s", (), 1000),
        jobs=Reading(exact),
        parked=ParkedRows("t", "1234", directory),
        diagnose=lambda error: Diagnosis(error, FailureKind.USER_CODE),
        draw_edge=lambda: 7,
    )


def told(emission: SpoutEmission) -> list[Any]:
    reports: list[Any] = []
    emission.run(reports.append)
    assert emission.running.has_ended
    return reports


def test_a_batch_is_told_with_an_edge_for_each_branch_that_reads_it() -> None:
    [emitted] = told(emission("rows", readers=2))
    assert isinstance(emitted, Emitted)
    assert (emitted.rows, emitted.is_small, emitted.edges) == (1, True, {0: 7, 1: 7})


@pytest.mark.parametrize(
    ("metadata", "readers", "exact", "is_read_once"),
    [
        ("splits", 2, False, True),
        ("splits", 2, True, False),
        ("splits", 1, False, False),
        ("rows", 2, False, False),
    ],
)
def test_only_what_could_be_others_when_it_is_read_again_is_read_once(
    metadata: str, readers: int, exact: bool, is_read_once: bool
) -> None:
    *begun, emitted = told(emission(metadata, readers=readers, exact=exact))
    assert begun == ([CheckpointBegun(ATTEMPT, "s")] if is_read_once else [])
    assert (emitted.rows == 5) == is_read_once


def test_what_an_emitter_raises_is_told_with_what_it_means() -> None:
    [failed] = told(emission("raises"))
    assert isinstance(failed, EmitFailed)
    assert failed.why.kind is FailureKind.USER_CODE


def test_an_emission_that_was_cancelled_does_not_begin() -> None:
    cancelled = emission("raises")
    assert not cancelled.running.cancel(), "there is no job yet"
    [failed] = told(cancelled)
    assert failed.why.kind is FailureKind.INTERRUPTED


def test_a_spout_does_not_hear_of_an_empty_transaction() -> None:
    [emitted] = told(emission("raises", number=None))
    assert emitted.rows == 0


def test_who_cancels_before_spark_is_entered_keeps_it_out_and_after_it_has_a_job_to_cancel() -> None:
    before, after = Running(), Running()
    assert not before.cancel()
    with pytest.raises(Unwanted):
        before.enter_spark()
    after.enter_spark()
    assert after.cancel()


def test_rows_that_are_stored_are_emitted_again_in_place_of_the_spout(tmp_path: Path) -> None:
    begun, emitted = told(emission("rows", readers=0, directory=tmp_path / "new", stores=True))
    assert begun == CheckpointBegun(ATTEMPT, "s")
    (message,) = emitted.resolved
    assert (message.attempt, message.spout, message.stored.rows) == (ATTEMPT, "s", 1)
    [again] = told(emission("raises", readers=2, directory=tmp_path / "new", stored=message.stored))
    assert again.batch.table.to_pylist() == [{"n": 1}]
    assert again.edges == {0: 7, 1: 7}
