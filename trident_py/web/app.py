"""The HTTP application of one topology's page: its paths, and their answers for browsers and programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote
from uuid import uuid4

from attrs import define, field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from coordinators.record.wishes import Action, Rate, Wish
from coordinators.values.error_text import safe_text
from coordinators.values.errors import ConfigError, TridentError
from trident_py.errors import RequestError, UnknownFunctionError
from trident_py.history.database import NoHistoryError
from trident_py.history.transactions import TransactionHistory
from trident_py.interfaces.ingest import IngestRequest
from trident_py.telemetry.prometheus import CONTENT_TYPE
from trident_py.web.access import Access
from trident_py.web.bodies import BODY_BYTES_MAX, INGEST_BYTES_MAX, INGEST_PATH, UNKNOWN_BODY_BYTES_MAX, read_body
from trident_py.web.facts import Snapshot
from trident_py.web.left_out import RowsLeftOut
from trident_py.web.shown import ShownTopology
from trident_py.wishing import ABOUT_TRANSACTIONS

T = TypeVar("T")

STATIC = Path(__file__).with_name("static")
OPEN_PATHS = ("/login", "/nonce", "/metrics", "/static/")
"""Paths that show no rows and change nothing."""

LOOK_SECONDS = 0.5
"""Seconds between two messages to a page."""

WATCHERS_MAX = 20
REQUESTS_MAX = 32
INGESTS_MAX = 64
STORING_THREADS = 32
REQUEST_SECONDS = 60.0
WISH_SECONDS = 10.0
LISTED_MAX = 1_000
TXID_MAX = 2**63 - 1
REFUSAL_BYTES_MAX = 500
"""The limit of a text about an invalid request."""


@define(eq=False)
class Page:
    """The page of one topology, and the paths for programs.

    Attributes:
        shown: the topology.
        left_out: reads the rows that it has left out.
        is_closing: whether watching pages get one last message.
    """

    shown: ShownTopology
    left_out: RowsLeftOut
    is_closing: bool = field(default=False, init=False)
    _looking: ThreadPoolExecutor = field(init=False)  # one thread, as databases are used by one
    _storing: ThreadPoolExecutor = field(init=False)  # several, as requests that wait share a flush to the disk
    _watchers: int = field(default=0, init=False)
    _requests: int = field(default=0, init=False)
    _ingests: int = field(default=0, init=False)
    _last: tuple[float, Snapshot] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._looking = ThreadPoolExecutor(1, f"trident-{self.shown.name}-page")
        self._storing = ThreadPoolExecutor(STORING_THREADS, f"trident-{self.shown.name}-ingest")

    def close(self) -> None:
        """Stop reading the topology."""
        self._looking.shutdown(wait=False)
        self._storing.shutdown(wait=False)

    @property
    def is_watched(self) -> bool:
        """Whether a page is open in a browser."""
        return self._watchers > 0

    def app(self) -> Starlette:
        """Return the application; it answers every request that `Access` accepts."""
        return Starlette(
            routes=[
                Route("/", self.page),
                Route("/login", self.login, methods=["POST"]),
                Route("/events", self.events),
                Route("/status", self.status),
                Route("/plan", self.plan),
                Route("/tx", self.listed),
                Route("/tx/{txid}", self.transaction),
                Route("/parked/{txid}", self.parked),
                Route("/dead-letters", self.letters),
                Route("/nonce", self.nonce),
                Route("/wishes", self.wish, methods=["POST"]),
                Route("/metrics", self.metrics),
                Route(INGEST_PATH + "{stream}", self.ingest, methods=["POST"]),
                Route("/drpc/{function}", self.answer, methods=["GET", "POST"]),
                Route("/drpc/{function}/{args:text}", self.answer, methods=["GET", "POST"]),
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            exception_handlers={HTTPException: _refused, TridentError: _failed, TimeoutError: _late},  # type: ignore[dict-item]
        )

    # --- the page -----------------------------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """Return the page if the request has the token, which becomes a cookie; otherwise the login page."""
        access: Access = request.app.state.access
        if not access.has_token(request.scope):
            return FileResponse(STATIC / "login.html", status_code=401)
        return _logged_in(access) if "token" in request.query_params else FileResponse(STATIC / "page.html")

    async def login(self, request: Request) -> Response:
        """Check the token that the user typed."""
        access: Access = request.app.state.access
        body = await read_body(request.receive, UNKNOWN_BODY_BYTES_MAX)
        given = parse_qs(body.decode(errors="replace")).get("token", [""])[0].strip()
        return _logged_in(access) if access.knows(given) else FileResponse(STATIC / "login.html", status_code=401)

    async def events(self, request: Request) -> Response:
        """Send the status twice a second, with the transactions that have changed."""
        if self._watchers >= WATCHERS_MAX:
            return _error(503, f"{WATCHERS_MAX} pages are open already; close one")
        self._watchers += 1
        return _Events(self._messages(), self._stop_watching)

    def _stop_watching(self) -> None:
        self._watchers -= 1

    async def _messages(self) -> AsyncIterator[str]:
        sent: dict[int, TransactionHistory] = {}
        while True:
            is_last = self.is_closing
            snapshot = await self._snapshot()
            if snapshot is not None:
                yield f"data: {json.dumps(_message(snapshot, sent))}\n\n"
                sent = {each.txid: each for each in snapshot.transactions}
            if is_last:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _snapshot(self) -> Snapshot | None:
        """Return a recent snapshot, shared by all watching pages; None if it can't be read."""
        now = asyncio.get_running_loop().time()
        if self._last is None or now - self._last[0] >= LOOK_SECONDS / 2:
            try:
                self._last = (now, await self._look(self.shown.snapshot))
            except TridentError:  # a database is unavailable for a moment: the page shows its last data
                return None
        return self._last[1]

    async def _look(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._looking, ask)

    async def nonce(self, request: Request) -> Response:
        """Return a nonce for one signed request."""
        access: Access = request.app.state.access
        return _Json({"nonce": access.signed.nonces.draw()})

    # --- for programs -------------------------------------------------------------------------------------------------

    async def status(self, _: Request) -> Response:
        """Return the status of the topology."""
        snapshot = await self._look(self.shown.snapshot)
        return _Json({"topology": snapshot.topology, "at": snapshot.at, **snapshot.status})

    async def plan(self, _: Request) -> Response:
        """Return the nodes of its graph; empty if they were never stored."""
        nodes = await self._look(self.shown.plan)
        return _Json({"nodes": list(nodes)})

    async def listed(self, request: Request) -> Response:
        """Return the last transactions, lowest first."""
        last, failed = _number(request.query_params.get("last", "20"), LISTED_MAX), request.query_params.get("failed")
        if last is None or failed not in (None, "true", "false"):
            return _error(400, f"last is a number from 1 to {LISTED_MAX:,}, failed is true or false")
        found = await self._look(partial(self.shown.last, last, failed=failed == "true"))
        return _Json([each.facts() for each in found])

    async def transaction(self, request: Request) -> Response:
        """Return all facts of one transaction."""
        txid = _number(request.path_params["txid"], TXID_MAX)
        if txid is None:
            return _error(404, f"a transaction is a number from 1 to {TXID_MAX}")
        found = await self._look(partial(self.shown.transaction, txid))
        return _Json(found.facts())

    async def parked(self, request: Request) -> Response:
        """Return the rows of a parked transaction, if they are stored."""
        txid = _number(request.path_params["txid"], TXID_MAX)
        if txid is None:
            return _error(404, f"a transaction is a number from 1 to {TXID_MAX}")
        snapshot = await self._look(self.shown.snapshot)
        return _Json(await run_in_threadpool(self.left_out.parked, txid, snapshot.status.get("parked", ())))

    async def letters(self, _: Request) -> Response:
        """Return the last dead letters."""
        return _Json(await run_in_threadpool(self.left_out.letters))

    async def wish(self, request: Request) -> Response:
        """Store a wish, and return its outcome."""
        wish = _wish_of(await read_body(request.receive, BODY_BYTES_MAX))
        answer = await run_in_threadpool(self.shown.wish, wish, WISH_SECONDS)
        return _Json({**answer.facts(), "text": answer.text})

    async def metrics(self, _: Request) -> Response:
        """Return the metrics for Prometheus."""
        text = self.shown.metrics()
        return Response(text, media_type=CONTENT_TYPE) if text is not None else _error(404, "who leads it measures")

    async def answer(self, request: Request) -> Response:
        """Answer a request as Storm's DRPC servers do: with the rows of the answer, as JSON."""
        function = request.path_params["function"]
        args = request.path_params.get("args", "") if request.method == "GET" else await _text(request)
        if other := await self._elsewhere(request):
            return other
        if self._requests >= REQUESTS_MAX:
            return _error(503, f"{REQUESTS_MAX} requests are running; try again", retry=True)
        self._requests += 1
        try:
            answer = await run_in_threadpool(self.shown.answer, function, args, REQUEST_SECONDS)
        finally:
            self._requests -= 1
        headers = {"Trident-Topology": self.shown.name, "Trident-Epoch": str(answer.epoch)}
        if answer.txid is not None:
            headers["Trident-Txid"] = str(answer.txid)
        return _Json(answer.rows, headers=headers)

    async def ingest(self, request: Request) -> Response:
        """Store rows for a stream, and answer once they are on the disk."""
        if other := await self._elsewhere(request):
            return other
        if self._ingests >= INGESTS_MAX:
            return _error(503, f"{INGESTS_MAX} requests are running; try again", retry=True)
        self._ingests += 1
        try:
            given = IngestRequest(
                request.headers.get("content-type", ""),
                await read_body(request.receive, INGEST_BYTES_MAX),
                request.headers.get("idempotency-key"),
            )
            store = partial(self.shown.ingest, request.path_params["stream"], given)
            answer = await asyncio.get_running_loop().run_in_executor(self._storing, store)
        finally:
            self._ingests -= 1
        headers = None if answer.retry_seconds is None else {"Retry-After": str(answer.retry_seconds)}
        return _Json(answer.facts, answer.status, headers)

    async def _elsewhere(self, request: Request) -> Response | None:
        """Return the answer that names the leader, if another process leads."""
        leader = await run_in_threadpool(self.shown.elsewhere)
        if leader is None:
            return None
        if not leader.address:
            return _error(
                503, f"{leader} leads the topology, and answers no requests: it runs without --serve", retry=True
            )
        path = quote(request.scope["path"], safe="/")
        return RedirectResponse(f"{leader.address}{path}", status_code=307)


class _Events(StreamingResponse):
    """A stream of server-sent events; it calls ``at_end`` when it ends, even if its client left before it began."""

    def __init__(self, messages: AsyncIterator[str], at_end: Callable[[], None]) -> None:
        super().__init__(messages, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._at_end()


class _Text(Convertor[str]):
    """The rest of a path, with any characters."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Return it unchanged."""
        return value

    def to_string(self, value: str) -> str:
        """Return it unchanged."""
        return value


register_url_convertor("text", _Text())


class _Json(JSONResponse):
    """JSON in ASCII, because texts may contain half of a surrogate pair, which UTF-8 can't encode."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, default=str).encode()


def _number(text: str, number_max: int) -> int | None:
    """Return the number from 1 to ``number_max`` in ``text``; None if it has another form."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(number_max))):
        return None
    return int(text) if 1 <= int(text) <= number_max else None


def _message(snapshot: Snapshot, sent: dict[int, TransactionHistory]) -> dict[str, Any]:
    """Return the message to a page that has received ``sent``."""
    return {
        "topology": snapshot.topology,
        "now": snapshot.at,
        "is_live": snapshot.is_live,
        "status": snapshot.status,
        "transactions": [each.facts() for each in snapshot.transactions if sent.get(each.txid) != each],
    }


def _wish_of(body: bytes) -> Wish:
    """Return the wish that ``body`` contains as JSON.

    Raises:
        HTTPException: it contains none.
    """
    try:
        given = json.loads(body)
        reason, txids = given.pop("reason", "").strip(), tuple(given.pop("txids", ()))
        about = {"branch": given.pop("branch", ""), "late": bool(given.pop("late", False))}
        action = Action(given.pop("action"))
        by = "the page" if action in ABOUT_TRANSACTIONS else ""
        wish = Wish(uuid4().hex, action, Rate(**given), reason, txids=txids, by=by, **about)
        wish.check()
        if (wish.action is Action.RATE) == (wish.rate == Rate()):
            raise ConfigError("batches_per_second, pending and max_batch go with the action rate, and with no other")
        if txids and action not in ABOUT_TRANSACTIONS:
            raise ConfigError(f"txids go with the actions {', '.join(ABOUT_TRANSACTIONS)}, and with no other")
        if wish.branch and action is not Action.LETTERS:
            raise ConfigError("a branch goes with the action letters, and with no other")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, ConfigError) as error:
        actions, why = ", ".join(Action), safe_text(str(error), REFUSAL_BYTES_MAX)
        raise HTTPException(400, f"a wish is JSON with an action ({actions}) and a reason: {why}") from error
    return wish


async def _text(request: Request) -> str:
    """Return the argument of a request from its body, or, as in Storm, from the path after the function's name."""
    if "args" in request.path_params:
        return str(request.path_params["args"])
    try:
        return (await read_body(request.receive, BODY_BYTES_MAX)).decode()
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is the argument of the function, as text in UTF-8") from None


def _logged_in(access: Access) -> Response:
    response = RedirectResponse("/", status_code=303)
    token, age_seconds = access.token.reveal(), 30 * 24 * 3600
    response.set_cookie(
        access.cookie, token, max_age=age_seconds, httponly=True, samesite="strict", secure=access.is_tls
    )
    return response


def _error(status: int, text: str, *, retry: bool = False) -> Response:
    headers = {"Retry-After": "1"} if retry else None
    return _Json({"error": text}, status, headers)


async def _refused(_: Request, error: HTTPException) -> Response:
    return _error(error.status_code, error.detail)


async def _failed(_: Request, error: TridentError) -> Response:
    match error:
        case UnknownFunctionError() | NoHistoryError():
            return _error(404, str(error))
        case RequestError():
            return _error(500, str(error))
    return _error(503, str(error), retry=True)


async def _late(_: Request, error: TimeoutError) -> Response:
    return _error(504, str(error) or f"no answer within {REQUEST_SECONDS:g} s", retry=True)
