"""The rules that keep a topology safe, each of which can be switched off to see what it is good for."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, story: str) -> None:
        super().__init__(invariant, story)
        self.invariant = invariant

    def __str__(self) -> str:
        return ": ".join(self.args)


RULES = {
    "guarded writes": "only the process that claimed the latest epoch can write a record",
    "blobs first": "if a record takes several writes, no process reads the first ones before the last is done",
    "parts still there": "the head of a record is stored only while the parts that it names exist",
    "raised fences": "before anything else, a takeover makes every store refuse older leaders",
    "epoch in token": "a store compares the epoch",
    "attempt in token": "a store distinguishes a late attempt from the current one of the same epoch",
    "txids in order": "a store accepts only the next transaction",
    "kept commits": "a leader doesn't commit to a store that has lost a commit known to the leader",
    "undo": "changes of an older attempt are rolled back before a newer attempt is applied",
    "compared content": "a store that can't undo refuses other content under the same txid",
    "verified staging": "a commit merges all reported rows, or fails",
    "values as of the one before": "tasks that change a state read its values as of the transaction before",
    "reconciliation": "a takeover compares the states with the record",
    "store, then announce": "an announcement comes only after the data that it depends on are durable",
    "owed successes": "a takeover delivers the successes that an earlier leader owed",
    "tail replays": "a failure cancels every later transaction too",
    "attempts compared": "a takeover compares the attempt of the last transaction in a state with the committed one",
    "standing definitions": "an exact transaction is defined only once",
    "stored extents": "the content of an exact batch, as emitted, is durable before its commit",
    "moved cursors": "cursors that an emission moved are durable with the close of its transaction",
    "texts of this moment": "a write of the record has the definitions of that moment, although their texts are kept",
    "written successes": "a success counts as delivered only if the written record has the commit",
    "all reports": "a phase is finished only after all work that follows from it was reported",
    "unknown is not done": "a commit without an answer doesn't count as done",
    "runs in order": "transactions that commit together commit in txid order",
    "rows apart": "results of transactions that share a job stay separate",
    "known members": "a store knows the members of its last group, and skips one that is replayed",
    "kept times": "a transaction keeps its time over replays and takeovers, and no later one has an earlier time",
    "named failures": "if a shared job fails and names a transaction that is not in it, the job is bisected",
    "the one that failed": "if a commit of several transactions fails by one of them, this one counts as failed",
    "given back": "if a resident task is lost or late, its request runs as a job",
    "answers by number": "only the answer to the request that is awaited counts",
    "late answers dropped": "the answer to a request that was given back is dropped",
    "reads between commits": "states are read whole only while all have the same transactions",
    "partial at a takeover": "before states are read, a takeover finds out which transaction only some states may have",
    "joined inputs": "a branch runs only after every source that it reads has emitted",
    "every spout hears": "a success counts as delivered when all spouts have received it",
    "values one by one": "a state with new values commits one by one: a skipped transaction has no new values",
    "values within the commit": "a commit is done only after the new values are in the states that receive them",
    "one step for one database": "outputs in one database commit in one step: readers see all of it, or none",
    "fed states asked": "a takeover also asks the states that receive new values",
    "known groups": "each step knows where its group began, and a takeover knows how far its steps may have come",
    "closed at a takeover": "a transaction that all states have is never replayed",
    "offsets by their intent": "states have the findings of an emission only if its commit could begin",
    "torn as declared": "a transaction that only some states have is replayed by its original plan",
    "none joins what comes again": "a replay of a transaction that a state has uses its original plan",
    "accepted, then passed over": "a gap is durable before a state skips it",
    "corrected where none has it": "a batch whose data were corrected is defined anew only if no output has it",
    "gaps from where they begin": "the last transaction of a state left out, if it alone had it, is rolled back",
    "gaps in the record": "the start of a gap stays durable as long as a crash can prevent that it is skipped",
    "ended in its turn": "a transaction that fails too often ends the topology after all before it are committed",
    "cause, then the end": "the cause of an end is in the record before the topology ends",
    "kept counts": "a takeover knows how often a transaction has failed",
    "windows on time": "a transaction without input starts if a window ends before input comes",
    "one for each window": "no empty transaction starts if a transaction in flight closes the window",
    "bound for ever": "the number of a transaction, or that it has none, survives a takeover",
    "wishes with their write": "the write that carries out a wish removes it",
    "carried out once": "a wish with a stored outcome is not carried out again, even if a server shows old data",
    "wishes that wait": "a new leader looks for wishes that were made before it led",
    "lasting wishes": "a wish is in effect until it is lifted, under every leader",
    "own pause ends": "a pause that the leader's own process requested ends with the leadership",
    "paused by operators": "during an operator's pause nothing starts, not even a replay",
    "drains begin nothing": "a drain admits replays of transactions that have begun, and nothing new",
    "drained, then paused": "a drain becomes a pause in the write that closes the last transaction that had begun",
    "outputs asked": "a transaction is parked only if every output can still leave it out",
    "parked, then empty": "an attempt is empty only after the decision to park is durable",
    "parked over a takeover": "a takeover closes a parked transaction only if every state has an empty attempt of it",
    "listed at a takeover": "a takeover that closes a parked transaction puts it on the list",
    "released once": "the write that closes a release takes the parked transaction off the list",
    "released over a takeover": "a release that has begun stays bound to its transaction over a takeover",
    "positions of what is parked": "positions of spouts move past the rows that are stored for a parked transaction",
    "stored rows released": "a release emits the stored rows, not what the spout has at that moment",
    "parts apart": "each row of a bisected transaction is in exactly one of its parts",
    "bisected as listed": "a transaction that was released or skipped meanwhile is not split",
    "trials undone": "an output undoes what it did for a trial",
    "decided once": "a wish to park that was decided in a turn is not read again in it",
    "decided unseen": "a decided wish is not read again in its turn, even if the last look had not shown it",
    "bad rows fixed": "from its first commit on, every attempt of a transaction leaves out the same bad rows",
    "bad rows with the intent": "the write of the intent to commit has the rows that the attempt leaves out",
    "letters taken out": "the transaction that releases dead letters also takes them out of their table",
    "letters released once": "no dead letters of a branch are released while others of it are",
    "own deadline": "a leader stops by its own clock before another can lead",
}
"""Name of each rule, and what it says."""


def _as_set(rules: Iterable[str]) -> frozenset[str]:
    return frozenset(rules)


@frozen
class Rules:
    """Which rules are switched off in a world; none, outside of the mutation gate."""

    off: frozenset[str] = field(default=(), converter=_as_set)

    @off.validator
    def _check(self, _: object, off: frozenset[str]) -> None:
        if not off <= set(RULES):
            raise ValueError(f"no such rule: {sorted(off - set(RULES))}")

    def has(self, rule: str) -> bool:
        """Whether ``rule`` holds."""
        return rule not in self.off
