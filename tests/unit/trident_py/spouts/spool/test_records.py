"""An unfinished group at the end of a file is dropped; a record that was on the disk and can't be read is named."""

from __future__ import annotations

import pytest

from trident_py.spouts.spool.records import (
    DamagedSpoolError,
    Header,
    Received,
    encode,
    range_hash,
    read_header,
    read_range,
    read_records,
)

MARK = b"12345678"
HEADER = Header(mark=MARK, ends={"0000000001-000001.spool": 77})


def received(number: int) -> Received:
    return Received(
        key=f"key {number}" if number % 2 else None, digest=f"d{number}", rows=number, content=b"x" * number
    )


def file_of(*groups: int) -> tuple[bytes, int]:
    """A file with groups of so many records, and the end of its header."""
    begin = len(data := HEADER.encode())
    for size in groups:
        data += b"".join(encode(received(number), 5.0, MARK, len(data)) for number in range(size))
    return data, begin


def test_a_file_gives_what_was_written() -> None:
    data, begin = file_of(2, 1)
    header, end = read_header("f", data)
    assert (header, end) == (HEADER, begin)
    found = read_records("f", data, header.mark, end, None)
    assert [each.received for each in found] == [received(0), received(1), received(0)]
    assert [found[0].begin, found[-1].end, found[0].at] == [begin, len(data), 5.0]


def test_a_range_gives_the_same_records_and_hash_again() -> None:
    data, begin = file_of(3)
    found = read_records("f", data, MARK, begin, None)
    again = read_range("f", data[found[1].begin : found[2].end], found[1].begin)
    assert range_hash(each.hash for each in again) == range_hash(each.hash for each in found[1:])
    assert [each.received for each in again] == [received(1), received(2)]


def test_an_unfinished_group_is_dropped_wherever_it_was_cut() -> None:
    data, begin = file_of(1, 2)
    whole = [each.end for each in read_records("f", data, MARK, begin, None)]
    for cut in range(begin, len(data)):
        found = read_records("f", data[:cut], MARK, begin, None)
        assert [each.end for each in found] == [end for end in whole if end <= cut]


def test_a_group_of_which_only_the_end_reached_the_disk_is_dropped() -> None:
    data, begin = file_of(1, 2)
    first, second, _ = read_records("f", data, MARK, begin, None)
    torn = data[: second.begin + 40] + b"\0" + data[second.begin + 41 :]
    assert read_records("f", torn, MARK, begin, None) == [first]


@pytest.mark.parametrize("end", [None, "known"])
def test_a_damaged_record_before_durable_ones_is_named(end: str | None) -> None:
    data, begin = file_of(1, 1)
    damaged = data[: begin + 30] + b"\0" + data[begin + 31 :]
    with pytest.raises(DamagedSpoolError, match=rf"spool file 'f' is damaged at byte {begin}"):
        read_records("f", damaged, MARK, begin, len(data) if end else None)


def test_a_file_that_ends_before_its_known_end_is_named() -> None:
    data, begin = file_of(1, 1)
    with pytest.raises(DamagedSpoolError, match="damaged"):
        read_records("f", data[:-1], MARK, begin, len(data))
    assert read_records("f", data, MARK, begin, begin) == []


def test_a_file_without_a_header_or_with_one_of_another_version_is_named() -> None:
    with pytest.raises(DamagedSpoolError, match="'f' is damaged at byte 0"):
        read_header("f", b"something else, which is long enough to be a header")
    newer = encode(received(1), 0.0, b"TRISPOOL", 0)
    with pytest.raises(DamagedSpoolError, match="format version None"):
        read_header("f", newer)


def test_a_range_that_is_cut_or_changed_is_named() -> None:
    data, begin = file_of(2)
    for changed in (data[begin:-1], b"\0" + data[begin + 1 :], data[begin:] + b"\0"):
        with pytest.raises(DamagedSpoolError, match="damaged"):
            read_range("f", changed, begin)
