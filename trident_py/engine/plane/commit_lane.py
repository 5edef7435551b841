"""`CommitLane`: a queue for all work that uses states and sinks: commits, aborts, reads, and their close.

User states need not be thread-safe, nor readable while they are written. And an abort or a read between the steps of a
commit could see a state that no transaction has left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import product, takewhile
from typing import TypeAlias

from attrs import define, field, frozen

from coordinators.protocol.messages import Acked, Diagnosis, Failed
from coordinators.protocol.protocol import StreamId
from coordinators.record.record import CoordinatorRecord
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import our_bug
from trident_py.engine.plane.bolt_executor import TridentBoltExecutor
from trident_py.engine.plane.instructions import (
    Abort,
    Answer,
    CloseStates,
    CommitStep,
    InspectOutputs,
    Instruction,
    Post,
    ReadLetters,
    Refuse,
    TryCommit,
)
from trident_py.engine.plane.stimuli import ReadWanted
from trident_py.engine.plane.work import CommitMember, TopologyShape
from trident_py.participants.capabilities import Capabilities

_COMMITTER_SPOUT = Capabilities(is_fenced=False)


@frozen(kw_only=True)
class CommitOutput:
    """A participant in one commit step: a committer spout, or the outputs of branches; see `BranchShape`.

    Attributes:
        branches: one, or several with outputs that commit in one transaction of a database.
        capabilities: their common capabilities.
    """

    name: str
    spout: str = ""
    branches: tuple[int, ...] = ()
    capabilities: Capabilities = _COMMITTER_SPOUT


def outputs_of(shape: TopologyShape, together: Sequence[Collection[int]] = ()) -> tuple[CommitOutput, ...]:
    """Return the outputs that commit, in their order: the committer spouts, then states and sinks.

    Args:
        shape: of the topology.
        together: the groups of branches that commit in one step, at the position of their first; others commit alone.
    """
    spouts = [CommitOutput(name=f"spout {each.name!r}", spout=each.name) for each in shape.spouts if each.is_committer]
    by_branch = {branch: tuple(sorted(branches)) for branches in together for branch in branches}
    committing = [number for number, each in enumerate(shape.branches) if each.capabilities.commits]
    steps = dict.fromkeys(by_branch.get(number, (number,)) for number in committing)
    return (*spouts, *(_output_of(shape, branches) for branches in steps))


def _output_of(shape: TopologyShape, branches: tuple[int, ...]) -> CommitOutput:
    found = [shape.branches[branch] for branch in branches]
    return CommitOutput(
        name=" and ".join(each.name for each in found),
        branches=branches,
        capabilities=found[0].capabilities.committing_with(each.capabilities for each in found[1:]),
    )


def partial_commit_txid(last: Collection[int], record: CoordinatorRecord, *, all_remember: bool) -> int:
    """Return the last transaction that some states may have, and some not; 0 if there is no such transaction.

    Args:
        last: the last transaction of each state that remembers it.
        record: the record with which the takeover continues.
        all_remember: whether these are all states.
    """
    ahead = max(last, default=0)
    if ahead >= record.current_txid and len(set(last)) > 1:
        return ahead
    return record.current_txid if record.committing and not all_remember else 0


@frozen
class GroupMember:
    """An attempt that commits with others, and its edges, by output."""

    executor: TridentBoltExecutor
    edges: Sequence[int]


@define
class CommitGroup:
    """Consecutive attempts that commit in txid order: a group commit.

    The group is divided into cuts: the small attempts that follow each other are one cut, a large attempt is a cut by
    itself. Each output commits a cut in one step, one output after the other. The transactions of a cut are closed when
    the last output has it, not with the whole group, and so new batches may start in their place.

    Attributes:
        first: its first transaction.
        waiting: the attempts that were in no cut yet.
        members: the attempts of the present cut.
        output: the number of the output that commits the cut now.
    """

    first: int
    waiting: list[GroupMember]
    members: list[GroupMember] = field(factory=list)
    output: int = 0

    def cut(self) -> None:
        """Begin the next cut."""
        small = list(takewhile(lambda member: member.executor.is_small, self.waiting))
        self.members, self.output = small or self.waiting[:1], 0
        del self.waiting[: len(self.members)]

    def blamed(self, txid: int | None) -> TransactionAttempt:
        """Return the attempt in the present cut that counts as failed if ``txid`` did; None: it is unknown which."""
        attempts = [member.executor.attempt for member in self.members]
        return next((attempt for attempt in attempts if attempt.txid == txid), attempts[0])

    @property
    def txid(self) -> int:
        """The last transaction of the present cut."""
        return self.members[-1].executor.attempt.txid


LaneItem: TypeAlias = (
    CommitGroup | Abort | InspectOutputs | ReadLetters | TridentBoltExecutor | ReadWanted | CloseStates
)
"""An item that waits in the lane; an executor is a trial."""


@define(eq=False)
class CommitLane:
    """A FIFO queue, in which trials let commits pass: runs one commit step, abort or read at a time.

    Attributes:
        outputs: the outputs that commit, in their order.
        partial_commit_txid: a transaction that may be in some outputs but not in all: its commit has begun, and did not
            finish; 0: none.
        committed_txid: the last transaction that all outputs have, if none is partially committed.
    """

    outputs: tuple[CommitOutput, ...]
    partial_commit_txid: int = 0
    committed_txid: int = 0
    _queue: deque[LaneItem] = field(factory=deque, init=False)
    _current: CommitGroup | Abort | InspectOutputs | ReadLetters | TryCommit | Answer | CloseStates | None = field(
        default=None, init=False
    )
    # until no transaction is partially committed
    _postponed: list[LaneItem] = field(factory=list, init=False)
    _is_closing: bool = field(default=False, init=False)

    def add(self, item: LaneItem) -> Iterator[Instruction]:
        """Enqueue ``item``, and start it if the lane is free."""
        if self._is_closing and isinstance(item, ReadWanted):
            yield Refuse(item.read)
            return
        self._queue.append(item)
        yield from self._next()

    def step_committed(self) -> Iterator[Instruction]:
        """Mark the running commit step as committed."""
        group = self._ended_step()
        for member in group.members:
            for branch in self.outputs[group.output].branches:
                member.executor.commit(branch)
            yield Post(Acked(member.executor.attempt, StreamId.COMMIT, member.edges[group.output]))
        group.output += 1
        if group.output < len(self.outputs):
            self._queue.appendleft(group)
        else:
            self._end_cut(group)
        yield from self._next()

    def step_failed(self, why: Diagnosis) -> Iterator[Instruction]:
        """Mark the running commit step as failed. Its effects are unknown; the other outputs don't commit it.

        Only one member is reported: the one that failed, else the first. The master cancels the whole group, and every
        later transaction.
        """
        group = self._ended_step()
        output = self.outputs[group.output]
        spouts = (output.spout,) if output.spout else ()
        yield Post(Failed(group.blamed(why.txid), why.cause, why.kind, spouts, why.state))
        executors = [member.executor for member in reversed(group.members)]
        for executor, branch in product(executors, reversed(output.branches)):
            receipt = executor.take_back(branch)
            if executor.is_cancelled:  # the states may wait to be closed: discard the receipt before
                self._queue.appendleft(Abort(executor.attempt, executor.time, branch, receipt))
        yield from self._next()

    def ended(
        self, kind: type[Abort | InspectOutputs | ReadLetters | TryCommit | Answer | CloseStates]
    ) -> Iterator[Instruction]:
        """Mark the running item, which is no commit, as finished."""
        assert isinstance(self._current, kind), our_bug(f"{kind.__name__} ended, and {self._current} is done")
        self._current = None
        yield from self._next()

    def close(self) -> Iterator[Instruction]:
        """Close the lane: no commit or read starts any more; waiting aborts are still done."""
        self._is_closing = True
        ended = [*self._postponed, *self._queue]
        self._queue = deque(item for item in self._queue if isinstance(item, Abort))
        self._postponed = []
        for item in ended:
            if isinstance(item, ReadWanted):
                yield Refuse(item.read)

    @property
    def is_idle(self) -> bool:
        """Whether no item runs or waits."""
        return self._current is None and not self._queue

    @property
    def unfenced(self) -> str:
        """The output that commits without a fence just now; empty: none does."""
        group = self._current
        if not isinstance(group, CommitGroup) or self.outputs[group.output].capabilities.is_fenced:
            return ""
        return f"{self.outputs[group.output].name} committing"

    @property
    def is_alive(self) -> bool:
        """Whether the running item visibly makes progress: then a commit that runs or waits doesn't time out."""
        match self._current:
            case CommitGroup() as group:
                return self.outputs[group.output].capabilities.keeps_alive
            case Answer() | TryCommit():
                return True
        return False

    def is_staging(self, attempt: TransactionAttempt) -> bool:
        """Return whether the commit of ``attempt`` runs, and may be running a Spark job before its transaction."""
        match self._current:
            case CommitGroup(members=[GroupMember(executor=executor)]) as group:
                return executor.attempt == attempt and self.outputs[group.output].capabilities.stages_in_commit
            case TryCommit(attempt=tried):
                return tried == attempt and any(each.capabilities.stages_in_commit for each in self.outputs)
        return False

    # --- one after the other ------------------------------------------------------------------------------------------

    def _next(self) -> Iterator[Instruction]:
        while self._current is None and self._queue:
            match self._queue.popleft():
                case CommitGroup() as group:
                    yield from self._begin_step(group)
                case (ReadWanted(whole=True) | TridentBoltExecutor() | ReadLetters()) as wanted if (
                    self.partial_commit_txid
                ):
                    self._postponed.append(wanted)
                case TridentBoltExecutor() as trial:
                    yield from self._try(trial)
                case ReadWanted(read):
                    self._current = Answer(read, self.committed_txid)
                    yield self._current
                case (Abort() | InspectOutputs() | ReadLetters() | CloseStates()) as item:
                    self._current = item
                    yield item

    def _try(self, trial: TridentBoltExecutor) -> Iterator[Instruction]:
        if trial.is_cancelled:
            return
        if any(isinstance(each, CommitGroup) for each in self._queue):
            self._queue.append(trial)  # commits first
            return
        receipts = {branch: trial.receipt(branch) for each in self.outputs for branch in each.branches}
        self._current = TryCommit(trial.attempt, trial.time, receipts)
        yield self._current

    def _begin_step(self, group: CommitGroup) -> Iterator[Instruction]:
        if not group.members:
            group.cut()
        if any(member.executor.is_cancelled for member in group.members) or self._is_closing:
            return  # the attempts after it were cancelled with it
        if not self.outputs:
            return  # the acker has ended this phase: its ledger is empty
        output = self.outputs[group.output]
        if not output.spout:
            self.partial_commit_txid = max(group.txid, self.partial_commit_txid)
        self._current = group
        yield self._step(group, output)

    def _step(self, group: CommitGroup, output: CommitOutput) -> CommitStep:
        members = [
            CommitMember(
                member.executor.attempt,
                member.executor.batch.commits,
                member.executor.time,
                {branch: member.executor.hand_over(branch) for branch in output.branches},
                member.executor.batch.parks,
                member.executor.idle,
            )
            for member in group.members
        ]
        return CommitStep(output.spout, output.branches, members, group.first)

    def _ended_step(self) -> CommitGroup:
        group, self._current = self._current, None
        assert isinstance(group, CommitGroup), our_bug(f"a commit step ended, and {group} is done")
        return group

    def _end_cut(self, group: CommitGroup) -> None:
        """End a cut that all outputs have; some may have later transactions, which an earlier attempt committed."""
        txid = group.txid
        if group.waiting:
            group.cut()
            self._queue.appendleft(group)
        self.committed_txid = max(txid, self.committed_txid)
        if txid >= self.partial_commit_txid:
            self.partial_commit_txid = 0
            self._queue.extendleft(reversed(self._postponed))
            self._postponed = []
