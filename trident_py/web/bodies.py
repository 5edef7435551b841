"""The bodies of requests, read up to a limit of bytes and seconds."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import Receive

BODY_BYTES_MAX = 1024 * 1024
INGEST_PATH = "/ingest/"
INGEST_BYTES_MAX = 8 * 1024 * 1024
"""The limit of a body with rows."""

UNKNOWN_BODY_BYTES_MAX = 128 * 1024
"""The limit for a request whose client is only known to have the token once its body was read."""

BODY_SECONDS = 10.0
"""Seconds for a body to arrive."""


def bytes_max_of(path: str) -> int:
    """Return the limit of the body of a request with the token."""
    return INGEST_BYTES_MAX if path.startswith(INGEST_PATH) else BODY_BYTES_MAX


async def read_body(receive: Receive, bytes_max: int) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: it is larger, didn't arrive in time, or its client left.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise HTTPException(400, "the body ended before its end")
                body += message.get("body", b"")
                if len(body) > bytes_max:
                    raise HTTPException(413, f"a body has at most {bytes_max:,} bytes")
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {BODY_SECONDS:g} s") from None
