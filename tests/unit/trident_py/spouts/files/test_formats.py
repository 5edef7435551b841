"""JSON and CSV in lines: what each line gives, wherever a block is cut; and what is no record, named by its byte."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.trident_py.spouts.files.world import World, write
from trident_py import TridentTopology
from trident_py.errors import SpoutError, TopologyError
from trident_py.rows.schema import schema_of
from trident_py.spouts.files import lines as lines_module
from trident_py.spouts.files.files import FileSpout
from trident_py.spouts.files.formats import CsvLines, JsonLines, LineDecoder, Lines, RecordLines

ORDER = "product string, amount int"
JSON = b'{"product": "tea", "amount": 3, "more": [1]}\n\n{"amount": null}\r\n{"product": "caf\xc3\xa9"}'
CSV = b'product,amount\ntea,3\n\n"caf\xc3\xa9, black",\r\n"",-1'


def read(directory: Path, data: bytes, **options: Any) -> list[tuple[Any, ...]]:
    path = write(directory / f"orders{len([*directory.iterdir()])}", data)
    world = World(path, **{"schema": ORDER, **options})
    world.pass_time()
    rows: list[Any] = [row for batch in world.all() for row in batch]
    assert {row[-2] for row in rows} <= {str(path)}
    return [(*row[:-2], row[-1]) for row in rows]


def test_each_line_of_json_is_a_record_and_empty_lines_are_none(tmp_path: Path) -> None:
    assert read(tmp_path, JSON, format="json") == [("tea", 3, 0), (None, None, 46), ("café", None, 64)]


def test_each_line_of_csv_is_a_record_below_the_header(tmp_path: Path) -> None:
    found = read(tmp_path, CSV, format="csv", options={"header": True})
    assert found == [("tea", 3, 15), ("café, black", None, 22), ("", -1, 39)]


def test_csv_may_have_other_separators_quotes_and_nulls(tmp_path: Path) -> None:
    options = {"sep": ";", "quote": "'", "nullValue": "-"}
    assert read(tmp_path, b"'a;b';-\n-;2\n'-';3\n", format="csv", options=options) == [
        ("a;b", None, 0),
        (None, 2, 8),
        ("-", 3, 12),
    ]


def test_csv_with_a_quote_in_the_middle_of_a_quoted_value_is_no_record(tmp_path: Path) -> None:
    lines = b'"a"b,1\n5" disk,2\n"""",3\n"a" ,4\n""c,5\n"say ""hi""",6\n'
    found = read(tmp_path, lines, format="csv", on_decode_error="skip")
    assert [row[:2] for row in found] == [('5" disk', 2), ('"', 3), ('say "hi"', 6)]


def test_a_quarantined_line_is_decoded_again_by_the_present_format() -> None:
    decode = LineDecoder(JsonLines(schema_of(ORDER), "fail"))
    assert decode([None, None, "a.json", 7, b'{"product": "tea", "amount": 3}']) == ["tea", 3, "a.json", 7]
    assert decode(["tea", 3, "a.json", 7, None]) == ["tea", 3, "a.json", 7]
    with pytest.raises(SpoutError, match=r"file 'a.json', the line at byte 7: it is not json of"):
        decode([None, None, "a.json", 7, b"no JSON"])


def test_a_byte_order_mark_is_not_of_the_first_record(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbf" + b'{"product": "tea"}\n', format="json") == [("tea", None, 3)]
    header = b"\xef\xbb\xbfproduct,amount\ntea,3\n"
    assert read(tmp_path, header, format="csv", options={"header": True}) == [("tea", 3, 18)]


def test_values_of_all_types(tmp_path: Path) -> None:
    fields = "b boolean, y tinyint, l bigint, f float, d double, n decimal(10,2), day date, at timestamp, "
    fields += "local timestamp_ntz"
    local = datetime(2024, 2, 29, 12, 0, 0, 5)  # noqa: DTZ001 - it has no zone
    expected = True, -128, 2**40, 0.5, 1e300, Decimal("-1.25"), date(2024, 2, 29), datetime(2024, 2, 29, 11, tzinfo=UTC)
    values = ["true", "-128", str(2**40), "0.5", "1e300", "-1.25", "2024-02-29"]
    values += ["2024-02-29T12:00:00+01:00", "2024-02-29T12:00:00.000005"]
    (row,) = read(tmp_path, ",".join(values).encode() + b"\n", format="csv", schema=fields)
    assert row[:-1] == (*expected, local)
    names = schema_of(fields).names
    plain = [True, -128, 2**40, 0.5, 1e300, *values[5:]]
    (row,) = read(tmp_path, json.dumps(dict(zip(names, plain, strict=True))).encode(), format="json", schema=fields)
    assert row[:-1] == (*expected, local)


BAD = {
    "json": [b"{", b"[]", b'{"amount": "x"}', b'{"amount": 99999999999}', b"\xff", b"null"],
    "csv": [b"tea", b"tea,3,4", b"tea,x", b"tea,99999999999", b"\xff,3", b'"tea', b"a\rb,3"],
}
GOOD = {"json": b'{"product": "tea", "amount": 3}', "csv": b"tea,3"}


@pytest.mark.parametrize(("kind", "bad"), [(kind, bad) for kind, each in BAD.items() for bad in each])
def test_a_line_that_is_no_record_is_named_by_its_byte_or_left_out(tmp_path: Path, kind: str, bad: bytes) -> None:
    good = GOOD[kind]
    data, width = b"\n".join([good, good, bad, good, b""]), len(good) + 1
    with pytest.raises(SpoutError, match=rf"the line at byte {2 * width}: it is not {kind} of struct<product:string"):
        read(tmp_path, data, format=kind)
    last = 2 * width + len(bad) + 1
    kept: list[Any] = [("tea", 3, 0), ("tea", 3, width), ("tea", 3, last)]
    assert read(tmp_path, data, format=kind, on_decode_error="skip") == kept
    kept.insert(2, (None, None, 2 * width))
    assert read(tmp_path, data, format=kind, on_decode_error="null") == kept


def test_a_quoted_value_over_two_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpoutError, match="the line at byte 6: it is not csv"):
        read(tmp_path, b'tea,3\n"two\nlines",4\ntea,3\n', format="csv")


def test_a_header_with_other_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpoutError, match=r"the header names the fields \['amount', 'product'\], and schema= has"):
        read(tmp_path, b"amount,product\n3,tea\n", format="csv", options={"header": True})


PARTS = [b"a,1", b"", b'"x,y",2', b"bad", b"c,x", b'"open,3', b'close",4', b"\r", b'"",5', b"d,6\r", b"e\rf,7"]
FORMATS: list[RecordLines] = [
    CsvLines(schema_of(ORDER), "null", header=False, sep=",", quote='"', null=""),
    JsonLines(schema_of(ORDER), "skip"),
]


@pytest.mark.parametrize("format", FORMATS, ids=lambda each: each.kind)
@given(st.lists(st.sampled_from([*PARTS, *BAD["json"], GOOD["json"]]), max_size=12))
def test_lines_give_the_same_together_as_one_by_one(format: RecordLines, parts: list[bytes]) -> None:
    def rows(position: int, block: bytes) -> list[tuple[Any, ...]]:
        columns = format.columns(Lines.of("orders", position, block))
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    block = b"".join(part + b"\n" for part in parts)
    alone, position = list[Any](), 0
    for part in block.splitlines(keepends=True) if b"\r" not in block else [part + b"\n" for part in parts]:
        alone += rows(position, part)
        position += len(part)
    assert rows(0, block) == alone


def test_records_of_many_pieces_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 100)
    data = b"product,amount\n" + b"".join(b"p%d,%d\n" % (number, number) for number in range(500))
    found = read(tmp_path, data, format="csv", options={"header": True}, max_bytes_per_batch=1000)
    assert [row[:2] for row in found] == [(f"p{number}", number) for number in range(500)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"format": "xml"}, "format is one of 'text', 'json', 'csv', 'parquet', 'orc', 'avro', 'binary', not 'xml'"),
        ({"schema": ORDER}, "format='text' takes no schema"),
        ({"format": "json", "schema": ORDER, "options": {"header": True}}, "there is no option 'header' of json"),
        ({"format": "csv", "schema": ORDER, "options": {"head": True}}, "there is no option 'head' of csv"),
        ({"format": "csv", "schema": ORDER, "options": {"sep": "ab"}}, r"options\['sep'\] is one ASCII character"),
        ({"format": "csv", "schema": ORDER, "options": {"header": 1}}, r"options\['header'\] is True or False"),
        ({"format": "csv", "schema": "a array<int>"}, "the field 'a' is array<int>, which CSV has not"),
        ({"format": "json", "schema": "a binary"}, "the field 'a' is binary"),
        ({"format": "json", "schema": "_path string"}, "can't have a field '_path'"),
        ({"format": "json", "schema": ORDER, "encoding": "latin-1"}, "is read as UTF-8"),
        ({"format": "json", "schema": ORDER, "on_decode_error": "ignore"}, "on_decode_error is one of 'fail', 'null'"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        FileSpout("orders", **arguments)


def test_the_fields_are_those_of_the_schema_and_the_place(tmp_path: Path) -> None:
    stream = TridentTopology("t").new_stream("orders", FileSpout(tmp_path / "*", format="json", schema=ORDER))
    assert stream.schema == schema_of("product string, amount int, _path string, _position bigint")
    assert FileSpout("*.json", format="json", schema=ORDER).details() == {"glob": "*.json", "format": "json"}


def test_json_with_fields_that_were_not_found_stops_by_name_unless_they_may_come(tmp_path: Path) -> None:
    write(tmp_path / "a", b'{"n": 1, "in": [{"x": 1}]}\n')
    strict, adding = (
        FileSpout(tmp_path / "?", format="json", schema_evolution=each, on_decode_error="skip")
        for each in ("fail", "add")
    )
    later = write(tmp_path / "b", b'{"n": 2}\n{"n": 3, "in": [{"y": 1}]}\n{"n": 4, "more": 1}\n')

    def numbers(spout: FileSpout) -> object:
        made = spout._format
        assert isinstance(made, JsonLines)
        return made.columns(Lines.of("b", 0, later.read_bytes()))[0].to_pylist()

    assert numbers(strict) == [2]
    assert numbers(adding) == [2, 3, 4]
