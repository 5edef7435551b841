from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from trident_py.rows.row import Row, column_values, row_class, rows_of


def row(**values: object) -> Row:
    return row_class(tuple(values))._make(values.values())


def test_values_are_found_by_attribute_name_and_position() -> None:
    line = row(value="a b", position=7)
    assert (line.value, line["position"], line[0], line[-1], line[:1]) == ("a b", 7, "a b", 7, ("a b",))


def test_a_row_is_a_tuple() -> None:
    line = row(value="a", position=7)
    value, position = line
    assert isinstance(line, tuple)
    assert line == ("a", 7) == (value, position)
    assert hash(line) == hash(("a", 7))
    assert (*line, 1) == ("a", 7, 1)


def test_fields_named_like_methods_of_a_tuple_are_found_too() -> None:
    counted = row(word="a", count=3, index=1)
    assert (counted.count, counted.index, counted["count"], counted[1]) == (3, 1, 3, 3)


def test_names_that_are_no_identifiers_or_ours_are_found_by_name() -> None:
    odd = row_class(("odd name", "class", "_fields", "__len__", "_a"))._make(range(5))
    assert [odd[name] for name in odd._fields] == [0, 1, 2, 3, 4]
    assert (getattr(odd, "class"), odd._a, len(odd)) == (1, 4, 5)


def test_a_field_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(AttributeError, match="no field 'wrd'; there are 'word', 'count'"):
        _ = row(word="a", count=3).wrd
    with pytest.raises(KeyError, match="no field 'wrd'; there are 'word', 'count'"):
        _ = row(word="a", count=3)["wrd"]
    with pytest.raises(IndexError):
        _ = row(word="a")[1]


def test_a_row_survives_pickle() -> None:
    line = row(value="a", count=7)
    again = pickle.loads(pickle.dumps(line))  # noqa: S301 - its own
    assert again == line
    assert type(again) is type(line)
    assert again.count == 7


def test_a_row_shows_its_fields() -> None:
    assert repr(row(word="a", count=3)) == "Row(word='a', count=3)"
    assert row(word="a", count=3)._asdict() == {"word": "a", "count": 3}


def test_rows_with_the_same_fields_share_a_class() -> None:
    assert type(row(a=1)) is type(row(a=2))


def test_rows_of_arrow_data_have_python_values() -> None:
    table = pa.table(
        {
            "word": ["ä", None],
            "day": pa.array([date(2024, 2, 29), None]),
            "price": pa.array([Decimal("1.50"), None]),
        }
    )
    assert rows_of(table) == [("ä", date(2024, 2, 29), Decimal("1.50")), (None, None, None)]
    assert rows_of(table.to_batches()[0])[0].word == "ä"
    assert rows_of(table.slice(0, 0)) == []


def test_timestamps_are_given_in_utc_whatever_the_session_s_zone() -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    zoned = pa.array([noon, None], pa.timestamp("us", tz="Asia/Tokyo"))
    values = column_values(zoned)
    assert values == [noon, None]
    assert values[0].utcoffset().total_seconds() == 0
    ((nested,),) = column_values(pa.array([[noon]], pa.list_(zoned.type)))
    assert nested == noon
    assert nested.utcoffset().total_seconds() == 0
    assert column_values(pa.array([noon], pa.timestamp("us"))) == [datetime(2024, 1, 1, 12)]  # noqa: DTZ001 - no zone


def test_structs_are_rows_and_maps_are_dicts_at_any_depth() -> None:
    point = pa.struct([("x", pa.int64()), ("tags", pa.map_(pa.string(), pa.list_(pa.struct([("y", pa.int64())]))))])
    given = [{"x": 1, "tags": {"a": [{"y": 2}, None], "b": None}}, None, {"x": None, "tags": None}]
    first, second, third = column_values(pa.array(given, point))
    assert first == (1, {"a": [(2,), None], "b": None})
    assert first.tags["a"][0].y == 2
    assert second is None
    assert third == (None, None)
    assert column_values(pa.chunked_array([pa.array([[1, None], None])])) == [[1, None], None]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (pa.date32(), 2_932_897, r"field 'at' has a date32\[day\] 10000-01-01, and Python knows"),
        (pa.timestamp("us", tz="UTC"), 253_402_300_800_000_000, r"field 'at' has a timestamp.* 10000-01-01 00:00:00"),
        (pa.timestamp("us"), -62_135_596_800_000_001, r"field 'at' has a timestamp.* 0000-12-31 23:59:59.999999, and"),
        (pa.list_(pa.timestamp("us")), [253_402_300_800_000_000], r"field 'at' has a list<item: timestamp"),
    ],
)
def test_a_moment_that_python_has_no_year_for_is_named_with_its_field(
    kind: pa.DataType, value: Any, message: str
) -> None:
    table = pa.table({"n": [1, 2], "at": pa.array([None, value], kind)})
    with pytest.raises(ValueError, match=message):
        rows_of(table)
