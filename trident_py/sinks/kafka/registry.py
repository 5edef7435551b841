"""Schemas of a schema registry, by the ids that Confluent's serializers write before each value."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from io import BytesIO
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, unquote_to_bytes, urlsplit
from urllib.request import Request, urlopen

from attrs import field, frozen

from coordinators.values.secret import Secret, as_secret
from trident_py.errors import FailedException, SpoutError, TopologyError, TridentError
from trident_py.rows.avro import avro_reader, read_to_end

MAGIC = b"\0"
"""The first byte of each value; four bytes with the id follow."""

HEAD_BYTES = 5
TIMEOUT_SECONDS = 10.0
_JSON = "application/vnd.schemaregistry.v1+json"
_WAITED_FOR = {404, 408, 425, 429}
"""The answers of a registry that may be others later: a follower may not know a new schema yet."""

_kept: dict[tuple[Secret, int], tuple[Any, ...]] = {}
"""The schemas of this process: an id never gets another one."""


@frozen
class SchemaRegistry:
    """A registry with Confluent's HTTP interface.

    Attributes:
        url: ``http://[user:password@]host:port``, or with ``https``; never printed.
        refused: the error if the registry refuses, or has another kind of schema.
        away: the error if it can't be reached, or doesn't know an id yet.
    """

    url: Secret = field(converter=as_secret)
    refused: type[TridentError] = SpoutError
    away: type[FailedException] = FailedException

    def __attrs_post_init__(self) -> None:
        parts = self._parts
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise TopologyError("registry is the URL of a schema registry, such as 'http://localhost:8081'")

    def schemas(self, number: int) -> tuple[Any, ...]:
        """Return the Avro schema with this id as JSON, after those that it refers to.

        Raises:
            FailedException, TridentError: as `away` and `refused`.
        """
        if (self.url, number) not in _kept:
            found = self._asked(f"/schemas/ids/{number}")
            if (kind := found.get("schemaType", "AVRO")) != "AVRO":
                raise self.refused(f"schema {number} of {self} is {kind}; to fix this: read value='binary'")
            _kept[self.url, number] = tuple(self._in_order(found))
        return _kept[self.url, number]

    def _in_order(self, found: Mapping[str, Any]) -> Iterator[Any]:
        for each in found.get("references", ()):
            subject = quote(each["subject"], safe="")
            yield from self._in_order(self._asked(f"/subjects/{subject}/versions/{each['version']}"))
        yield json.loads(found["schema"])

    def register(self, subject: str, schema: str) -> int:
        """Return the id of an Avro schema of a subject, which is registered if it isn't yet.

        Raises:
            FailedException, TridentError: as `away` and `refused`.
        """
        answer = self._asked(f"/subjects/{quote(subject, safe='')}/versions", json.dumps({"schema": schema}).encode())
        return int(answer["id"])

    def _asked(self, path: str, body: bytes | None = None) -> Mapping[str, Any]:
        parts = self._parts
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path.rstrip("/") + path)
        headers = {"Accept": _JSON, **({"Content-Type": _JSON} if body else {})}
        request = Request(place.geturl(), body, headers)  # noqa: S310 - the scheme was checked
        if parts.username is not None:
            user = parts.netloc.rpartition("@")[0]
            request.add_header("Authorization", f"Basic {base64.b64encode(unquote_to_bytes(user)).decode()}")
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - the scheme was checked
                found: Mapping[str, Any] = json.load(answer)
                return found
        except HTTPError as error:
            with error:
                if error.code < 500 and error.code not in _WAITED_FOR:
                    raise self.refused(
                        f"{self} refuses {path}: {error.code} {error.reason}; to fix this: correct registry="
                    ) from error
                raise self.away(f"{self} answers {error.code} {error.reason} to {path}") from error
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise self.away(f"{self} doesn't answer {path}: {error}") from error

    def __str__(self) -> str:
        return f"the schema registry at {self._parts.netloc.rpartition('@')[2]}"

    @property
    def _parts(self) -> SplitResult:
        return urlsplit(self.url.reveal())


def registered_decoder(schema: Any, registry: SchemaRegistry) -> Callable[[bytes], Any]:
    """Return a function that decodes a value that begins with the id of the schema with which it was written.

    The value is converted to ``schema``, by Avro's rules. The function raises ValueError for invalid bytes, and as
    `SchemaRegistry.schemas` does.
    """
    readers = dict[int, Callable[[BytesIO], Any]]()

    def decode(value: bytes) -> Any:
        if len(value) < HEAD_BYTES or not value.startswith(MAGIC):
            raise ValueError("it doesn't begin with a zero and the id of a schema")
        number = int.from_bytes(value[1:HEAD_BYTES], "big")
        if number not in readers:
            *others, writer = registry.schemas(number)
            readers[number] = avro_reader(writer, schema, others)
        stream = BytesIO(value)
        stream.seek(HEAD_BYTES)
        return read_to_end(readers[number], stream, len(value))

    return decode
