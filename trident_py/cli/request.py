"""``trident request NAME FUNCTION ARGS``: sends a request to the leader of a topology, on any machine.

The token is not sent: it signs the request and the answer (`trident_py.web.signatures`).
"""

from __future__ import annotations

import hmac
import json
import logging
import re
import time
from argparse import Namespace
from email.message import Message
from functools import cache
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from attrs import frozen

from coordinators.backends.coordination import Coordination
from coordinators.status.description import TopologyDescription
from coordinators.values.error_text import safe_text
from trident_py.cli.coordination import existing
from trident_py.cli.terminal import json_text
from trident_py.cli.usage import UsageError, config_of
from trident_py.errors import RequestError
from trident_py.interfaces.config import ServeAddress
from trident_py.web.signatures import SIGNATURE, SignedHeader, Signer
from trident_py.web.token import token_at

LOOK_AGAIN_SECONDS = 0.5
ANSWER_BYTES_MAX = 256 * 1024 * 1024
FINAL = (400, 404, 413, 414, 500)
"""Statuses of signed answers that would be the same after a retry."""

UNAUTHORIZED = 401
NONCE = re.compile(r"[\w.]{1,200}", re.ASCII)

log = logging.getLogger(__name__)


def run(arguments: Namespace) -> int:
    """Print the rows of the answer, one JSON value a line; with ``--json`` also the transaction that they reflect."""
    if arguments.timeout <= 0:
        raise UsageError(f"--timeout is above 0, not {arguments.timeout:g}")
    config = config_of(arguments)
    signer = Signer(token_at(config.state_dir))
    with existing(config) as coordination:
        answer = _answer(coordination, arguments, signer)
    if arguments.json:
        print(json_text(answer, indent=2))
    else:
        for row in answer["rows"]:
            print(json_text(row))
    return 0


@frozen
class Reply:
    """An HTTP response."""

    status: int
    headers: Message
    body: bytes

    @property
    def said(self) -> str:
        """Its error, for people."""
        try:
            return safe_text(str(json.loads(self.body)["error"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return f"status {self.status}"

    @property
    def answer(self) -> dict[str, Any]:
        """Its rows, with the epoch and transaction that they reflect."""
        epoch, txid = self.headers["Trident-Epoch"], self.headers["Trident-Txid"]
        return {"rows": json.loads(self.body), "epoch": int(epoch), "txid": None if txid is None else int(txid)}


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow no redirect: the record holds the leader's address."""


_opener = build_opener(_NoRedirects)


def _answer(coordination: Coordination, arguments: Namespace, signer: Signer) -> dict[str, Any]:
    """Send the request until the leader answers; if a leader ends meanwhile, ask the next one.

    Raises:
        RequestError: there was no answer in time, or the answer is an error.
    """
    name, until = arguments.name, time.monotonic() + arguments.timeout
    while True:
        description = coordination.describe(name)
        reply, why = _reply(description, arguments, signer, until)
        if reply is not None and reply.status == 200:
            return reply.answer
        if reply is not None and reply.status in FINAL:
            raise RequestError(why, topology=name)
        if time.monotonic() + LOOK_AGAIN_SECONDS >= until:
            raise RequestError(f"no answer within {arguments.timeout:g} s; {why}", topology=name)
        time.sleep(LOOK_AGAIN_SECONDS)


def _reply(
    description: TopologyDescription, arguments: Namespace, signer: Signer, until: float
) -> tuple[Reply | None, str]:
    """Return the leader's signed answer, or None; and the reason if it has no rows.

    Raises:
        RequestError: the leader doesn't accept our token.
    """
    name, leader = arguments.name, description.leader
    if leader is None:
        return None, f"no process leads topology {name!r}"
    if not leader.address:
        return None, f"{leader} leads topology {name!r}, and answers no requests: it runs without --serve"
    address = leader.address
    try:
        nonce = _nonce(address, until)
        reply, is_signed = _ask(address, arguments, signer, description.epoch, nonce, until)
    except (URLError, OSError, HTTPException, ValueError) as error:
        return None, f"{safe_text(address)} can't be reached: {safe_text(str(getattr(error, 'reason', error)))}"
    if is_signed:
        return reply, f"{address} answers: {reply.said}"
    why = f"the answer of {address} is not signed by the token, so another program may have sent it: {reply.said}"
    if reply.status == UNAUTHORIZED:
        raise RequestError(f"{why}; to fix this: use the TRIDENT_TOKEN or --state-dir of the topology", topology=name)
    return None, why


def _nonce(address: str, until: float) -> str:
    _check_address(address)
    nonce = _fetch(Request(f"{address}/nonce"), until)  # noqa: S310 - checked
    try:
        given = json.loads(nonce.body)["nonce"]
    except (ValueError, KeyError, TypeError, RecursionError):
        given = None
    if not isinstance(given, str) or not NONCE.fullmatch(given):
        raise ValueError(f"it returns no nonce: {nonce.said}")
    return given


def _ask(
    address: str, arguments: Namespace, signer: Signer, epoch: int, nonce: str, until: float
) -> tuple[Reply, bool]:
    """Return the answer of ``address``, and whether it is signed by the token."""
    path, body = f"/drpc/{quote(arguments.function, safe='')}", arguments.args.encode()
    header = SignedHeader(epoch, nonce, signer.sign_request("POST", path, body, epoch, nonce))
    headers = {"Authorization": str(header), "Content-Type": "text/plain; charset=utf-8"}
    reply = _fetch(Request(f"{address}{path}", body, headers), until)  # noqa: S310 - checked
    told = reply.headers
    wanted = signer.sign_answer(nonce, reply.status, told["Trident-Epoch"], told["Trident-Txid"], reply.body)
    return reply, hmac.compare_digest((told[SIGNATURE] or "").encode(), wanted.encode())


def _fetch(request: Request, until: float) -> Reply:
    """Return the response, if it is complete by this monotonic moment.

    Raises:
        OSError: no response, or an incomplete one.
        ValueError: it is larger than an answer may be.
    """
    try:
        response = _opener.open(request, timeout=max(1.0, until - time.monotonic()))
    except HTTPError as error:
        response = error
    body = bytearray()
    with response:
        while piece := response.read1(1 << 16):
            body += piece
            if len(body) > ANSWER_BYTES_MAX:
                raise ValueError(f"the answer has more than {ANSWER_BYTES_MAX:,} bytes")
            if time.monotonic() > until:
                raise TimeoutError("the answer did not arrive in time")
    return Reply(response.status, response.headers, bytes(body))


@cache
def _check_address(address: str) -> None:
    """Warn, once, if others can read the request on the network.

    Raises:
        ValueError: it is not the address of a server.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is not the address of an HTTP server")
    if parts.scheme == "http" and not ServeAddress(parts.hostname, 0).is_loopback:
        log.warning("%s is asked by plain HTTP: others in its network can read the request and its answer", address)
