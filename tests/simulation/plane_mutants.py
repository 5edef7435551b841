"""The data plane with one rule switched off: what the mutation gate needs to be caught."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve

from coordinators.driver.batch_streams import Batch
from coordinators.protocol.messages import Diagnosis, SuccessDelivered
from tests.simulation.rules import Rules
from trident_py.engine.plane.bolt_executor import TridentBoltExecutor
from trident_py.engine.plane.commit_lane import CommitGroup, CommitLane, CommitOutput
from trident_py.engine.plane.instructions import CommitStep, Instruction, Post
from trident_py.engine.plane.plane import DataPlane
from trident_py.engine.plane.stimuli import Emitted
from trident_py.engine.plane.work import Half, Job, JobMember, TopologyShape
from trident_py.engine.resident.pool import Action, GiveBack, ResidentPool
from trident_py.worker.wire import Frame


class CommittingBackwards(CommitLane):
    """Commits the members of a group in the wrong order."""

    __slots__ = ()

    def add(self, item: Any) -> Iterator[Instruction]:
        if isinstance(item, CommitGroup):
            item.waiting.reverse()
        yield from super().add(item)


class KnowingStepsOnly(CommitLane):
    """Takes each step of a group for a group of its own: so a takeover can't tell how far its steps may have come."""

    __slots__ = ()

    def _step(self, group: CommitGroup, output: CommitOutput) -> CommitStep:
        return evolve(super()._step(group, output), group_first=group.members[0].executor.attempt.txid)


class BlamingTheFirst(CommitLane):
    """Counts a failed commit of a group as a failure of its first transaction."""

    __slots__ = ()

    def step_failed(self, why: Diagnosis) -> Iterator[Instruction]:
        yield from super().step_failed(evolve(why, txid=None))


class ReadingAnyTime(CommitLane):
    """Lets states be read whole while some have a transaction that others don't have yet."""

    __slots__ = ()

    def _next(self) -> Iterator[Instruction]:
        torn, self.partial_commit_txid = self.partial_commit_txid, 0
        yield from super()._next()
        self.partial_commit_txid = max(torn, self.partial_commit_txid)


class Believing(DataPlane):
    """Runs all again where a job is said to have failed by a transaction that it hasn't."""

    __slots__ = ()

    def _divided(self, job: Job, executors: Any, why: Diagnosis) -> Any:
        if why.txid is not None and why.txid not in [attempt.txid for attempt in job.attempts]:
            return None, [job.attempts]
        return super()._divided(job, executors, why)


class Hasty(TridentBoltExecutor):
    """Starts a branch with what the first of its spouts has emitted."""

    __slots__ = ()

    def take(self, emitted: Emitted) -> Iterator[int]:
        found = [branch for branch in emitted.edges if self.branches[branch].isdisjoint(self._emitted)]
        list(super().take(emitted))
        yield from found

    def member(self, branch: int) -> JobMember:
        whole = self.branches
        self.branches = [spouts & self._emitted.keys() for spouts in whole]
        member = super().member(branch)
        self.branches = whole
        return member


class StartingEarly(DataPlane):
    """Doesn't wait for all that a branch reads."""

    __slots__ = ()

    def _announce(self, batch: Batch) -> Iterator[Instruction]:
        yield from super()._announce(batch)
        self._executors[batch.attempt].__class__ = Hasty


class TakingOneForAll(DataPlane):
    """Takes a success for delivered when the first half of a spout has it."""

    __slots__ = ()

    def _hear_of_success(self, txid: int, spout: str, half: Half) -> Iterator[Instruction]:
        if self._untold.pop(txid, None):
            yield Post(SuccessDelivered(txid))


class AnsweringByConnection(ResidentPool):
    """Takes whatever comes over a connection for the answer that it waits for."""

    __slots__ = ()

    def answer(self, link: int, number: int, answer: Frame) -> list[Action]:
        awaited = self._awaited.get(link)
        return super().answer(link, awaited.number if awaited else number, answer)


class TakingLateAnswers(ResidentPool):
    """Also takes the answer to what it has given back."""

    __slots__ = ()

    def _left(self, link: int, is_late: bool = False) -> list[Action]:
        awaited = self._awaited.get(link)
        actions = super()._left(link, is_late)
        if awaited is not None:
            self._awaited[link] = awaited
        return actions


class GivingNothingBack(ResidentPool):
    """Waits for ever for what a lost task had."""

    __slots__ = ()

    def _left(self, link: int, is_late: bool = False) -> list[Action]:
        return [each for each in super()._left(link, is_late) if not isinstance(each, GiveBack)]


POOLS: dict[str, type[ResidentPool]] = {
    "answers by number": AnsweringByConnection,
    "late answers dropped": TakingLateAnswers,
    "given back": GivingNothingBack,
}

PLANES: dict[str, type[DataPlane]] = {
    "named failures": Believing,
    "joined inputs": StartingEarly,
    "every spout hears": TakingOneForAll,
}


def plane_of(shape: TopologyShape, rules: Rules) -> DataPlane:
    """The product's data plane, without the rules that are off."""
    plane = DataPlane(shape=shape)
    if not rules.has("runs in order"):
        plane._lane.__class__ = CommittingBackwards
    if not rules.has("the one that failed"):
        plane._lane.__class__ = BlamingTheFirst
    if not rules.has("known groups"):
        plane._lane.__class__ = KnowingStepsOnly
    if not rules.has("reads between commits"):
        plane._lane.__class__ = ReadingAnyTime
    for rule in rules.off:
        plane.__class__ = PLANES.get(rule, plane.__class__)
    return plane


def pool_of(rules: Rules) -> ResidentPool:
    """The product's pool of resident tasks, without the rule that is off."""
    return next((POOLS[rule] for rule in rules.off if rule in POOLS), ResidentPool)()
