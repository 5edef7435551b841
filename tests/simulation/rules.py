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
    "guarded writes": "a record is written only by whoever claimed the epoch last",
    "blobs first": "what goes ahead of a record that takes several writes is nothing that anybody looks at yet",
    "parts still there": "a record's head is stored only while the parts that it names are there",
    "raised fences": "a takeover has every store refuse older leaders, before anything else",
    "epoch in token": "a store compares the epoch",
    "attempt in token": "a store tells a late attempt from the live one of the same epoch",
    "txids in order": "a store takes only the transaction that comes next",
    "kept commits": "a leader commits to no store that has lost what it knows to be in it",
    "undo": "what an older attempt of a transaction did is rolled back before the newer one is applied",
    "compared content": "a store that can't undo refuses other content under the same txid",
    "verified staging": "a commit merges all that was reported, or fails",
    "reconciliation": "a takeover compares what the states have with what the record says",
    "store, then announce": "nothing is announced before what it rests on is durable",
    "owed successes": "a takeover delivers the successes that an earlier leader owed",
    "tail replays": "a failure cancels every later transaction too",
    "standing definitions": "an exact transaction is defined once and for all",
    "stored extents": "what an exact batch was found to consist of is durable before its commit",
    "moved cursors": "positions that an emission moved are durable with the close of its transaction",
    "written successes": "a success counts as delivered only for what the written record has as committed",
    "all reports": "a phase is finished when all that follows from it was reported",
    "unknown is not done": "a commit without an answer is not taken for done",
    "runs in order": "transactions that commit together do it in txid order",
    "rows apart": "what transactions that share a job make stays apart",
    "known members": "a store knows the members of its last run, and skips one that comes again",
    "kept times": "a transaction keeps its time over replays and takeovers, and no later one has an earlier time",
    "whose failure": "a shared job that failed by a transaction which it hasn't is looked through by halves",
    "reads between commits": "states are read whole only while all have the same transactions",
    "partial at a takeover": "a takeover finds out which transaction only some states may have, before they are read",
    "joined inputs": "a branch runs when every source that it reads has emitted, and no sooner",
    "every spout hears": "a success counts as delivered when all spouts have taken it",
    "values one by one": "a state whose new values go on commits one transaction at a time: one skipped has none",
    "values within the commit": "a commit is done when the new values are in the states that they go into",
    "one step for one database": "what is in one database is there in one step: a reader sees all of it, or none",
    "fed states asked": "a takeover asks the states that new values go into, too",
    "known groups": "each step of a group knows where the group began, and a takeover how far its steps may have come",
    "closed at a takeover": "what all states have never comes again",
    "offsets by their intent": "what an emission has found out is what states have only where its commit could begin",
    "torn as declared": "what only some states have is replayed by the plan that it was made by",
    "none joins what comes again": "what a state has and comes again does so by the plan that it was made by",
    "accepted, then passed over": "that a state goes on with a gap is durable before it takes it for committed",
    "corrected where none has it": "a batch whose data were corrected is defined anew only if no output has it",
    "gaps from where they begin": "what a state alone had when it was left out is rolled back when it comes back",
    "gaps in the record": "where a gap begins is durable for as long as a crash can prevent that it is passed over",
    "given up in its turn": "a transaction that fails too often ends the topology when all before it are committed",
    "cause, then the end": "why a topology ends is in the record before it does",
    "kept counts": "how often a transaction has failed is known after a takeover",
    "windows on time": "a transaction without input starts where a window ends before there is any",
    "one for each window": "none starts where one that is on its way closes the window",
    "bound for ever": "the number of a transaction, or that it has none, outlives a takeover",
    "wishes with their write": "the write that carries a wish out removes it",
    "carried out once": "a wish whose outcome is stored is not carried out again, whatever a server that lags shows",
    "wishes that wait": "a leader looks for the wishes that were left before it led",
    "what stands, stands": "what was wished stands until it is lifted, whoever leads",
    "own pause ends": "a pause that the leading process has asked for itself ends with its leadership",
    "paused by operators": "while an operator's pause stands, nothing starts, not even a replay",
    "drains begin nothing": "a drain admits replays of what was begun, and nothing new",
    "drained, then paused": "a drain becomes a pause in the write that closes the last of what was begun",
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
