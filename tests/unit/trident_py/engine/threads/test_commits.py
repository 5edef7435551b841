"""What is done on the commit thread: an output commits a group, and what it raises is told by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import define, evolve, field

from coordinators.protocol.messages import Diagnosis, FailureKind
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.instructions import Abort, CommitStep
from trident_py.engine.plane.stimuli import Aborted, StatesClosed, StepCommitted, StepFailed
from trident_py.engine.plane.work import CommitMember
from trident_py.engine.ports.commit_thread import CommitThread
from trident_py.engine.threads.commits import Commits
from trident_py.errors import CoordinationLost, StoreBusyException
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.participants.participant import Participant
from trident_py.worker.counters import counter, counting_for, working_for, working_for_all

ONE, TWO = TransactionAttempt(1, 0), TransactionAttempt(2, 3)
STEP = CommitStep("", (0,), [CommitMember(ONE, 1, 10, {0: "a"}), CommitMember(TWO, 2, 20, {0: "b"})], 1)


@define
class Output(Participant):
    """Keeps what it was told."""

    name: str = "counts"
    told: list[Any] = field(factory=list)
    fails: bool = False

    def prepare(self, tx: Any, frame: Any, collect: Any) -> None: ...

    def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
        for tx, receipt in group:
            counting_for(tx.txid)
            counter("rows").add(tx.txid)
            self.told.append((str(tx.attempt), tx.time, tx.group_first, receipt))
        self._fail()

    def abort(self, tx: SinkTransaction, receipt: Any) -> None:
        self.told.append(("abort", str(tx.attempt), receipt))
        self._fail()

    def close(self) -> None:
        self.told.append("close")
        self._fail()

    def _fail(self) -> None:
        if self.fails:
            raise ValueError("the disk is full")


def commits(output: Output, ensure_leading: Callable[[], None] = lambda: None) -> Commits:
    return Commits(
        topology="t",
        spouts={},
        participants=[output],
        transaction=lambda attempt, time: SinkTransaction(TransactionKey("u", 1, attempt.txid), attempt, 1, time),
        ensure_leading=ensure_leading,
        diagnose=lambda error, place, where: Diagnosis(error, FailureKind.USER_CODE),
        thread=CommitThread(),
        trial_seconds=5.0,
    )


def test_a_group_is_committed_in_one_call_with_its_times_receipts_and_its_first_transaction() -> None:
    output = Output()
    done = commits(output).commit(STEP)
    assert output.told == [("1:0", 10, 1, "a"), ("2:3", 20, 1, "b")]
    assert done == StepCommitted({(1, "counts"): {"rows": 1}, (2, "counts"): {"rows": 2}})


def test_what_an_output_raises_names_it_and_what_it_has_counted_is_told() -> None:
    failed = commits(Output(fails=True)).commit(STEP)
    assert isinstance(failed, StepFailed)
    assert (str(failed.why.cause), failed.why.state) == ("the disk is full", "counts")
    assert failed.counts


@pytest.mark.parametrize("at", [1, 2, None])
def test_of_a_group_the_transaction_is_blamed_at_which_the_output_worked(at: int | None) -> None:
    class Refusing(Output):
        def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
            for tx, _ in group:
                working_for(tx.attempt)
                if tx.txid == at:
                    raise ValueError("refused")
            working_for_all(group)
            raise ValueError("all of it was refused")

    failed = commits(Refusing()).commit(STEP)
    assert isinstance(failed, StepFailed)
    assert failed.why.txid == at


def test_where_several_commit_in_one_step_the_one_that_raises_is_named() -> None:
    first, second = Output(), Output("totals", fails=True)
    both = evolve(STEP, branches=(0, 1), members=[evolve(member, receipts={0: "a", 1: "b"}) for member in STEP.members])
    failed = evolve(commits(first), participants=[first, second]).commit(both)
    assert isinstance(failed, StepFailed)
    assert failed.why.state == "totals"
    done = evolve(commits(first), participants=[first, Output("totals")]).commit(both)
    assert done == StepCommitted({(1, "counts and totals"): {"rows": 2}, (2, "counts and totals"): {"rows": 4}})


def test_nobody_commits_who_may_lead_no_more() -> None:
    def lost() -> None:
        raise CoordinationLost("no answer")

    output = Output()
    failed = commits(output, lost).commit(STEP)
    assert isinstance(failed, StepFailed)
    assert isinstance(failed.why.cause, StoreBusyException)
    assert output.told == []
    with pytest.raises(StoreBusyException):
        commits(output, lost).ensure_leading_now()


@pytest.mark.parametrize("fails", [False, True])
def test_giving_up_and_closing_go_on_whatever_is_raised(fails: bool) -> None:
    output, told = Output(fails=fails), []
    assert commits(output).abort(Abort(ONE, 10, 0, "a")) == Aborted()
    assert commits(output).close(lambda: told.append("reads")) == StatesClosed()
    assert output.told == [("abort", "1:0", "a"), "close"]
    assert told == ["reads"]
