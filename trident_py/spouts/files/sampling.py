"""The schema of files, found in the first ones."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from heapq import nsmallest
from io import StringIO
from operator import attrgetter
from typing import Any

import pyarrow.orc as po
import pyarrow.parquet as pq
from attrs import frozen
from pyspark.sql import types as t

from trident_py.errors import TopologyError
from trident_py.rows.avro import avro_fields
from trident_py.rows.schema import clipped, schema_of, spark_type
from trident_py.spouts.files.columns import avro_record, orc_schema
from trident_py.spouts.files.content import Content, all_of, content_of, file_errors
from trident_py.spouts.files.evolution import check_once
from trident_py.spouts.files.formats import JsonLines
from trident_py.spouts.files.places import Place

SAMPLE_FILES = 20
"""So many files are looked at, in the order of their names."""

SAMPLE_BYTES = 256 * 1024
"""So much of each file with lines is looked at."""

_INTEGERS = (t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType())
_FLOATS = (t.FloatType(), t.DoubleType())
_NUMBERS = (t.LongType(), t.DoubleType())
_BIGINT_END = 2**63
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"


@frozen
class Widening:
    """Finds the type for values of two.

    Attributes:
        orders: types, each of which holds what those before it in its sequence hold.
    """

    orders: Sequence[Sequence[t.DataType]]

    def __call__(self, left: t.DataType, right: t.DataType) -> t.DataType:
        """Return the type.

        Raises:
            ValueError: no type holds both.
        """
        match left, right:
            case (t.NullType(), other) | (other, t.NullType()):
                return other
            case t.StructType(), t.StructType():
                return self.fields(left, right)
            case t.ArrayType(), t.ArrayType():
                return t.ArrayType(self(left.elementType, right.elementType))
            case t.MapType(), t.MapType():
                return t.MapType(self(left.keyType, right.keyType), self(left.valueType, right.valueType))
        for order in self.orders:
            if left in order and right in order:
                return max(left, right, key=order.index)
        if left == right:
            return left
        raise ValueError(f"is {left.simpleString()} and {right.simpleString()}")

    def fields(self, left: t.StructType, right: t.StructType) -> t.StructType:
        """Return the fields of both, those of ``left`` first."""
        found = {each.name: each.dataType for each in left}
        for each in right:
            before = found.get(each.name, t.NullType())
            try:
                found[each.name] = self(before, each.dataType)
            except ValueError as error:
                raise ValueError(f"{each.name!r} {error}") from error
        return t.StructType([t.StructField(name, kind) for name, kind in found.items()])


def _known(kind: t.DataType) -> t.DataType:
    """Return the type with texts where no value was seen."""
    match kind:
        case t.NullType():
            return t.StringType()
        case t.StructType(fields=[]):
            return t.MapType(t.StringType(), t.StringType())
        case t.StructType():
            return t.StructType([t.StructField(each.name, _known(each.dataType)) for each in kind])
        case t.ArrayType():
            return t.ArrayType(_known(kind.elementType))
        case t.MapType():
            return t.MapType(_known(kind.keyType), _known(kind.valueType))
    return kind


def found_schema(format: str, place: Place, options: Mapping[str, Any]) -> t.StructType:
    """Return the fields of the first files of a place.

    Raises:
        TopologyError: there is no file, they have no common schema, or one can't be read.
    """
    files = nsmallest(SAMPLE_FILES, place.find(), key=attrgetter("path"))
    look, widened = _LOOKS[format]
    found = t.StructType()
    for file in files:
        path = file.path
        try:
            with file_errors(path), place.open(file) as opened:
                fields = look(content_of(opened, path), path, options)
                check_once(fields.names)
                found = widened.fields(found, fields)
        except Exception as error:
            raise TopologyError(
                f"the schema can't be found in file {path!r}: {error}; to fix this: give FileSpout the fields to read "
                f"as schema="
            ) from error
    if not found.fields:
        raise TopologyError(
            f"there is no record in {place.text!r} to find the schema in; to fix this: give FileSpout the fields to "
            f"read as schema=, or start when there is a file"
        )
    return schema_of(t.StructType([t.StructField(each.name, _known(each.dataType)) for each in found]))


# --- files with columns -----------------------------------------------------------------------------------------------


def _parquet(content: Content, path: str, options: Mapping[str, Any]) -> t.StructType:
    """Return the fields; Spark stores its own types, as it writes moments as INT96, which have no time zone."""
    schema = pq.read_schema(content.file)
    stored = (schema.metadata or {}).get(_SPARK_SCHEMA)
    if stored is not None:
        return t.StructType.fromJson(json.loads(stored))
    return _columns(schema)


def _orc(content: Content, path: str, options: Mapping[str, Any]) -> t.StructType:
    return _columns(orc_schema(po.ORCFile(content.file)))


def _columns(schema: Any) -> t.StructType:
    return t.StructType([t.StructField(each.name, spark_type(each.type)) for each in schema])


def _avro(content: Content, path: str, options: Mapping[str, Any]) -> t.StructType:
    schema = avro_record(content.file)
    return avro_fields(schema, [each["name"] for each in schema["fields"]])


# --- files with lines -------------------------------------------------------------------------------------------------


def _text(content: Content) -> str:
    """Return whole lines from the beginning of a file."""
    block = content.read_at(0, SAMPLE_BYTES)
    whole = block[: block.rfind(b"\n") + 1] or block  # the last line may not be complete
    return whole.decode("utf-8-sig")


def _json(content: Content, path: str, options: Mapping[str, Any]) -> t.StructType:
    if options.get("multiLine") is True:
        records = JsonLines(t.StructType(), "fail").records(path, all_of(content.file, path))
        texts = [text.decode() for text in records.texts()]
    else:
        texts = [text for text in _text(content).split("\n") if text.strip()]
    values = (json.loads(text, parse_float=Decimal) for text in texts)
    return reduce(_OF_JSON.fields, map(_object_type, values), t.StructType())


def _object_type(value: Any) -> t.StructType:
    if not isinstance(value, dict):
        raise TypeError(f"the line {clipped(value)} is not an object")
    return t.StructType([t.StructField(name, _json_type(each)) for name, each in value.items()])


def _json_type(value: Any) -> t.DataType:
    match value:
        case dict():
            return _object_type(value)
        case list():
            none: t.DataType = t.NullType()
            return t.ArrayType(reduce(_OF_JSON, map(_json_type, value), none))
        case bool():
            return t.BooleanType()
        case int() if -_BIGINT_END <= value < _BIGINT_END:
            return t.LongType()
        case Decimal() | float():
            return t.DoubleType()
        case str():
            return t.StringType()
        case None:
            return t.NullType()
    raise ValueError(f"{clipped(value)} has more digits than a bigint")


def _csv(content: Content, path: str, options: Mapping[str, Any]) -> t.StructType:
    """Return the names of the header, all as texts: only the user knows whether 0123 is a number."""
    if options.get("header") is not True:
        raise ValueError("the names are only known with options={'header': True}")
    lines = StringIO(_text(content), newline="")
    rows = csv.reader(lines, delimiter=options.get("sep", ","), quotechar=options.get("quote", '"'))
    return t.StructType([t.StructField(name, t.StringType()) for name in next(rows, [])])


_OF_COLUMNS, _OF_JSON = Widening((_INTEGERS, _FLOATS)), Widening((_NUMBERS,))

_LOOKS: Mapping[str, tuple[Callable[[Content, str, Mapping[str, Any]], t.StructType], Widening]] = {
    "parquet": (_parquet, _OF_COLUMNS),
    "orc": (_orc, _OF_COLUMNS),
    "avro": (_avro, _OF_COLUMNS),
    "json": (_json, _OF_JSON),
    "csv": (_csv, _OF_COLUMNS),
}
WITH_SCHEMA = frozenset(_LOOKS)
"""The formats with a schema that can be found."""
