"""Requests that are signed by the token, as `trident request` sends them: verified, answered, and the answer signed."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

from attrs import define, field
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trident_py.web.bodies import UNKNOWN_BODY_BYTES_MAX, read_body
from trident_py.web.signatures import SIGNATURE, Nonces, SignedHeader, Signer


@define(eq=False)
class SignedRequests:
    """Answers signed requests, and signs the answers.

    Attributes:
        app: what answers them.
        signer: has the token.
        epoch: returns that of the leadership of this process; None: it doesn't lead.
        nonces: those of this server.
    """

    app: ASGIApp
    signer: Signer
    epoch: Callable[[], int | None]
    nonces: Nonces = field(factory=Nonces, init=False)

    async def answer(self, given: SignedHeader, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request that has ``given`` as its header.

        Raises:
            HTTPException: it isn't signed by the token, or its nonce was used, is too old, or isn't ours.
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
                401, "the nonce was used before, is too old, or is not of this server; GET /nonce gives one"
            )
        scope["state"]["connection"].let_in()
        app: ASGIApp = self.app
        if given.epoch != self.epoch():
            app = JSONResponse({"error": f"this process doesn't lead epoch {given.epoch}; ask again"}, 409)
        await self._sign(app, given.nonce, scope, body, receive, send)

    async def _sign(self, app: ASGIApp, nonce: str, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Have ``app`` answer, and send its answer with a signature once it is complete."""
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
