"""Values of Kafka records, and of NATS messages: conversion from bytes to the field ``value`` of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import evolve, frozen
from pyspark.sql import types as t

from trident_py.errors import FailedException, SpoutError, TopologyError
from trident_py.interfaces.spouts import Decoder
from trident_py.rows.avro import avro_decoder, avro_schema, avro_type
from trident_py.rows.json_values import check_json_type, json_decoder
from trident_py.rows.row import column_values
from trident_py.rows.schema import arrow_array, schema_of, shown
from trident_py.sinks.kafka.registry import SchemaRegistry, registered_decoder

ON_ERROR = ("fail", "null", "skip", "quarantine")

UNDECODED = t.StructField("_undecoded", t.BinaryType())
"""The field for the bytes of a value that can't be decoded, and is to be quarantined."""

KINDS = ("binary", "string", "json", "avro")

Decode: TypeAlias = Callable[[bytes], Any]


@frozen
class ValueFormat:
    """The format of values.

    Attributes:
        kind: one of `KINDS`.
        type: their type in a row.
        on_error: the treatment of a value that can't be decoded, one of `ON_ERROR`.
        avro: the schema of Avro values, from `avro_schema`.
        registry: where the schemas are with which Avro values were written; None: that is ``avro``.
    """

    kind: str
    type: t.DataType
    on_error: str
    avro: Any = None
    registry: SchemaRegistry | None = None

    @classmethod
    def of(
        cls, kind: object, schema: str | t.StructType | None, on_error: object, registry: str | None = None
    ) -> ValueFormat:
        """Return the format for a user's arguments.

        Raises:
            TopologyError: an argument can't work.
            ConfigError: it needs fastavro, which is not installed.
        """
        if kind not in KINDS:
            raise TopologyError(f"value is one of {', '.join(map(repr, KINDS))}, not {shown(kind)}")
        if on_error not in ON_ERROR:
            raise TopologyError(f"on_decode_error is one of {', '.join(map(repr, ON_ERROR))}, not {shown(on_error)}")
        if registry is not None and kind != "avro":
            raise TopologyError(f"value={kind!r} takes no registry")
        match kind:
            case "avro":
                avro, found = avro_schema(schema), None if registry is None else SchemaRegistry(registry)
                return cls("avro", avro_type(avro), str(on_error), avro, found)
            case "json":
                if schema is None:
                    raise TopologyError("value='json' needs schema=, the fields of the objects")
                fields = schema_of(schema)
                check_json_type(fields)
                return cls("json", fields, str(on_error))
        if schema is not None:
            raise TopologyError(f"value={kind!r} takes no schema")
        return cls(str(kind), t.StringType() if kind == "string" else t.BinaryType(), str(on_error))

    @property
    def field(self) -> t.StructField:
        """The field ``value``."""
        return t.StructField("value", self.type)

    @property
    def quarantines(self) -> bool:
        """Whether a value that can't be decoded is NULL, and its bytes are in another field."""
        return self.on_error == "quarantine" and self.kind != "binary"

    def array(self, values: Sequence[bytes | None], where: Callable[[int], str]) -> tuple[pa.Array, list[int]]:
        """Return the values as a column, and the numbers of the values in it.

        Args:
            values: the bytes in Kafka.
            where: names the record of a number, for errors.

        Raises:
            SpoutError: a value can't be read, and must not be left out; or as `SchemaRegistry.schemas` raises it.
            FailedException: the schema registry doesn't have a schema now.
        """
        numbers = list(range(len(values)))
        if self.kind == "binary":
            return pa.array(values, pa.binary()), numbers
        decode = self._decoder
        try:
            return arrow_array([None if value is None else decode(value) for value in values], self.field), numbers
        except (FailedException, SpoutError):  # of the registry
            raise
        except Exception:  # noqa: BLE001 - whatever it is, it is of one of the records
            return self._one_by_one(values, where)

    def _one_by_one(self, values: Sequence[bytes | None], where: Callable[[int], str]) -> tuple[pa.Array, list[int]]:
        decode, kept, found = self._decoder, list[int](), list[Any]()
        for number, value in enumerate(values):
            try:
                decoded = None if value is None else decode(value)
                arrow_array([decoded], self.field)
            except (FailedException, SpoutError):
                raise
            except Exception as error:
                if self.on_error == "fail":
                    raise SpoutError(
                        f"{where(number)}: its value is not {self.kind} of {self.field.dataType.simpleString()}: "
                        f"{type(error).__name__}: {error}; to fix this: set on_decode_error='null' or 'skip' to "
                        f"continue without it"
                    ) from error
                if self.on_error == "skip":
                    continue
                decoded = None
            kept.append(number)
            found.append(decoded)
        return arrow_array(found, self.field), kept

    def undecoded(self, values: Sequence[bytes | None], column: pa.Array) -> pa.Array:
        """Return the bytes of those values that are NULL in ``column``, because they can't be decoded."""
        missing = column.is_null().to_pylist()
        return pa.array(
            [each if not_there else None for each, not_there in zip(values, missing, strict=True)], pa.binary()
        )

    def decoded(self, value: bytes) -> Any:
        """Return the value of a row; raise any exception if it can't be decoded."""
        made = arrow_array([self._decoder(value)], self.field)
        return column_values(made)[0]

    @property
    def _decoder(self) -> Decode:
        match self.kind:
            case "string":
                return bytes.decode
            case "avro":
                return registered_decoder(self.avro, self.registry) if self.registry else avro_decoder(self.avro)
        return json_decoder(self.type)


@frozen
class ValueDecoder:
    """Decodes the values that were quarantined: a row function. It raises for those that still can't be decoded.

    Attributes:
        place: that of the value in a row.
    """

    values: ValueFormat
    place: int

    def __call__(self, row: Sequence[Any]) -> Sequence[Any]:
        """Return the row of a record, given it and the bytes of its value, if they could not be decoded."""
        *made, given = row
        if given is not None:
            made[self.place] = self.values.decoded(given)
        return made


def decoder_of(values: ValueFormat, fields_of: Callable[[ValueFormat], t.StructType]) -> Decoder | None:
    """Return the row function for quarantined values; None: no value is quarantined.

    Args:
        values: the format of the spout.
        fields_of: returns the fields of its rows.
    """
    if not values.quarantines:
        return None
    strict = evolve(values, on_error="fail")
    fields = fields_of(strict)
    return Decoder(ValueDecoder(strict, fields.names.index(values.field.name)), fields)
