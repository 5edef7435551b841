"""Signatures of requests and answers: each side proves that it has the token, without sending it.

A nonce, which is valid once and for a short time, protects each request against repetition.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from attrs import define, field, frozen
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinators.values.secret import Secret
from trident_py.web.bodies import UNKNOWN_BODY_BYTES_MAX, read_body

SCHEME = "Trident"
"""The scheme in ``Authorization``, before ``EPOCH:NONCE:SIGNATURE``."""

SIGNATURE = "Trident-Signature"
"""The header that has the signature of an answer."""

NONCE_SECONDS = 60
"""Seconds for which a nonce is valid."""


@frozen
class Signer:
    """Signs requests and answers with the token as the key of an HMAC by SHA-256."""

    token: Secret

    def sign_request(self, method: str, path: str, body: bytes, epoch: int, nonce: str) -> str:
        """Return the signature of a request to the leader of ``epoch``."""
        return self._sign("request", method, path, sha256(body).hexdigest(), str(epoch), nonce)

    def sign_answer(self, nonce: str, status: int, epoch: str | None, txid: str | None, body: bytes) -> str:
        """Return the signature of the answer to the request with ``nonce``; epoch and txid are headers, if present."""
        return self._sign("answer", nonce, str(status), epoch or "", txid or "", sha256(body).hexdigest())

    def _sign(self, *parts: str) -> str:
        return hmac.new(self.token.reveal().encode(), "\n".join(parts).encode(), sha256).hexdigest()


@frozen
class SignedHeader:
    """The content of the header ``Authorization`` of a signed request."""

    epoch: int
    nonce: str
    signature: str

    @classmethod
    def of(cls, value: str) -> SignedHeader | None:
        """Parse the header; None if it has another form."""
        scheme, _, given = value.partition(" ")
        epoch, *rest = given.strip().split(":")
        if scheme.lower() != SCHEME.lower() or len(rest) != 2 or not (epoch.isascii() and epoch.isdigit()):
            return None
        return cls(int(epoch), *rest) if len(epoch) < 20 else None

    def __str__(self) -> str:
        return f"{SCHEME} {self.epoch}:{self.nonce}:{self.signature}"


@define(eq=False)
class Nonces:
    """Makes nonces; each is valid once and for a short time. Only used ones are stored."""

    _key: bytes = field(factory=lambda: secrets.token_bytes(32))
    _used: dict[str, float] = field(factory=dict)

    def draw(self) -> str:
        """Return a new nonce."""
        text = f"{int(time.monotonic()) + NONCE_SECONDS}.{secrets.token_hex(16)}"
        return f"{text}.{self._mark(text)}"

    def spend(self, nonce: str) -> bool:
        """Return whether ``nonce`` is valid and unused, and mark it as used."""
        text, _, mark = nonce.rpartition(".")
        if not hmac.compare_digest(mark.encode(), self._mark(text).encode()):
            return False
        now = time.monotonic()
        for old in [used for used, until in self._used.items() if until < now]:
            del self._used[old]
        until = float(text.partition(".")[0])
        if until < now or nonce in self._used:
            return False
        self._used[nonce] = until
        return True

    def _mark(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), sha256).hexdigest()


@define(eq=False)
class SignedRequests:
    """Answers signed requests, and signs the answers.

    Attributes:
        app: the application that answers them.
        signer: has the token.
        epoch: returns the epoch of this process's leadership; None: it doesn't lead.
        nonces: the nonces of this server.
    """

    app: ASGIApp
    signer: Signer
    epoch: Callable[[], int | None]
    nonces: Nonces = field(factory=Nonces, init=False)

    async def answer(self, given: SignedHeader, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request with the header ``given``.

        Raises:
            HTTPException: the signature doesn't match the token; or its nonce was used, is too old, or isn't ours.
        """
        body = await read_body(receive, UNKNOWN_BODY_BYTES_MAX)
        path = scope["raw_path"].decode("latin-1")
        if scope["query_string"]:
            path += f"?{scope['query_string'].decode('latin-1')}"
        wanted = self.signer.sign_request(scope["method"], path, body, given.epoch, given.nonce)
        if not hmac.compare_digest(given.signature.encode(), wanted.encode()):
            raise HTTPException(401, "the request is not signed by the token of this topology")
        if not self.nonces.spend(given.nonce):
            raise HTTPException(
                401, "the nonce was used before, is too old, or is not from this server; GET /nonce returns a new one"
            )
        scope["state"]["connection"].let_in()
        app: ASGIApp = self.app
        if given.epoch != self.epoch():
            app = JSONResponse({"error": f"this process doesn't lead epoch {given.epoch}; try again"}, 409)
        await self._sign(app, given.nonce, scope, body, receive, send)

    async def _sign(self, app: ASGIApp, nonce: str, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Call ``app``, and send its answer with a signature once it is complete."""
        rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        made: list[Any] = []

        async def take() -> Message:
            return rest.pop() if rest else await receive()

        async def keep(message: Message) -> None:
            made.append(message)

        await app(scope, take, keep)
        start, *parts = made
        answer = b"".join(part.get("body", b"") for part in parts)
        told = Headers(scope=start)
        signature = self.signer.sign_answer(
            nonce, start["status"], told.get("Trident-Epoch"), told.get("Trident-Txid"), answer
        )
        MutableHeaders(scope=start)[SIGNATURE] = signature
        await send(start)
        await send({"type": "http.response.body", "body": answer})
