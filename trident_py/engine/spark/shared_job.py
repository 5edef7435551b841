"""Shared jobs: one Spark job for a branch of several small attempts joins their rows and separates their changes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
from attrs import define, field
from pyspark.sql import SparkSession

from coordinators.protocol.messages import Acked, Fingerprinted, Message
from coordinators.protocol.protocol import StreamId
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.error_text import error_text
from trident_py.engine.plane.emitted import fingerprints_of
from trident_py.engine.plane.work import JobMember, Processed
from trident_py.engine.ports.batch_engine import BatchWork
from trident_py.planner.plan import Branch
from trident_py.planner.sharing import SharedBranch, shared
from trident_py.spark import jobs
from trident_py.spark.counting import CountingJob, CountingJobs
from trident_py.spark.frames import frame_of_rows, withheld_row
from trident_py.spark.rowwise import is_rowwise
from trident_py.spark.session import beside
from trident_py.worker.counters import NodeCounts
from trident_py.worker.failures import task_failures_told

log = logging.getLogger(__name__)

WARM_UP_JOBS = 2
"""How often a branch is run ahead of its first batch: the first time takes 450 ms, the second 100, later ones 90."""

SMALL_JOBS = {
    "spark.sql.adaptive.enabled": "false",  # it turns every stage into a job, to measure the data: they are small
    "spark.sql.shuffle.partitions": "1",
}
"""Settings that make a small job cheap. All threads of a session share them, so these jobs have another session."""


@contextmanager
def small_session(session: SparkSession) -> Iterator[SparkSession]:
    """Yield a session next to ``session`` for small jobs; the user's functions and views are not available in it."""
    with beside(session) as small:
        for name, value in SMALL_JOBS.items():
            small.conf.set(name, value)
        yield small


def shareable(session: SparkSession, branches: Sequence[Branch]) -> Mapping[int, SharedBranch]:
    """Return the branches in which several small attempts can run together, by number."""
    alike = {number: shared(branch, partial(is_rowwise, session)) for number, branch in enumerate(branches)}
    return {number: each for number, each in alike.items() if each}


def warm_up(session: SparkSession, topology: str, branches: Collection[SharedBranch]) -> None:
    """Run ``branches`` without rows, so that the JVM and Python workers have loaded what their jobs need.

    The workers import the user's code, and no function sees a row. Nothing is written.
    """
    for branch in branches:
        name = branch.branch.name
        for _ in range(WARM_UP_JOBS):
            try:
                with jobs.described(session, f"{topology}: → {name}, ahead of its first batch"):
                    branch.build(withheld_row(session, branch.source)).toArrow()
            except Exception as error:  # noqa: BLE001 - the first batch will fail, too, and be judged
                why = error_text(error)[:500]
                log.warning("topology %s: %s can't be run ahead of its first batch: %s", topology, name, why)
                break


@define(kw_only=True, eq=False)
class SharedJobs:
    """Processes small attempts together.

    Attributes:
        session: for small jobs.
        work: the leadership's.
        branches: the shareable branches, by number.
    """

    session: SparkSession
    work: BatchWork
    branches: Mapping[int, SharedBranch]
    _counting: CountingJobs = field(init=False)
    _nothing: dict[int, pa.Table] = field(factory=dict, init=False)  # of no rows, such a branch makes no rows

    def __attrs_post_init__(self) -> None:
        self._counting = CountingJobs(self.session)

    def process(self, members: Sequence[JobMember], index: int) -> list[Processed]:
        """Run branch ``index`` of these attempts; return the result of each. Called on a job thread."""
        return self._counting.run(index, lambda counting: self._process(members, index, counting))

    def _process(self, members: Sequence[JobMember], index: int, counting: CountingJob) -> list[Processed]:
        branch, names, output = self.branches[index], self.work.names, self.work.participants[index].name
        attempts, rows = [member.attempt for member in members], self.rows_of(members, index)
        tag, description = names.shared_tag(attempts), names.description(attempts, f"→ {output}")
        if rows.num_rows or index not in self._nothing:
            with jobs.tagged(self.session, tag, description), task_failures_told():
                # In one partition: all of it is one task, without a shuffle.
                made = branch.build(frame_of_rows(self.session, rows, branch.source).coalesce(1)).toArrow()
            self._nothing[index] = made.schema.empty_table()
        else:
            made = self._nothing[index]
        return self.results(members, index, made, counting.heard())

    def rows_of(self, members: Sequence[JobMember], index: int) -> pa.Table:
        """Return the input of branch ``index``: the rows of all members, each with its txid as the first field."""
        branch = self.branches[index]
        return branch.together({member.attempt.txid: member.inputs[branch.spout].batch.table for member in members})

    def results(
        self,
        members: Sequence[JobMember],
        index: int,
        made: pa.Table,
        counted: Mapping[tuple[int | None, str], NodeCounts],
    ) -> list[Processed]:
        """Return the result of each member from the combined output of branch ``index``, and all counts."""
        branch, participant = self.branches[index], self.work.participants[index]
        changes = branch.apart(made, [member.attempt.txid for member in members])
        counts: dict[int, dict[str, NodeCounts]] = {member.attempt.txid: {} for member in members}
        for (txid, node), each in counted.items():
            # A function that is called for no single row is called for all of them: its counts go to the first.
            counts[members[0].attempt.txid if txid is None else txid][node] = each
        reports = self._reports(members, branch.spout)
        return [
            Processed(
                participant.keep(self.work.transaction(member.attempt, member.time), changes[member.attempt.txid]),
                reports[number],
                counts=counts[member.attempt.txid],
                written=changes[member.attempt.txid].num_rows,
            )
            for number, member in enumerate(members)
        ]

    def _reports(self, members: Sequence[JobMember], spout: str) -> list[list[Message]]:
        """Return the reports of each member: the fingerprint of an exact spout's rows, and the ack."""
        given = [member.inputs[spout] for member in members]
        acks = [Acked(member.attempt, StreamId.BATCH, each.edge) for member, each in zip(members, given, strict=True)]
        if spout not in self.work.exact:
            return [[ack] for ack in acks]
        seen = fingerprints_of([each.batch for each in given])
        return [
            [Fingerprinted(ack.attempt, spout, fingerprint), ack] if fingerprint else [ack]
            for ack, fingerprint in zip(acks, seen, strict=True)
        ]

    def cancel(self, attempts: Sequence[TransactionAttempt]) -> None:
        """Cancel the running job of these attempts."""
        jobs.cancel(self.session, self.work.names.shared_tag(attempts))
