"""The acker: worked examples, then random trees acked in random order."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from coordinators.protocol.acker import BUCKETS, EDGE_MAX, Acker, Completed, Expired, RootFailed

ROOT = ("epoch", 1, "$batch")


def rotate_until_silence_expires(acker: Acker) -> list[Expired]:
    return [expired for _ in range(BUCKETS) for expired in acker.rotate()]


def value_of(acker: Acker) -> int:
    (ledger,) = [bucket[ROOT] for bucket in acker._buckets if ROOT in bucket]
    return ledger.value


# --- Storm's algebra --------------------------------------------------------------------------------------------------


def test_an_emission_that_nobody_consumes_is_done_at_once() -> None:
    assert Acker().init(ROOT, []) == Completed(ROOT)


def test_one_consumer_completes_with_its_ack() -> None:
    acker = Acker()
    assert acker.init(ROOT, [7]) is None
    assert acker.ack(ROOT, 7) == Completed(ROOT)
    assert not acker.is_pending(ROOT)


def test_the_worked_example_of_the_ack_source_analysis() -> None:
    """trident-semantics.md (e), row 002: edges 1001 and 1010, and the ledger after each report."""
    acker = Acker()
    assert acker.init(ROOT, [0b1001, 0b1010]) is None
    assert value_of(acker) == 0b0011
    assert acker.ack(ROOT, 0b1001, made=[0b1110]) is None  # Storm's bolt sends 1001 ^ 1110 = 0111
    assert value_of(acker) == 0b0100
    assert acker.ack(ROOT, 0b1010, made=[0b1111]) is None
    assert value_of(acker) == 0b0001
    assert acker.ack(ROOT, 0b1110) is None
    assert acker.ack(ROOT, 0b1111) == Completed(ROOT)


def test_a_tuple_under_two_roots_has_an_edge_for_each_and_is_acked_and_failed_under_both() -> None:
    """What a bolt makes of tuples of two trees belongs to both: neither is done before it is handled."""
    other, acker = ("epoch", 2, "$batch"), Acker()
    for root, edge in ((ROOT, 0b0001), (other, 0b0010)):
        assert acker.init(root, [edge]) is None
    joined = {ROOT: 0b0100, other: 0b1000}
    assert acker.ack(ROOT, 0b0001, made=[joined[ROOT]]) is None
    assert acker.ack(other, 0b0010, made=[joined[other]]) is None
    assert acker.ack(ROOT, joined[ROOT], reporter="joiner") == Completed(ROOT)
    assert acker.is_pending(other)
    assert acker.ack(other, joined[other], reporter="joiner") == Completed(other)

    for root, edge in ((ROOT, 0b0001), (other, 0b0010)):
        acker.init(root, [edge])
        acker.ack(root, edge, made=[joined[root]])
    assert [acker.fail(root) for root in joined] == [RootFailed(ROOT), RootFailed(other)]


def test_the_worked_example_of_the_ack_notes() -> None:
    """trident-semantics.md (e), row 004: T1 makes T3, T4 and T5, T2 makes nothing."""
    t1, t2, t3, t4, t5 = 0x1111, 0x2222, 0x3434, 0x4545, 0x5656
    acker = Acker()
    acker.init(ROOT, [t1, t2])
    assert value_of(acker) == t1 ^ t2
    assert acker.ack(ROOT, t1, made=[t3, t4, t5]) is None
    assert value_of(acker) == t2 ^ t3 ^ t4 ^ t5
    assert acker.ack(ROOT, t2) is None
    assert value_of(acker) == t3 ^ t4 ^ t5
    assert [acker.ack(ROOT, edge) for edge in (t3, t4, t5)] == [None, None, Completed(ROOT)]


def test_reports_before_the_init_are_kept() -> None:
    acker = Acker()
    assert acker.ack(ROOT, 5) is None
    assert acker.ack(ROOT, 6) is None
    assert acker.init(ROOT, [5, 6]) == Completed(ROOT)


def test_a_failure_before_the_init_waits_for_it() -> None:
    acker = Acker()
    assert acker.fail(ROOT) is None
    assert acker.init(ROOT, [5]) == RootFailed(ROOT)


def test_zero_wins_over_failed() -> None:
    """trident-semantics.md b.11-3 and b.11-4."""
    acker = Acker()
    acker.fail(ROOT)
    acker.ack(ROOT, 5)
    assert acker.init(ROOT, [5]) == Completed(ROOT)


def test_a_failure_ends_the_ledger_at_once() -> None:
    acker = Acker()
    acker.init(ROOT, [5, 6])
    assert acker.fail(ROOT) == RootFailed(ROOT)
    assert not acker.is_pending(ROOT)
    assert rotate_until_silence_expires(acker) == []


@pytest.mark.parametrize("late", [lambda acker: acker.ack(ROOT, 5), lambda acker: acker.fail(ROOT)])
def test_a_message_for_a_root_that_is_done_reports_nothing_and_rotates_out(late: Callable[[Acker], object]) -> None:
    acker = Acker()
    acker.init(ROOT, [5])
    acker.ack(ROOT, 5)
    assert late(acker) is None
    assert not acker.is_pending(ROOT)
    assert rotate_until_silence_expires(acker) == []
    assert not any(acker._buckets)


def test_roots_do_not_mix() -> None:
    acker = Acker()
    acker.init("one", [5])
    acker.init("two", [5])
    assert acker.ack("two", 5) == Completed("two")
    assert acker.is_pending("one")


# --- what is ours -----------------------------------------------------------------------------------------------------


def test_a_report_that_comes_twice_counts_once() -> None:
    acker = Acker()
    acker.init(ROOT, [5, 6])
    assert acker.ack(ROOT, 5, reporter="task 0") is None
    assert acker.ack(ROOT, 5, reporter="task 0") is None
    assert acker.ack(ROOT, 6, reporter="task 1") == Completed(ROOT)


def test_an_edge_is_its_own_reporter_by_default() -> None:
    acker = Acker()
    acker.init(ROOT, [5, 6])
    assert [acker.ack(ROOT, 5), acker.ack(ROOT, 5), acker.ack(ROOT, 6)] == [None, None, Completed(ROOT)]


def test_a_second_try_of_a_task_makes_no_edges() -> None:
    acker = Acker()
    acker.init(ROOT, [5])
    acker.ack(ROOT, 5, made=[8], reporter="task 0")
    acker.ack(ROOT, 5, made=[9], reporter="task 0")
    assert acker.ack(ROOT, 8) == Completed(ROOT)


def test_equal_edges_cancel_in_the_value_but_not_in_the_count() -> None:
    acker = Acker()
    assert acker.init(ROOT, [5, 5]) is None
    assert acker.ack(ROOT, 5, reporter="a") is None
    assert acker.ack(ROOT, 5, reporter="b") == Completed(ROOT)


def test_the_right_number_of_wrong_edges_is_not_enough() -> None:
    acker = Acker()
    acker.init(ROOT, [5, 6])
    assert [acker.ack(ROOT, 5), acker.ack(ROOT, 7)] == [None, None]
    assert rotate_until_silence_expires(acker) == [Expired(ROOT, outstanding=0)]


def test_silence_expires_after_three_rotations_and_says_what_is_missing() -> None:
    acker = Acker()
    acker.init(ROOT, [5, 6, 7])
    acker.ack(ROOT, 6)
    assert [acker.rotate(), acker.rotate(), acker.rotate()] == [[], [], [Expired(ROOT, outstanding=2)]]
    assert acker.ack(ROOT, 5) is None
    assert acker.ack(ROOT, 7) is None


@pytest.mark.parametrize(
    "sign_of_life",
    [
        pytest.param(lambda acker: acker.ack(ROOT, 5), id="a report"),
        pytest.param(lambda acker: acker.ack(ROOT, 4, reporter="early"), id="a report that was heard before"),
        pytest.param(lambda acker: acker.reset_timeout(ROOT), id="a reset of the timeout"),
    ],
)
def test_any_message_renews_the_ledger(sign_of_life: Callable[[Acker], object]) -> None:
    acker = Acker()
    acker.init(ROOT, [4, 5, 6])
    acker.ack(ROOT, 4, reporter="early")
    acker.rotate()
    acker.rotate()
    sign_of_life(acker)
    assert [acker.rotate(), acker.rotate()] == [[], []]
    assert [expired.root for expired in acker.rotate()] == [ROOT]


def test_a_reset_of_what_is_not_open_leaves_nothing_behind() -> None:
    acker = Acker()
    acker.reset_timeout(ROOT)
    assert not any(acker._buckets)


def test_what_was_never_opened_rotates_out_without_a_word() -> None:
    acker = Acker()
    acker.ack(ROOT, 5)
    assert rotate_until_silence_expires(acker) == []
    assert acker.init(ROOT, [5]) is None


def test_a_forgotten_root_reports_nothing() -> None:
    acker = Acker()
    acker.init(ROOT, [5])
    acker.forget(ROOT)
    assert acker.ack(ROOT, 5) is None
    assert rotate_until_silence_expires(acker) == []
    acker.forget("never seen")


def test_a_root_is_opened_once() -> None:
    acker = Acker()
    acker.init(ROOT, [5])
    with pytest.raises(ValueError, match="open already"):
        acker.init(ROOT, [6])


@pytest.mark.parametrize("edge", [0, -1, EDGE_MAX + 1])
def test_an_edge_that_xor_cannot_see_is_refused(edge: int) -> None:
    acker = Acker()
    with pytest.raises(ValueError, match="an edge is a number from 1"):
        acker.init(ROOT, [edge])
    with pytest.raises(ValueError, match="an edge is a number from 1"):
        acker.ack(ROOT, edge)
    with pytest.raises(ValueError, match="an edge is a number from 1"):
        acker.ack(ROOT, 1, made=[edge])
    assert not any(acker._buckets)


# --- random trees -----------------------------------------------------------------------------------------------------


@frozen
class Report:
    """One edge of a tree, and the edges that handling it made."""

    took: int
    made: tuple[int, ...]
    reporter: str


@frozen
class Tree:
    """What follows from one emission; ``bits`` decides how often two edges are equal."""

    roots: tuple[int, ...]
    reports: tuple[Report, ...]


def grow(rng: Random, size: int, bits: int, *, causal: bool) -> Tree:
    edges = [rng.randrange(1, 1 << bits) for _ in range(size)]
    children: dict[int, list[int]] = {index: [] for index in range(-1, size)}
    for index in range(size):
        children[rng.randrange(-1, index)].append(index)
    reports = [Report(edges[i], tuple(edges[child] for child in children[i]), f"task {i}") for i in range(size)]
    if not causal:
        rng.shuffle(reports)
    return Tree(tuple(edges[root] for root in children[-1]), tuple(reports))


# Seeds, not Hypothesis' own randomness: edges that it makes equal on purpose are what 63 bits exclude in practice.
seeds = st.integers(0, 2**32).map(Random)
trees = st.builds(grow, seeds, st.integers(1, 40), st.just(63), causal=st.just(False))
causal_trees = st.builds(grow, seeds, st.integers(1, 40), st.sampled_from([1, 2]), causal=st.just(True))


@given(tree=trees, data=st.data())
def test_a_tree_is_done_with_its_last_message_and_never_before(tree: Tree, data: st.DataObject) -> None:
    """Also with duplicates strewn in, and with the init at any time."""
    acker = Acker()
    init_at = data.draw(st.integers(0, len(tree.reports)))
    outcomes = []
    for index, report in enumerate(tree.reports):
        if index == init_at:
            outcomes.append(acker.init(ROOT, tree.roots))
        for _ in range(data.draw(st.integers(1, 2)) if index + 1 < len(tree.reports) else 1):
            outcomes.append(acker.ack(ROOT, report.took, report.made, reporter=report.reporter))
    if init_at == len(tree.reports):
        outcomes.append(acker.init(ROOT, tree.roots))
    assert outcomes == [None] * (len(outcomes) - 1) + [Completed(ROOT)]


@given(tree=causal_trees)
def test_while_nobody_is_heard_before_who_made_the_edge_the_count_alone_is_exact(tree: Tree) -> None:
    """However many edges are equal: here they have one or two bits."""
    acker = Acker()
    acker.init(ROOT, tree.roots)
    outcomes = [acker.ack(ROOT, report.took, report.made, reporter=report.reporter) for report in tree.reports]
    assert outcomes == [None] * (len(outcomes) - 1) + [Completed(ROOT)]


@given(tree=trees, data=st.data())
def test_a_tree_that_lacks_one_report_never_completes_and_expires(tree: Tree, data: st.DataObject) -> None:
    lost = data.draw(st.sampled_from(tree.reports))
    acker = Acker()
    acker.init(ROOT, tree.roots)
    for report in tree.reports:
        if report != lost:
            assert acker.ack(ROOT, report.took, report.made, reporter=report.reporter) is None
    (expired,) = rotate_until_silence_expires(acker)
    assert expired.root == ROOT


@given(tree=trees, at=st.integers(0, 40))
def test_a_failure_anywhere_in_a_tree_fails_it_once(tree: Tree, at: int) -> None:
    acker = Acker()
    acker.init(ROOT, tree.roots)
    outcomes = []
    for index, report in enumerate(tree.reports):
        if index == min(at, len(tree.reports) - 1):
            outcomes.append(acker.fail(ROOT))
        outcomes.append(acker.ack(ROOT, report.took, report.made, reporter=report.reporter))
    assert [outcome for outcome in outcomes if outcome] == [RootFailed(ROOT)]
    assert rotate_until_silence_expires(acker) == []


# --- what it asserts of itself ----------------------------------------------------------------------------------------


class LeavesTheLedgerInItsBucket(Acker):
    def _removed(self, root: Hashable) -> Any:
        return next((bucket[root] for bucket in self._buckets if root in bucket), None)


class KeepsWhatIsDone(Acker):
    def forget(self, root: Hashable) -> None:
        pass


def test_a_ledger_that_is_in_two_buckets_is_told_as_our_bug() -> None:
    acker = LeavesTheLedgerInItsBucket()
    acker.init(ROOT, [1, 2])
    acker.rotate()
    with pytest.raises(AssertionError, match=r"defect of trident_py, please report it: .*batch.* has 2 ledgers"):
        acker.ack(ROOT, 1)


@pytest.mark.parametrize("end", [lambda acker: acker.ack(ROOT, 1), lambda acker: acker.fail(ROOT)])
def test_a_ledger_that_outlives_its_end_is_told_as_our_bug(end: Callable[[Acker], object]) -> None:
    acker = KeepsWhatIsDone()
    acker.init(ROOT, [1])
    with pytest.raises(AssertionError, match=r"defect of trident_py, please report it: .*is done, and still there"):
        end(acker)
