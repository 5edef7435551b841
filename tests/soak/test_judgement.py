"""What the soak makes of its samples."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve, fields

from tests.soak.judgement import LIMITS, Growth, Sample, growths
from tests.soak.probe import BLOCK, Histogram

STEADY = Sample(at=0, **{measure: 1000 for measure in LIMITS})
MINUTES = 5


def over_time(**lines: list[int]) -> list[Sample]:
    """Samples of five minutes, six in each; a line has a value for each minute, or for each sample."""
    samples = []
    for number in range(6 * MINUTES):
        values: dict[str, Any] = {}
        for measure, line in lines.items():
            values[measure] = line[number] if len(line) == 6 * MINUTES else line[number // 6]
        samples.append(evolve(STEADY, at=10.0 * number, **values))
    return samples


def leaks(**lines: list[int]) -> list[str]:
    return [each.measure for each in growths(over_time(**lines), MINUTES) if each.is_leak]


def test_everything_that_is_sampled_is_judged_or_told() -> None:
    assert [each.name for each in fields(Sample)] == ["at", *LIMITS]
    assert [each.measure for each in growths(over_time(), MINUTES)] == list(LIMITS)


def test_what_stays_or_shrinks_is_no_leak() -> None:
    assert leaks() == []
    assert leaks(objects=[900, 1000, 1000, 1000, 500], heap_bytes=[100, 1000, 900, 900, 900]) == []


@pytest.mark.parametrize("measure", ["objects", "threads", "descriptors", "znodes", "blocks"])
def test_what_is_counted_may_grow_by_one_percent_and_by_three(measure: str) -> None:
    assert leaks(**{measure: [0, 1000, 1000, 1000, 1010]}) == []
    assert leaks(**{measure: [0, 1000, 1000, 1000, 1011]}) == [measure]
    assert leaks(**{measure: [0, 10, 10, 10, 13]}) == []
    assert leaks(**{measure: [0, 10, 10, 10, 14]}) == [measure]
    assert leaks(**{measure: [0, 0, 0, 0, 4]}) == [measure]


@pytest.mark.parametrize("measure", ["driver_bytes", "heap_bytes"])
def test_memory_may_grow_by_five_percent(measure: str) -> None:
    assert leaks(**{measure: [0, 1000, 1000, 1000, 1050]}) == []
    assert leaks(**{measure: [0, 1000, 1000, 1000, 1051]}) == [measure]


def test_what_the_jvm_holds_beside_its_heap_is_only_told() -> None:
    assert leaks(jvm_bytes=[1, 1, 1, 1, 9], jvm_threads=[1, 1, 1, 1, 90], jvm_descriptors=[1, 1, 1, 1, 90]) == []


def test_the_second_minute_and_the_last_one_are_compared_whatever_is_before_and_between() -> None:
    assert leaks(objects=[1, 1000, 5000, 5000, 1000]) == []
    [before, *_] = growths(over_time(objects=list(range(30))), MINUTES)
    assert before == Growth("objects", 8.5, 26.5)


def test_one_odd_sample_of_a_minute_changes_nothing() -> None:
    line = [1000] * 30
    line[25] = 9000
    assert leaks(threads=line) == []


def test_a_minute_without_samples_is_an_error_and_no_verdict() -> None:
    with pytest.raises(ValueError, match=r"0 samples in minute 2 and 6 in the last one of 5"):
        growths(over_time()[12:], MINUTES)
    with pytest.raises(ValueError, match=r"6 samples in minute 2 and 0 in the last one of 6"):
        growths(over_time(), MINUTES + 1)


def test_a_histogram_says_how_many_objects_of_a_class_there_are_and_what_all_take() -> None:
    histogram = Histogram(
        " num     #instances         #bytes  class name (module)\n"
        "-------------------------------------------------------\n"
        "   1:         12345        9000000  [B (java.base@17.0.15)\n"
        f" 700:             8            256  {BLOCK}Manager\n"
        f" 701:             7            224  {BLOCK}\n"
        "Total         99999       54887792\n"
    )
    assert histogram.instances(BLOCK) == 7
    assert histogram.instances("[B") == 12345
    assert histogram.instances("java.lang.String") == 0
    assert histogram.total_bytes == 54887792
