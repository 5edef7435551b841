"""Values of Kafka records, from bytes to what the field ``value`` of a stream is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import frozen
from pyspark.sql import types as t

from trident_py.errors import SpoutError, TopologyError
from trident_py.rows.schema import arrow_array, schema_of, shown
from trident_py.spouts.kafka.avro import avro_decoder, avro_schema, avro_type

ON_ERROR = ("fail", "null", "skip")
KINDS = ("binary", "string", "json", "avro")

Decode: TypeAlias = Callable[[bytes], Any]


@frozen
class ValueFormat:
    """How values are written.

    Attributes:
        kind: one of `KINDS`.
        type: what they are in a row.
        on_error: what becomes of a value that isn't so, one of `ON_ERROR`.
        avro: the schema of Avro values, as `avro_schema` has it.
    """

    kind: str
    type: t.DataType
    on_error: str
    avro: Any = None

    @classmethod
    def of(cls, kind: object, schema: str | t.StructType | None, on_error: object) -> ValueFormat:
        """Check what a user has given.

        Raises:
            TopologyError: it can't work.
            ConfigError: it needs fastavro, which is not installed.
        """
        if kind not in KINDS:
            raise TopologyError(f"value is one of {', '.join(map(repr, KINDS))}, not {shown(kind)}")
        if on_error not in ON_ERROR:
            raise TopologyError(f"on_decode_error is one of {', '.join(map(repr, ON_ERROR))}, not {shown(on_error)}")
        match kind:
            case "avro":
                avro = avro_schema(schema)
                return cls("avro", avro_type(avro), str(on_error), avro)
            case "json":
                if schema is None:
                    raise TopologyError("value='json' needs schema=, the fields of the objects")
                return cls("json", schema_of(schema), str(on_error))
        if schema is not None:
            raise TopologyError(f"value={kind!r} takes no schema")
        return cls(str(kind), t.StringType() if kind == "string" else t.BinaryType(), str(on_error))

    @property
    def field(self) -> t.StructField:
        """The field ``value``."""
        return t.StructField("value", self.type)

    def array(self, values: Sequence[bytes | None], where: Callable[[int], str]) -> tuple[pa.Array, list[int]]:
        """Return the values as a column, and the numbers of those that are in it.

        Args:
            values: as they are in Kafka.
            where: names the record of a number, for errors.

        Raises:
            SpoutError: one can't be read, and is not to be left out.
        """
        numbers = list(range(len(values)))
        if self.kind == "binary":
            return pa.array(values, pa.binary()), numbers
        decode = self._decoder
        try:
            return arrow_array([None if value is None else decode(value) for value in values], self.field), numbers
        except (ArithmeticError, TypeError, ValueError):
            return self._one_by_one(values, where)

    def _one_by_one(self, values: Sequence[bytes | None], where: Callable[[int], str]) -> tuple[pa.Array, list[int]]:
        decode, kept, found = self._decoder, list[int](), list[Any]()
        for number, value in enumerate(values):
            try:
                decoded = None if value is None else decode(value)
                arrow_array([decoded], self.field)
            except (ArithmeticError, TypeError, ValueError) as error:
                if self.on_error == "fail":
                    raise SpoutError(
                        f"{where(number)}: its value is no {self.kind} of {self.field.dataType.simpleString()}: "
                        f"{error}; on_decode_error='null' or 'skip' goes on without it"
                    ) from error
                if self.on_error == "skip":
                    continue
                decoded = None
            kept.append(number)
            found.append(decoded)
        return arrow_array(found, self.field), kept

    @property
    def _decoder(self) -> Decode:
        match self.kind:
            case "string":
                return bytes.decode
            case "avro":
                return avro_decoder(self.avro)
        convert = _converter(self.type)
        return lambda value: convert(json.loads(value))


def _converter(kind: t.DataType) -> Callable[[Any], Any]:
    """Convert from JSON to values of a Spark type: what JSON has no type for stands in it as text."""
    match kind:
        case t.StructType():
            return _struct(kind)
        case t.ArrayType():
            item = _nullable(_converter(kind.elementType))
            return lambda value: list(map(item, _checked(value, list)))
        case t.MapType(keyType=t.StringType()):
            item = _nullable(_converter(kind.valueType))
            return lambda value: {key: item(each) for key, each in _checked(value, dict).items()}
        case t.DecimalType():
            return lambda value: Decimal(str(value))
        case t.DoubleType() | t.FloatType():
            return lambda value: float(value) if type(value) is int else value
        case t.DateType():
            return date.fromisoformat
        case t.TimestampType() | t.TimestampNTZType():
            return datetime.fromisoformat
    return lambda value: value


def _struct(kind: t.StructType) -> Callable[[Any], Any]:
    """Fields that an object lacks are NULL, others of it are left out."""
    converters = {field.name: _nullable(_converter(field.dataType)) for field in kind.fields}
    return lambda value: {name: convert(_checked(value, dict).get(name)) for name, convert in converters.items()}


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{shown(value)} is no {kind.__name__}")
    return value
