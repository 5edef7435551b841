"""The bodies of requests with rows, checked against the declared fields. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from trident_py.rows.json_values import check_json_type, converter
from trident_py.rows.schema import arrow_array, arrow_schema, clipped

JSON_TYPES = ("application/x-ndjson", "application/json")
ARROW_TYPE = "application/vnd.apache.arrow.stream"


class BadBodyError(Exception):
    """A body has no rows of the declared fields; says which line or field is wrong."""


class BodyReader:
    """Reads bodies as rows of ``schema``, or as nothing."""

    def __init__(self, schema: t.StructType) -> None:
        check_json_type(schema)
        self.schema = schema
        self._arrow = arrow_schema(schema)
        self._converters: Mapping[str, Callable[[Any], Any]] = {
            each.name: converter(each.dataType) for each in schema.fields
        }

    def read(self, content_type: str, body: bytes) -> pa.Table:
        """Return the rows of a body.

        Raises:
            BadBodyError: it has none, or a row doesn't fit.
            LookupError: there is no such content type.
        """
        kind = content_type.partition(";")[0].strip().lower()
        if kind in JSON_TYPES:
            table = self._of_lines(body)
        elif kind == ARROW_TYPE:
            table = self._of_arrow(body)
        else:
            raise LookupError(f"the content type is {', '.join(JSON_TYPES)} or {ARROW_TYPE}, not {clipped(kind)}")
        if not table.num_rows:
            raise BadBodyError("the body has no row")
        return table

    def _of_lines(self, body: bytes) -> pa.Table:
        lines = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
        records = [self._record(number, line) for number, line in lines]
        columns = []
        for each in self.schema.fields:
            values = [record[each.name] for record in records]
            try:
                columns.append(arrow_array(values, each))
            except TypeError as error:
                number = _first_wrong(values, each)
                raise BadBodyError(f"line {lines[number][0]}: {error}") from error
        return pa.Table.from_arrays(columns, schema=self._arrow)

    def _record(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line, parse_float=Decimal)
        except (ValueError, RecursionError) as error:
            raise BadBodyError(f"line {number} is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise BadBodyError(f"line {number} is no JSON object: {clipped(found)}")
        if unknown := found.keys() - self._converters.keys():
            raise BadBodyError(f"line {number}: there is no field {sorted(unknown)[0]!r}; there are {self._names}")
        return {name: self._value(number, name, found.get(name)) for name in self._converters}

    def _value(self, number: int, name: str, value: Any) -> Any:
        if value is None:
            return None
        try:
            return self._converters[name](value)
        except Exception as error:
            raise BadBodyError(f"line {number}, field {name!r}: {error}") from error

    def _of_arrow(self, body: bytes) -> pa.Table:
        try:
            with pa.ipc.open_stream(body) as stream:
                found = stream.read_all()
            found.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadBodyError(f"the body is not an Arrow stream: {error}") from error
        if sorted(found.column_names) != sorted(self._arrow.names):
            raise BadBodyError(f"the body has the fields {found.column_names}; the declared ones are {self._names}")
        columns = [self._column(found.column(each.name), each) for each in self._arrow]
        return pa.Table.from_arrays(columns, schema=self._arrow)

    def _column(self, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        try:
            cast = column.cast(field.type)
        except (pa.ArrowException, ValueError) as error:
            raise BadBodyError(f"field {field.name!r} is {column.type}, not {field.type}: {error}") from error
        if not field.nullable and cast.null_count:
            raise BadBodyError(f"field {field.name!r} is NOT NULL, and has {cast.null_count} nulls")
        if _has_odd_year(cast):
            raise BadBodyError(f"field {field.name!r} has a time that is not in the years 1 to 9999")
        return cast

    @property
    def _names(self) -> str:
        return ", ".join(map(repr, self._arrow.names))


def _first_wrong(values: Iterable[Any], field: t.StructField) -> int:
    """Return the place of the first value that alone can't be a value of ``field``; else 0."""
    for place, value in enumerate(values):
        try:
            arrow_array([value], field)
        except TypeError:
            return place
    return 0


def _has_odd_year(column: pa.ChunkedArray) -> bool:
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return False
    found = pc.min_max(pc.year(column)).as_py()
    return found["min"] is not None and (found["min"] < 1 or found["max"] > 9999)
