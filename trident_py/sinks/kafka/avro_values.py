"""Values in Avro for a schema registry: they begin with the id of their schema."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, Self

import pyarrow as pa
from attrs import define, field
from pyspark.sql import types as t

from trident_py.errors import SinkError, StoreBusyException, TopologyError
from trident_py.rows.avro import avro_decoder, avro_encoder, avro_schema, avro_type
from trident_py.rows.schema import shown
from trident_py.sinks.kafka.registry import HEAD_BYTES, MAGIC, SchemaRegistry


@define
class AvroValues:
    """Encodes the field ``value``.

    Attributes:
        subject: the name under which the registry has the schema.
        text: the schema, as the user has written it.
        registry: where it is registered.
        type: the Spark type of values.
    """

    subject: str
    text: str
    registry: SchemaRegistry
    type: t.DataType = field(init=False)
    _encode: Callable[[Any], bytes] = field(init=False, repr=False)
    _head: bytes | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        schema = avro_schema(self.text)
        self.type, self._encode = avro_type(schema), self._encoder(schema)

    @classmethod
    def of(cls, topic: str | None, schema: str | None, registry: str | None) -> Self:
        """Return the encoder for the arguments of a user.

        Raises:
            TopologyError: an argument can't work.
            ConfigError: fastavro is not installed.
        """
        if schema is None or registry is None or topic is None:
            raise TopologyError("a KafkaSink that writes Avro needs a topic, schema= and registry=")
        return cls(f"{topic}-value", schema, SchemaRegistry(registry, SinkError, StoreBusyException))

    def encoded_fields(self, fields: t.StructType) -> t.StructType:
        """Return the fields of the records, given those of the rows.

        Raises:
            TopologyError: values are not of the type of the schema.
        """
        for each in fields:
            if each.name == "value" and each.dataType.simpleString() != self.type.simpleString():
                raise TopologyError(
                    f"field 'value' is {each.dataType.simpleString()}, and the Avro schema is of "
                    f"{self.type.simpleString()}; to fix this: convert the rows before the KafkaSink"
                )
        return t.StructType([t.StructField(f.name, t.BinaryType()) if f.name == "value" else f for f in fields])

    def encoded(self, rows: pa.Table) -> pa.Table:
        """Return the rows with encoded values.

        Raises:
            SinkError: a value doesn't fit the schema, or the registry refuses it.
            StoreBusyException: the registry doesn't answer.
        """
        if self._head is None:
            number = self.registry.register(self.subject, self.text)
            self._head = MAGIC + number.to_bytes(HEAD_BYTES - len(MAGIC), "big")
        encode, head = self._encode, self._head
        place = rows.column_names.index("value")
        values = (
            None if each is None else head + encode(each) for each in rows["value"].to_pylist(maps_as_pydicts="strict")
        )
        return rows.set_column(place, "value", pa.array(values, pa.binary()))

    def _encoder(self, schema: Any) -> Callable[[Any], bytes]:
        write, read = avro_encoder(schema), avro_decoder(schema)
        is_coarse = "-millis" in self.text  # the library would drop microseconds

        def encode(value: Any) -> bytes:
            stream = BytesIO()
            try:
                write(stream, value)
            except Exception as error:
                raise self._unfit(value, f"{type(error).__name__}: {error}") from error
            if is_coarse and read(stream.getvalue()) != value:
                raise self._unfit(value, "it has microseconds, and the schema milliseconds")
            return stream.getvalue()

        return encode

    def _unfit(self, value: Any, why: str) -> SinkError:
        return SinkError(
            f"field 'value' of a row can't be sent: {shown(value)} doesn't fit the Avro schema of {self.subject!r}: "
            f"{why}; to fix this: change such rows, or leave them out, before the KafkaSink"
        )
