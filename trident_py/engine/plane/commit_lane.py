"""`CommitLane`: everything that uses states and sinks, one after the other: commits, aborts, reads, and their close.

States of a user's need not be safe for threads, nor for being read while they are written; and an abort or a read that
came between the steps of a commit could see what no transaction has left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import product, takewhile

from attrs import define, field, frozen

from coordinators.protocol.messages import Acked, Diagnosis, Failed
from coordinators.protocol.protocol import StreamId
from coordinators.record.record import CoordinatorRecord
from coordinators.values.errors import our_bug
from trident_py.engine.plane.bolt_executor import TridentBoltExecutor
from trident_py.engine.plane.instructions import Abort, Answer, CloseStates, CommitStep, Instruction, Post, Refuse
from trident_py.engine.plane.stimuli import ReadWanted
from trident_py.engine.plane.work import CommitMember, TopologyShape
from trident_py.participants.capabilities import Capabilities

_COMMITTER_SPOUT = Capabilities(is_fenced=False)


@frozen(kw_only=True)
class CommitOutput:
    """What commits in one step: a committer spout, or the outputs of branches; see `BranchShape`.

    Attributes:
        branches: one, or those whose outputs commit in one transaction of a database.
        capabilities: what these can do together.
    """

    name: str
    spout: str = ""
    branches: tuple[int, ...] = ()
    capabilities: Capabilities = _COMMITTER_SPOUT


def outputs_of(shape: TopologyShape, together: Sequence[Collection[int]] = ()) -> tuple[CommitOutput, ...]:
    """Return those that commit, in their order: the committer spouts, then states and sinks.

    Args:
        shape: of the topology.
        together: the branches that commit in one step, which has the place of their first; others have one each.
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
    """Return what a takeover finds torn: the last transaction that some states may have, and some not.

    0: there is none.

    Args:
        last: the last transaction of each state that remembers it.
        record: what the takeover goes on from.
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
    """Attempts that commit one behind the other: a group commit.

    Every output commits small ones in one step; a large one is a step of its own, so that what waits for the place
    it takes up may start.

    Attributes:
        first: its first transaction.
        waiting: those that no step has had yet.
        members: those of the present step.
        output: the number of the output that has the step.
    """

    first: int
    waiting: list[GroupMember]
    members: list[GroupMember] = field(factory=list)
    output: int = 0

    def cut(self) -> None:
        """Turn to the next step."""
        small = list(takewhile(lambda member: member.executor.is_small, self.waiting))
        self.members, self.output = small or self.waiting[:1], 0
        del self.waiting[: len(self.members)]

    @property
    def txid(self) -> int:
        """The last transaction of the present step."""
        return self.members[-1].executor.attempt.txid


@define(eq=False)
class CommitLane:
    """Has one thing done at a time, in the order in which they came.

    Attributes:
        outputs: those that commit, in their order.
        partial_commit_txid: a transaction that some outputs may have and others don't have yet: its commit has begun,
            and did not get to its end; 0: none.
        committed_txid: the last transaction that all outputs have, where none is torn.
    """

    outputs: tuple[CommitOutput, ...]
    partial_commit_txid: int = 0
    committed_txid: int = 0
    _queue: deque[CommitGroup | Abort | ReadWanted | CloseStates] = field(factory=deque, init=False)
    _current: CommitGroup | Abort | Answer | CloseStates | None = field(default=None, init=False)
    _parked: list[ReadWanted] = field(factory=list, init=False)  # until no transaction is torn
    _is_closing: bool = field(default=False, init=False)

    def add(self, item: CommitGroup | Abort | ReadWanted | CloseStates) -> Iterator[Instruction]:
        """Have ``item`` done after what came before it."""
        if self._is_closing and isinstance(item, ReadWanted):
            yield Refuse(item.read)
            return
        self._queue.append(item)
        yield from self._next()

    def step_committed(self) -> Iterator[Instruction]:
        """End the step that was asked for: it is done."""
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
        """End the step that was asked for: it has raised. Nobody knows what it has done; the others don't follow."""
        group = self._ended_step()
        output = self.outputs[group.output]
        spouts = (output.spout,) if output.spout else ()
        yield Post(Failed(group.members[0].executor.attempt, why.cause, why.kind, spouts, why.state))
        executors = [member.executor for member in reversed(group.members)]
        for executor, branch in product(executors, reversed(output.branches)):
            receipt = executor.take_back(branch)
            if executor.is_cancelled:  # the states may wait to be closed: it is given up before
                self._queue.appendleft(Abort(executor.attempt, executor.time, branch, receipt))
        yield from self._next()

    def ended(self, kind: type[Abort | Answer | CloseStates]) -> Iterator[Instruction]:
        """End the abort, read or close that was asked for."""
        assert isinstance(self._current, kind), our_bug(f"{kind.__name__} ended, and {self._current} is done")
        self._current = None
        yield from self._next()

    def close(self) -> Iterator[Instruction]:
        """Close: nothing commits any more, and nobody reads; what is to be given up is."""
        self._is_closing = True
        reads = [*self._parked, *(item for item in self._queue if isinstance(item, ReadWanted))]
        self._queue = deque(item for item in self._queue if isinstance(item, Abort))
        self._parked = []
        for wanted in reads:
            yield Refuse(wanted.read)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is done, and nothing waits."""
        return self._current is None and not self._queue

    @property
    def unfenced(self) -> str:
        """What commits without a fence just now; empty: nothing does."""
        group = self._current
        if not isinstance(group, CommitGroup) or self.outputs[group.output].capabilities.is_fenced:
            return ""
        return f"{self.outputs[group.output].name} committing"

    @property
    def is_alive(self) -> bool:
        """Whether what is done visibly goes on: whoever commits is not silent, also while it waits for that."""
        match self._current:
            case CommitGroup() as group:
                return self.outputs[group.output].capabilities.keeps_alive
            case Answer():
                return True
        return False

    # --- one after the other ------------------------------------------------------------------------------------------

    def _next(self) -> Iterator[Instruction]:
        while self._current is None and self._queue:
            match self._queue.popleft():
                case CommitGroup() as group:
                    yield from self._begin_step(group)
                case ReadWanted(whole=True) as wanted if self.partial_commit_txid:
                    self._parked.append(wanted)
                case ReadWanted(read):
                    self._current = Answer(read, self.committed_txid)
                    yield self._current
                case (Abort() | CloseStates()) as item:
                    self._current = item
                    yield item

    def _begin_step(self, group: CommitGroup) -> Iterator[Instruction]:
        if not group.members:
            group.cut()
        if any(member.executor.is_cancelled for member in group.members) or self._is_closing:
            return  # those behind it were cancelled with it
        if not self.outputs:
            return
        output = self.outputs[group.output]
        if not output.spout:
            self.partial_commit_txid = max(group.txid, self.partial_commit_txid)
        self._current = group
        yield self._step(group, output)

    def _step(self, group: CommitGroup, output: CommitOutput) -> CommitStep:
        members = [
            CommitMember(
                member.executor.attempt,
                member.executor.number,
                member.executor.time,
                {branch: member.executor.hand_over(branch) for branch in output.branches},
            )
            for member in group.members
        ]
        return CommitStep(output.spout, output.branches, members, group.first)

    def _ended_step(self) -> CommitGroup:
        group, self._current = self._current, None
        assert isinstance(group, CommitGroup), our_bug(f"a commit step ended, and {group} is done")
        return group

    def _end_cut(self, group: CommitGroup) -> None:
        """End a step that all outputs have; some may have later transactions, which an earlier attempt committed."""
        txid = group.txid
        if group.waiting:
            group.cut()
            self._queue.appendleft(group)
        self.committed_txid = max(txid, self.committed_txid)
        if txid >= self.partial_commit_txid:
            self.partial_commit_txid = 0
            self._queue.extendleft(reversed(self._parked))
            self._parked = []
