"""The watermark, against a fold over the whole history of rows at every moment at which it could change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.trident_py.windows.event_model import History, expected_watermark
from trident_py.windows.watermark import PartitionProgress, Refusal, Watermark, WatermarkProgress


def rules(*, delay: int = 0, idle: int | None = None, max_ahead: int = 1000) -> Watermark:
    return Watermark(delay=delay, idle=idle, max_ahead=max_ahead)


def folded(watermark: Watermark, history: History) -> WatermarkProgress:
    progress = WatermarkProgress()
    for now, newest in history:
        progress = watermark.advance(progress, now, newest)
    return progress


transactions = st.lists(
    st.tuples(st.integers(0, 6), st.dictionaries(st.sampled_from("abc"), st.integers(-50, 50), max_size=3)),
    min_size=1,
    max_size=12,
)
settings_of = st.builds(
    lambda delay, idle: rules(delay=delay, idle=idle), st.integers(0, 5), st.none() | st.integers(1, 10)
)


def timed(steps: Sequence[tuple[int, Mapping[str, int]]]) -> History:
    found, now = [], 0
    for later, newest in steps:
        now += later
        found.append((now, newest))
    return found


@given(settings_of, transactions)
def test_the_watermark_is_what_the_definition_gives_over_the_whole_history(
    watermark: Watermark, steps: Sequence[tuple[int, Mapping[str, int]]]
) -> None:
    history = timed(steps)
    for upto in range(1, len(history) + 1):
        assert folded(watermark, history[:upto]).watermark == expected_watermark(watermark, history[:upto])


def short_histories() -> Iterator[History]:
    """Every history of three transactions and two partitions, with some times."""
    steps = [
        (later, {name: at for name, at in zip("ab", pair, strict=True) if at is not None})
        for later in (0, 2, 3, 5)
        for pair in product((None, 1, 9), repeat=2)
    ]
    return (timed(three) for three in product(steps, repeat=3))


def test_the_watermark_is_what_the_definition_gives_in_every_short_history() -> None:
    watermark = rules(delay=1, idle=3)
    for history in short_histories():
        assert folded(watermark, history).watermark == expected_watermark(watermark, history), history


@given(settings_of, transactions, st.sets(st.integers(0, 80)))
def test_transactions_without_rows_change_nothing(
    watermark: Watermark, steps: Sequence[tuple[int, Mapping[str, int]]], empty: set[int]
) -> None:
    """So the time at which an empty transaction runs, or whether it runs, makes no difference."""
    history = timed(steps)
    both = sorted([*history, *((now, {}) for now in empty if now < history[-1][0])], key=lambda each: each[0])
    assert folded(watermark, both) == folded(watermark, history)


@given(settings_of, transactions, st.integers(-60, 60))
def test_it_tells_the_first_moment_at_which_it_passes_a_time_without_rows(
    watermark: Watermark, steps: Sequence[tuple[int, Mapping[str, int]]], time: int
) -> None:
    progress = folded(watermark, timed(steps))
    if progress.watermark is not None and progress.watermark >= time:
        return
    now = sum(later for later, _ in steps)
    moments = [
        each
        for each in range(now, now + 40)
        if (found := watermark.advance(progress, each, {}).watermark) is not None and found >= time
    ]
    due = watermark.passes_at(progress, time)
    # A partition that has just left may have let it pass already; then the next transaction is early enough.
    assert (due is None) == (not moments)
    assert due is None or max(due, now) == moments[0]


@given(settings_of, transactions)
def test_it_never_goes_back_also_where_the_times_of_transactions_do(
    watermark: Watermark, steps: Sequence[tuple[int, Mapping[str, int]]]
) -> None:
    progress = WatermarkProgress()
    for now, newest in steps:  # their differences as their times
        after = watermark.advance(progress, now, newest)
        assert progress.watermark is None or (after.watermark is not None and after.watermark >= progress.watermark)
        assert all(each.active_at <= now for each in after.partitions.values())
        progress = after


def test_a_slow_partition_holds_it_until_it_is_idle() -> None:
    watermark = rules(delay=5, idle=60)
    held = folded(watermark, [(0, {"fast": 100, "slow": 10}), (30, {"fast": 200})])
    assert held.watermark == 5
    assert watermark.passes_at(held, 150) == 60
    assert watermark.advance(held, 59, {}).watermark == 5
    assert watermark.advance(held, 60, {}).watermark == 195


def test_a_partition_that_comes_late_holds_it_where_it_is() -> None:
    watermark = rules()
    assert folded(watermark, [(0, {"a": 100}), (1, {"a": 200, "week behind": 3})]).watermark == 100


def test_idle_partitions_are_forgotten() -> None:
    history = [(number, {str(number): number}) for number in range(1000)]
    assert len(folded(rules(idle=10), history).partitions) == 10


def test_partitions_that_other_fields_name_are_forgotten_and_the_watermark_stays() -> None:
    held = folded(rules(idle=60), [(0, {"a": 50, "b": 20})])
    other = evolve(rules(idle=60), by="host")
    assert other.passes_at(held, 50) is None
    without_rows = other.advance(held, 100, {})
    assert without_rows == WatermarkProgress(20, {}, "host")
    assert other.advance(held, 5, {"c": 70}) == WatermarkProgress(70, {"c": PartitionProgress(70, 5)}, "host")
    assert other.advance(held, 5, {"c": 10}).watermark == 20


def test_rows_are_judged_by_the_watermark_and_by_the_time_of_their_transaction() -> None:
    watermark = rules(max_ahead=10)
    judged = [watermark.refusal(at, 100, 50) for at in (None, 111, 110, 50, 49)]
    assert judged == [Refusal.NULL, Refusal.AHEAD, None, None, Refusal.LATE]
    assert watermark.refusal(-(10**18), 100, None) is None


@pytest.mark.parametrize("refusal", Refusal)
def test_reasons_are_texts(refusal: Refusal) -> None:
    assert f"{refusal}" == refusal.value


# --- why each rule is needed ------------------------------------------------------------------------------------------


class GoingBack(Watermark):
    """Follows the rows back."""

    def _raised(self, watermark: int | None, partitions: Mapping[str, PartitionProgress]) -> int | None:
        return super()._raised(None, partitions) if partitions else watermark


class LeavingAtOnce(Watermark):
    """Looks only at the partitions that are active when a transaction comes."""

    def _elapsed(self, progress: WatermarkProgress, now: int) -> WatermarkProgress:
        idle = self.idle or now
        left = {name: each for name, each in progress.partitions.items() if now - each.active_at < idle}
        return WatermarkProgress(self._raised(progress.watermark, left), left)


class NeverIdle(Watermark):
    """Waits for every partition."""

    def _elapsed(self, progress: WatermarkProgress, now: int) -> WatermarkProgress:
        return progress


class RememberingIdle(Watermark):
    """Lets a partition that comes back begin where it was."""

    def advance(self, progress: WatermarkProgress, now: int, newest: Mapping[str, int]) -> WatermarkProgress:
        before = {name: each.newest for name, each in progress.partitions.items() if name in newest}
        return super().advance(progress, now, {name: max(at, before.get(name, at)) for name, at in newest.items()})


@pytest.mark.parametrize("mutant", [GoingBack, LeavingAtOnce, NeverIdle, RememberingIdle])
def test_a_watermark_without_one_of_its_rules_is_found_by_the_definition(mutant: type[Watermark]) -> None:
    wrong = mutant(delay=1, idle=3, max_ahead=1000)
    assert any(folded(wrong, history).watermark != expected_watermark(wrong, history) for history in short_histories())
