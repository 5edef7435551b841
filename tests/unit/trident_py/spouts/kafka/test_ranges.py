from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from trident_py.spouts.kafka.ranges import OffsetRange, Position, cursor_of, limited, positions_of, shared_out

RANGES = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40)), max_size=6).map(
    lambda drawn: [OffsetRange("t", number, start, start + size, "id") for number, (start, size) in enumerate(drawn)]
)


def size(ranges: list[OffsetRange]) -> int:
    return sum(each.size for each in ranges)


@given(RANGES, st.integers(1, 100))
def test_a_batch_has_as_many_records_as_it_may_and_begins_where_its_ranges_do(
    ranges: list[OffsetRange], records: int
) -> None:
    cut = limited(ranges, records)
    assert size(cut) == min(records, size(ranges))
    assert [(each.partition, each.start) for each in cut] == [(each.partition, each.start) for each in ranges]
    # Whoever has more to give gives at least as much, and nobody less than another one that is cut.
    full = {each.partition: each.size for each in ranges}
    short = [each.size for each in cut if each.size < full[each.partition]]
    assert not short or max(each.size for each in cut) - min(short) <= 1


@given(RANGES, st.integers(1, 5))
def test_tasks_read_each_record_once_in_order_and_about_as_many_each(ranges: list[OffsetRange], tasks: int) -> None:
    shares = shared_out(ranges, tasks)
    read = [(each.partition, offset) for share in shares for each in share for offset in range(each.start, each.end)]
    assert read == [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    assert len(shares) <= tasks
    assert not ranges or max(map(size, shares)) <= -(-size(ranges) // tasks)


def test_metadata_and_cursors_come_back_as_they_were() -> None:
    given_range = OffsetRange("a/b", 3, 7, 9, "id")
    assert OffsetRange.parse(json.loads(json.dumps(given_range.stored))) == given_range
    assert positions_of(json.loads(json.dumps(dict([cursor_of(given_range)])))) == {("a/b", 3): Position(9, "id")}
