"""The work on the commit thread: commit steps and aborts, one at a time, as the data plane requests them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field

from coordinators.values.attempt import FIRST_ATTEMPT_ID, TransactionAttempt
from coordinators.values.error_text import error_text, quoted
from trident_py.engine.plane.emitted import CommitCounts
from trident_py.engine.plane.instructions import Abort, CommitStep, InspectOutputs, TryCommit
from trident_py.engine.plane.stimuli import (
    Aborted,
    OutputsInspected,
    StatesClosed,
    StepCommitted,
    StepFailed,
    TrialCommitted,
    TrialFailed,
)
from trident_py.engine.ports.commit_thread import CommitThread
from trident_py.engine.threads.spout_executor import TridentSpoutExecutor
from trident_py.engine.threads.threads import Running
from trident_py.errors import CoordinationLost, FencedError, StoreBusyException, TridentError
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.participants.participant import Participant, SharedTransactions, everything
from trident_py.spark.failures import Diagnose, Place
from trident_py.worker.counters import CountScope, count_scope, summed, working_for, working_for_all

log = logging.getLogger(__name__)


@define(kw_only=True, eq=False)
class Commits:
    """Commits, aborts and closes outputs.

    Attributes:
        spouts: the emitters, by spout.
        participants: the outputs, by branch.
        transactions: those in which several of them commit.
        transaction: returns an attempt and its transaction's time in the form for states and sinks.
        ensure_leading: raises if another leader may exist.
        diagnose: returns the meaning of an exception.
        thread: shows the current work to waiting components.
        trial_seconds: as in `TridentConfig`.
        staging: the Spark job that a commit may be running before its transaction; written by the commit thread.
    """

    topology: str
    spouts: Mapping[str, TridentSpoutExecutor]
    participants: Sequence[Participant]
    transactions: SharedTransactions = field(factory=SharedTransactions)
    transaction: Callable[[TransactionAttempt, int], SinkTransaction]
    ensure_leading: Callable[[], None]
    diagnose: Diagnose
    thread: CommitThread
    trial_seconds: float
    staging: Running | None = field(default=None, init=False)

    def commit(self, step: CommitStep) -> StepCommitted | StepFailed:
        """Let an output commit a group, or a part of one.

        An output names the attempt at which it works (`working_for`), and this one counts as failed if it raises.
        """
        outputs = " and ".join(self.participants[branch].name for branch in step.branches)
        step_name, last = outputs or f"spout {step.spout!r}", step.members[-1].attempt
        scope, name = CountScope(last.txid if len(step.members) == 1 else None), step_name
        try:
            self.ensure_leading_now()
            with self.thread.doing(f"the commit of transaction {last.txid} ({step_name})"), count_scope(scope):
                for name in self._committing_spout(step) if step.spout else self._committing(step):
                    log.debug("transaction %d: %s committing", last.txid, name)
        except BaseException as error:
            blamed = next((each for each in step.members if each.attempt.txid == scope.txid), step.members[0])
            where = f"topology {self.topology!r}, attempt {blamed.attempt}, {name} committing"
            log.debug("%s failed", where, exc_info=quoted(error))
            why = evolve(self.diagnose(error, Place.COMMIT, where), txid=scope.txid)
            return StepFailed(why if step.spout else evolve(why, state=name), _counted(scope, step_name))
        return StepCommitted(_counted(scope, step_name))

    def _committing_spout(self, step: CommitStep) -> Iterator[str]:
        yield f"spout {step.spout!r}"
        for member in step.members:
            if member.number is not None:
                working_for(member.attempt)
                self.spouts[step.spout].commit(member.attempt, member.number, parks=member.parks is not None)

    def inspect(self, inspection: InspectOutputs) -> OutputsInspected:
        """Ask each output whether it can commit an attempt as an empty one, so that its transaction is left out."""
        attempt = inspection.attempt
        tx = evolve(self.transaction(attempt, 0), parks=attempt.attempt_id)
        with self.thread.doing(f"the outputs are asked whether they can leave transaction {attempt.txid} out"):
            for participant in everything(self.participants):
                try:
                    participant.ensure_parkable(tx, may_have_begun=inspection.may_have_begun)
                except FencedError:
                    raise
                except Exception as error:
                    log.debug("%s can't be parked", attempt, exc_info=quoted(error))
                    said = str(error) if isinstance(error, TridentError) else error_text(error)
                    return OutputsInspected(attempt.txid, f"{participant.name!r}: {said}")
        return OutputsInspected(attempt.txid, "")

    def try_commit(self, trial: TryCommit) -> TrialCommitted | TrialFailed:
        """Let each output commit a trial, and undo it; those that can't undo a commit are left out.

        If that takes too long, it is a fatal failure of the trial: commits would wait again for the next one.
        """
        tx, name, untried = self.transaction(trial.attempt, trial.time), "", list[str]()
        began = time.monotonic()
        try:
            self.ensure_leading_now()
            with self.thread.doing(f"the outputs try {trial.attempt}"), count_scope(CountScope(trial.attempt.txid)):
                working_for(trial.attempt)
                for branch, prepared in trial.receipts.items():
                    participant = self.participants[branch]
                    name = participant.name
                    receipt = self._before_commit(branch, tx, prepared)
                    if not self.transactions.tries(participant, tx, receipt):
                        untried.append(name)
                    self._ensure_short(time.monotonic() - began)
        except BaseException as error:
            where = f"topology {self.topology!r}, {trial.attempt}, {name} committing"
            log.debug("%s failed", where, exc_info=quoted(error))
            return TrialFailed(trial.attempt, evolve(self.diagnose(error, Place.COMMIT, where), state=name))
        return TrialCommitted(trial.attempt, tuple(untried))

    def _ensure_short(self, seconds: float) -> None:
        if seconds > self.trial_seconds:
            raise TridentError(
                f"commits had to wait {seconds:.1f} s for a trial, and trial_seconds allows {self.trial_seconds:g} s. "
                f"To fix this: raise trial_seconds, if the topology may wait so long"
            )

    def _committing(self, step: CommitStep) -> Iterator[str]:
        """Commit; yield the name of each output before it commits, and finally the names of all, before COMMIT."""
        group = [
            evolve(self.transaction(member.attempt, member.time), group_first=step.group_first)
            for member in step.members
        ]
        last, receipts = step.members[-1], dict[int, list[Any]]()
        for branch in step.branches:
            if branch not in last.idle and last.parks is None:
                yield self.participants[branch].name
                found = [member.receipts[branch] for member in step.members]
                receipts[branch] = [self._before_commit(branch, *each) for each in zip(group, found, strict=True)]
        with self.transactions.committing(step.branches, group[-1]):
            for branch in step.branches:
                participant = self.participants[branch]
                parks = FIRST_ATTEMPT_ID if branch in last.idle else last.parks
                yield participant.name
                if parks is None:
                    participant.commit_group([*zip(group, receipts[branch], strict=True)])
                    working_for_all(group)
                else:
                    participant.park(evolve(group[-1], parks=parks))
            yield " and ".join(self.participants[branch].name for branch in step.branches)

    def _before_commit(self, branch: int, tx: SinkTransaction, receipt: Any) -> Any:
        participant = self.participants[branch]
        if not participant.capabilities.stages_in_commit:
            return receipt
        self.staging = staging = Running()
        working_for(tx.attempt)
        try:
            staging.enter_spark()
            return participant.before_commit(tx, receipt)
        finally:
            self.staging = None
            staging.end()

    def ensure_leading_now(self) -> None:
        """Return if no other leader may exist.

        Raises:
            StoreBusyException: unknown, perhaps only for a moment.
            FencedError: another process leads.
        """
        try:
            self.ensure_leading()
        except CoordinationLost as error:
            # This commit or read doesn't start, and the driver's own next turn decides.
            raise StoreBusyException(str(error)) from error

    def abort(self, abort: Abort) -> Aborted:
        """Let one output discard its prepared work."""
        participant = self.participants[abort.branch]
        try:
            participant.abort(self.transaction(abort.attempt, abort.time), abort.receipt)
        except BaseException as error:
            # It will never commit in any case; the next takeover removes what it staged.
            log.error(
                "topology %s: %s could not discard its work for %s",
                self.topology,
                participant.name,
                abort.attempt,
                exc_info=quoted(error),
            )
        return Aborted()

    def close(self, more: Callable[[], None]) -> StatesClosed:
        """Close the outputs, and then call ``more``."""
        for close in (*(participant.close for participant in self.participants), more):
            try:
                close()
            except Exception as error:
                log.error(
                    "topology %s: an output could not be closed; committed transactions are safe",
                    self.topology,
                    exc_info=quoted(error),
                )
        return StatesClosed()


def _counted(scope: CountScope, output: str) -> CommitCounts:
    counts: dict[tuple[int, str], Mapping[str, int]] = {}
    for (txid, _), by_name in scope.counts.items():
        if txid is not None:
            counts[txid, output] = summed(counts.get((txid, output), {}), by_name)
    return counts
