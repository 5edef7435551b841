"""What is known of counts before a commit: each node once, and a commit's counts over its replays."""

from __future__ import annotations

from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.emitted import TransactionCounts
from trident_py.worker.counters import NodeCounts

FIRST, AGAIN = TransactionAttempt(7, 0), TransactionAttempt(7, 1)


def test_a_node_that_several_branches_ran_counts_once_and_other_nodes_with_it() -> None:
    counts = TransactionCounts()
    counts.process(FIRST, {"node 1": NodeCounts({"rows": 5}, tasks=2), "node 2": NodeCounts({"rows": 1})})
    counts.process(FIRST, {"node 1": NodeCounts({"rows": 5}, tasks=2), "node 3": NodeCounts({"words": 9})})
    assert counts.of(FIRST) == {"rows": 6, "words": 9}


def test_of_a_node_that_was_cut_short_in_one_branch_the_other_counts() -> None:
    counts = TransactionCounts()
    counts.process(FIRST, {"node 1": NodeCounts({"rows": 2}, tasks=1)})
    counts.process(FIRST, {"node 1": NodeCounts({"rows": 5}, tasks=2)})
    counts.process(FIRST, {"node 1": NodeCounts({"rows": 2}, tasks=1)})
    assert counts.of(FIRST) == {"rows": 5}


def test_a_replay_counts_by_itself() -> None:
    counts = TransactionCounts()
    counts.process(FIRST, {"node 1": NodeCounts({"rows": 5})})
    counts.cancel(FIRST)
    assert counts.of(AGAIN) == {}
    counts.process(AGAIN, {"node 1": NodeCounts({"rows": 4})})
    assert counts.of(AGAIN) == {"rows": 4}


def test_what_a_state_counted_that_is_not_called_again_stands_and_else_the_last_counts() -> None:
    counts = TransactionCounts()
    counts.commit({(7, "sums"): {"updated": 3}})
    counts.commit({(7, "totals"): {"updated": 1}})
    counts.cancel(FIRST)
    counts.commit({(7, "sums"): {}})
    counts.commit({(7, "totals"): {"updated": 2}})
    assert counts.of(AGAIN) == {"updated": 5}


def test_nothing_is_kept_of_what_is_committed() -> None:
    counts = TransactionCounts()
    counts.process(FIRST, {"node 1": NodeCounts({"rows": 5})})
    counts.commit({(7, "sums"): {"updated": 3}})
    counts.close(FIRST)
    assert counts.of(FIRST) == {}
    assert counts == TransactionCounts()
