"""Access control: it checks each request to the page, or for an answer, before any other code receives it."""

from __future__ import annotations

import hmac
import re
import socket
from collections.abc import Iterable, Iterator
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qs

from attrs import define, field
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinators.values.secret import Secret
from trident_py.web.bodies import bytes_max_of
from trident_py.web.signatures import SignedHeader, SignedRequests

PATH_BYTES_MAX = 8 * 1024
"""The limit of a path with its query."""

HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?")
"""A name or an address, and an optional port."""

READING = ("GET", "HEAD")

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with a stricter policy, browsers send no origin of a form
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@define(eq=False)
class Access:
    """Accepts requests with the token, for a host name of this machine, and within size limits.

    It protects against other sites in the same browser. They can't send the cookie, a change needs the page's own
    origin, and other host names that resolve to this machine are refused.

    Attributes:
        app: the application that receives accepted requests.
        token: the token, as from `token_at`.
        port: the server's port; part of the name of the cookie, because cookies ignore ports.
        is_tls: whether clients use HTTPS.
        signed: answers requests that are signed by the token instead of containing it.
        open_paths: paths without anybody's data, which need no token; a path that ends with ``/`` includes everything
            below it.
    """

    app: ASGIApp
    token: Secret
    port: int
    is_tls: bool
    signed: SignedRequests
    open_paths: tuple[str, ...]
    _names: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._names = frozenset({"localhost", socket.gethostname().lower(), socket.getfqdn().lower()})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        is_function = scope["path"].startswith("/drpc/")  # its answer is finite, and can be signed
        given = SignedHeader.of(headers.get("authorization", "")) if is_function else None
        try:
            self._check(scope, headers, is_signed=given is not None)
            if given is not None:
                await self.signed.answer(given, scope, receive, send_guarded)
                return
        except HTTPException as refused:
            response = JSONResponse({"error": refused.detail}, refused.status_code)
            await response(scope, receive, send_guarded)
        else:
            await self.app(scope, receive, send_guarded)

    @property
    def cookie(self) -> str:
        """The name of the cookie."""
        return f"trident-{self.port}"

    def knows(self, given: str) -> bool:
        """Return whether ``given`` is the token, in a time that doesn't depend on the number of correct characters."""
        return hmac.compare_digest(given.encode(), self.token.reveal().encode())

    def has_token(self, scope: Scope) -> bool:
        """Return whether a request contains the token: as a bearer, as a cookie, or, if it only reads, in the query."""
        return any(map(self.knows, self._given(scope, Headers(scope=scope))))

    def _check(self, scope: Scope, headers: Headers, *, is_signed: bool) -> None:
        if len(scope["raw_path"]) + len(scope["query_string"]) > PATH_BYTES_MAX:
            raise HTTPException(414, f"a path with its query has at most {PATH_BYTES_MAX:,} bytes")
        self._check_host(headers.get("host", ""))
        length = headers.get("content-length", "0")
        path = scope["path"]
        if length.isdigit() and int(length) > (bytes_max := bytes_max_of(path)):
            raise HTTPException(413, f"a body has at most {bytes_max:,} bytes")
        is_open = any(path == each or (each.endswith("/") and path.startswith(each)) for each in self.open_paths)
        if scope["method"] not in READING:
            self._check_origin(headers, needs_bearer=not (is_open or is_signed))
        if self.has_token(scope):
            scope["state"]["connection"].let_in()
        elif not (is_open or is_signed or path == "/"):
            raise HTTPException(401, "the token is missing or wrong; `trident run` prints it with the page's address")

    def _check_host(self, host: str) -> None:
        """Refuse host names of other machines: their owner could make them resolve here, and share our origin."""
        found = HOST.fullmatch(host)
        if found is None:
            raise HTTPException(400, "the header Host is a name or an address of this machine, and a port")
        name = found[1].strip("[]")
        if name.lower() not in self._names and not _is_address(name):
            raise HTTPException(421, f"{name!r} is not a name of this machine; use its address")

    def _check_origin(self, headers: Headers, *, needs_bearer: bool) -> None:
        origin, own = headers.get("origin"), f"{'https' if self.is_tls else 'http'}://{headers.get('host', '')}"
        if origin is not None and origin != own:
            raise HTTPException(403, "changes come from the page itself, or from a program with the token as a bearer")
        if origin is None and needs_bearer and not any(map(self.knows, _bearers(headers))):
            raise HTTPException(401, "a program sends the token as a bearer: Authorization: Bearer TOKEN")

    def _given(self, scope: Scope, headers: Headers) -> Iterator[str]:
        yield from _bearers(headers)
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            cookies.clear()
        if morsel := cookies.get(self.cookie):
            yield morsel.value
        if scope["method"] in READING:
            yield from parse_qs(scope["query_string"].decode("latin-1")).get("token", ())


def _bearers(headers: Headers) -> Iterable[str]:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return (given.strip(),) if scheme.lower() == "bearer" else ()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
