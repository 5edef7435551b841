"""Requests that feed a topology, as the HTTP server passes them to a spout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from attrs import frozen

from coordinators.values.canonical import Json

RETRY_SECONDS = 1
"""Seconds after which a request that can't be answered now is worth another try."""


@frozen
class IngestRequest:
    """A request with rows.

    Attributes:
        content_type: the form of the body, as the header names it.
        body: the rows.
        key: the idempotency key; None: the request has none.
    """

    content_type: str
    body: bytes
    key: str | None


@frozen
class IngestAnswer:
    """The answer to a request.

    Attributes:
        status: of HTTP.
        facts: the body, as JSON.
        retry_seconds: after this time, the same request may be answered otherwise; None: it won't be.
    """

    status: int
    facts: Mapping[str, Json]
    retry_seconds: int | None = None


@runtime_checkable
class Ingesting(Protocol):
    """A spout that receives its rows by HTTP."""

    @property
    def stream(self) -> str:
        """The name of the stream in the path of a request."""
        ...

    def ingest(self, request: IngestRequest) -> IngestAnswer:
        """Store the rows of a request, and return the answer to it. Any thread may call it."""
        ...
