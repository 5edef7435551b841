"""What becomes of rows as Kafka's records, and which can't be any."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_py.errors import SinkError, TopologyError
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.sinks.kafka.records import Record, check_fields, check_rows, records

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def made(schema: str, *rows: tuple[Any, ...], topic: str | None = "t") -> list[Record]:
    table = arrow_table(rows, schema_of(schema))
    return [record for batch in table.to_batches() for record in records(batch, topic)]


def test_text_is_utf_8_and_what_a_row_lacks_is_kafka_s_to_choose() -> None:
    expected = Record(topic="t", value="ü".encode(), key=None, partition=-1, timestamp=0, headers=None)
    assert made("value string", ("ü",)) == [expected]


def test_a_row_says_all_that_a_record_has() -> None:
    schema = (
        "key binary, value binary, topic string, partition int, timestamp timestamp, "
        "headers array<struct<key string, value binary>>"
    )
    at = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
    first, second = made(
        schema,
        (b"k", b"\xff", "other", 3, at, [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]),
        (None, None, None, None, None, None),
    )
    assert (first.topic, first.value, first.key, first.partition) == ("other", b"\xff", b"k", 3)
    assert first.timestamp == 1_767_323_045_678
    assert first.headers == [("h", b"1"), ("h", None)]
    assert second == Record(topic="t", value=None, key=None, partition=-1, timestamp=0, headers=None)


def test_a_header_has_all_of_its_text() -> None:
    schema = "value string, headers array<struct<key string, value string>>"
    assert made(schema, ("v", [{"key": "h", "value": "x\0y"}]))[0].headers == [("h", b"x\0y")]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("headers array<struct<key string, value string>>", [{"key": None, "value": "x"}], "a header without a key"),
        ("headers array<struct<key string, value string>>", [None], "a header without a key"),
        ("headers array<struct<key string, value string>>", [{"key": "a\0b", "value": "x"}], r"key is 'a\\x00b'"),
        ("partition bigint", 2**40, r"it is 1099511627776 \(int\); partitions have numbers from 0 to 2147483647"),
        ("partition bigint", 2**31, "it is 2147483648"),
        ("partition int", -1, "it is -1"),
        ("topic string", "", "it is ''"),
        ("topic string", "a b", "it is 'a b'"),
        ("topic string", "a\0b", "topics have names"),
        ("topic string", "x" * 250, "topics have names"),
        ("topic string", "..", "topics have names"),
        ("timestamp timestamp", EPOCH, "first millisecond of 1970"),
        ("timestamp timestamp", EPOCH + timedelta(microseconds=999), "first millisecond of 1970"),
    ],
)
def test_a_row_that_kafka_s_client_would_send_as_another_record_is_refused(
    field: str, value: Any, message: str
) -> None:
    schema = schema_of(f"value string, {field}")
    check_rows(arrow_table([("v", None)], schema), "t")
    with pytest.raises(SinkError, match=message) as caught:
        check_rows(arrow_table([("v", None), ("v", value)], schema), "t")
    assert f"field {field.split()[0]!r} of a row can't be sent" in str(caught.value)


@pytest.mark.parametrize(
    "millis",
    [-62_135_596_800_000, -1, 1, 253_402_300_799_999],
    ids=["year 1", "just before", "just after", "year 9999"],
)
def test_a_time_before_or_after_1970_is_sent_as_it_is(millis: int) -> None:
    schema = schema_of("value string, timestamp timestamp")
    table = arrow_table([("v", EPOCH + timedelta(milliseconds=millis))], schema)
    check_rows(table, "t")
    assert [each.timestamp for batch in table.to_batches() for each in records(batch, "t")] == [millis]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("word string", "a record has no field 'word'"),
        ("value string, offset bigint", "a record has no field 'offset'"),
        ("value int", "field 'value' is int; a record has binary or string"),
        ("value string, partition string", "field 'partition' is string"),
        ("value string, headers map<string, string>", "field 'headers' is map"),
        ("value string, headers array<struct<name string, value binary>>", "field 'headers' is array"),
        ("value string, timestamp bigint", "field 'timestamp' is bigint"),
        ("key string", "a record needs a field 'value'"),
    ],
)
def test_fields_that_no_record_has_are_refused(schema: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        check_fields(schema_of(schema), "t")


def test_rows_need_a_topic_of_their_own_where_the_sink_has_none() -> None:
    with pytest.raises(TopologyError, match="needs a topic, or rows with a field 'topic'"):
        check_fields(schema_of("value string"), None)
    schema = schema_of("value string, topic string")
    check_fields(schema, None)
    check_rows(arrow_table([("v", "t")], schema), None)
    check_rows(arrow_table([("v", None)], schema), "t")
    with pytest.raises(SinkError, match="1 of 2 rows have no topic"):
        check_rows(arrow_table([("v", "t"), ("v", None)], schema), None)


def headers_of(text: pa.DataType, binary: pa.DataType, many: Any) -> pa.DataType:
    return many(pa.struct([("key", text), ("value", binary)]))


@pytest.mark.parametrize(
    ("text", "binary", "many"),
    [
        (pa.string(), pa.binary(), pa.list_),
        (pa.large_string(), pa.large_binary(), pa.large_list),
        (pa.string_view(), pa.binary_view(), pa.list_),
    ],
    ids=["plain", "large", "views"],
)
def test_rows_are_the_same_records_in_each_of_arrows_forms(text: pa.DataType, binary: pa.DataType, many: Any) -> None:
    rows = pa.table(
        {
            "value": pa.array(["C:\\new\0", None], text),
            "key": pa.array([b"\xff\0", None], binary),
            "topic": pa.array(["other", None], text),
            "headers": pa.array([[{"key": "h", "value": b"\0"}], None], headers_of(text, binary, many)),
        }
    )
    check_rows(rows, "t")
    (batch,) = rows.to_batches()
    assert list(records(batch, "t")) == [
        Record("other", b"C:\\new\0", b"\xff\0", -1, 0, [("h", b"\0")]),
        Record("t", None, None, -1, 0, None),
    ]
    bad = pa.table({"value": ["x"], "headers": pa.array([[{"key": "a\0b"}]], headers_of(text, binary, many))})
    with pytest.raises(SinkError, match="with a header whose key is"):
        check_rows(bad, "t")


def test_texts_that_arrow_has_encoded_are_sent_as_they_are() -> None:
    rows = pa.table({name: pa.array(["x", None, "y"]).dictionary_encode() for name in ("value", "key", "topic")})
    check_rows(rows, "t")
    (batch,) = rows.to_batches()
    assert [tuple(each[:3]) for each in records(batch, "t")] == [
        ("x", b"x", b"x"),
        ("t", None, None),
        ("y", b"y", b"y"),
    ]


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(),
            st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
            st.none() | st.lists(st.tuples(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.binary())),
            st.none() | st.integers(-(2**40), 2**40),
            st.none() | st.datetimes(timezones=st.just(UTC)),
        ),
        max_size=5,
    )
)
def test_each_row_is_refused_by_name_or_a_record_with_all_that_it_says(rows: list[Any]) -> None:
    schema = schema_of(
        "key binary, value string, headers array<struct<key string, value binary>>, partition bigint, "
        "timestamp timestamp"
    )
    given_rows = [
        (key, value, headers and [{"key": name, "value": each} for name, each in headers], partition, at)
        for key, value, headers, partition, at in rows
    ]
    table = arrow_table(given_rows, schema)
    try:
        check_rows(table, "t")
    except SinkError:
        return
    found = [record for batch in table.to_batches() for record in records(batch, "t")]
    for record, (key, value, headers, partition, at) in zip(found, rows, strict=True):
        assert (record.key, record.value) == (key, None if value is None else value.encode())
        assert (record.headers or []) == [(name, each) for name, each in headers or []]
        assert record.partition == (-1 if partition is None else partition)
        assert record.timestamp == (0 if at is None else (at - EPOCH) // timedelta(milliseconds=1))
