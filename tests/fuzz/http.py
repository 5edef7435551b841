"""Requests of all kinds to a real page: ``python -m tests.fuzz.http --minutes 5`` searches longer than the tests do.

No request may be answered with an error of ours, log one, or stop the topology.
"""

from __future__ import annotations

import argparse
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.web.serving import WITHIN_SECONDS, Words, serving

EXAMPLES = 500
ANSWER_BYTES_MAX = 1 << 20
MAY_FAIL = "/drpc/broken"
"""A function that raises: its requests are answered with 500."""


@frozen
class Odd:
    """A request; what it lacks is filled in when it is sent.

    Attributes:
        credential: how the token is given: ``bearer``, ``cookie``, ``query`` or not at all.
    """

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes
    is_chunked: bool
    credential: str

    def raw(self, words: Words) -> bytes:
        """Return what is sent."""
        query = [*filter(None, [self.query, f"token={words.client.token}" if self.credential == "query" else ""])]
        names = {name.lower() for name, _ in self.headers}
        head = [f"{self.method} {self.path}{'?' if query else ''}{'&'.join(query)} HTTP/1.1"]
        head += [f"{name}: {value}" for name, value in self.headers]
        if "host" not in names:
            head.append(f"Host: {words.client.host}")
        if self.credential == "bearer":
            head.append(f"Authorization: Bearer {words.client.token}")
        if self.credential == "cookie":
            port = words.client.host.rpartition(":")[2]
            head += [f"Cookie: trident-{port}={words.client.token}", f"Origin: http://{words.client.host}"]
        if "content-length" not in names:
            head.append("Transfer-Encoding: chunked" if self.is_chunked else f"Content-Length: {len(self.body)}")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(self.body), self.body) if self.is_chunked and self.body else self.body
        return "\r\n".join([*head, "Connection: close", "", ""]).encode("latin-1", "replace") + body


numbers = st.one_of(
    st.integers(0, 99).map(str),
    st.sampled_from(
        ["9223372036854775807", "9223372036854775808", "9" * 5000, "-1", "1e9", "١", "²", "0x1", "1" + "0" * 401]
    ),
)
texts = st.one_of(
    st.text(max_size=20), st.sampled_from(["\n", "\r\n", "\0", "\x1b[31m", "..", ".", "\ud800", "😀", "ü" * 3000])
)
segments = st.one_of(
    st.sampled_from(
        ["status", "plan", "tx", "wishes", "metrics", "drpc", "count", "broken", "static", "login", "nonce", ""]
    ),
    numbers,
    texts.map(lambda text: quote(text, safe="", errors="surrogatepass")),
    st.sampled_from(["%00", "%ff", "%ed%a0%80", "%2e%2e", "%2f", "%", "%zz", "page.js"]),
)
paths = st.one_of(
    st.lists(segments, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    numbers.map(lambda number: f"/tx/{number}"),
    segments.map(lambda part: f"/drpc/count/{part}"),
    segments.map(lambda part: f"/static/{part}"),
    st.sampled_from(
        ["/", "/login", "/status", "/tx", "/wishes", "/metrics", "*", "http://evil.example/status", "//", "/a" * 5000]
    ),
)
queries = st.one_of(
    st.just(""),
    numbers.map(lambda number: f"last={number}"),
    texts.map(lambda text: f"failed={quote(text, errors='surrogatepass')}"),
    st.just("a=1&" * 3000),
    texts.map(lambda text: quote(text, safe="=&;%", errors="surrogatepass")),
)
hosts = st.sampled_from(
    [
        "[::1",
        "[::1]",
        "",
        ":",
        "[",
        "localhost:99999999",
        "evil.example",
        "evil@127.0.0.1",
        "a" * 3000,
        "127.0.0.1:x",
        "[::1]]:1",
        "℀",
    ]
)
headers = st.lists(
    st.one_of(
        st.tuples(st.just("Host"), hosts),
        st.tuples(st.just("Content-Length"), numbers),
        st.tuples(
            st.sampled_from(
                [
                    "Authorization",
                    "Cookie",
                    "Origin",
                    "Range",
                    "If-None-Match",
                    "If-Modified-Since",
                    "Expect",
                    "Upgrade",
                ]
            ),
            st.one_of(
                texts,
                st.sampled_from(
                    ["Bearer", "Trident", "Trident a:b", 'trident-1="\\777"; =;;', "bytes=0-0,5-", "100-continue"]
                ),
            ),
        ),
        st.tuples(st.sampled_from(["X-A", "Connection", "Accept", "Content-Type"]), texts),
    ),
    max_size=3,
)
json_bodies = st.builds(
    lambda action, reason, more: f'{{"action": {action}, "reason": {reason}{more}}}'.encode(errors="replace"),
    st.sampled_from(['"resume"', '"rate"', '"pause"', '["rate"]', "1", "null"]),
    st.sampled_from(['""', '"\\ud800"', '"a\\u0000\\n"', "[]", "{}", "1", f'"{"x" * 501}"', f'"{"x" * 100_000}"']),
    st.one_of(
        st.just(""),
        st.tuples(
            st.sampled_from(["batches_per_second", "pending", "max_batch", "x" * 10_000]),
            st.one_of(numbers, st.sampled_from(["NaN", "1e999", "true", "1.5", "5e-324", '"1"', "[" * 2000])),
        ).map(lambda pair: f', "{pair[0]}": {pair[1]}'),
    ),
)
bodies = st.one_of(
    st.just(b""),
    st.binary(max_size=100),
    json_bodies,
    st.just(b"[" * 100_000),
    st.just(b"x" * ((1 << 20) + 1)),
    texts.map(lambda text: f"token={text}".encode(errors="surrogatepass")),
)
requests = st.builds(
    Odd,
    method=st.sampled_from(["GET", "POST", "POST", "HEAD", "PUT", "OPTIONS", "TRACE", "DELETE", "G\0T", "get"]),
    path=paths,
    query=queries,
    headers=headers,
    body=bodies,
    is_chunked=st.booleans(),
    credential=st.sampled_from(["", "bearer", "bearer", "cookie", "query"]),
)


class Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


def check(words: Words, errors: Errors, odd: Odd) -> None:
    """Send a request; its answer is one that its client can understand, and says nothing of our code."""
    answer = answered(words, odd.raw(words))
    status = answer[9:12]
    refused = status in (b"503", b"504") or (status == b"500" and odd.path.startswith(MAY_FAIL))
    assert not answer or refused or answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 3", b"HTTP/1.1 4")), answer[:500]
    assert b"Traceback" not in answer
    logged, errors.lines = errors.lines, []  # a later request is not blamed for them
    assert logged == [], logged
    if words.client.get("/status").json["hold"] != "nothing":
        words.client.post("/wishes", {"action": "resume"})
    assert words.query.is_active


def answered(words: Words, raw: bytes) -> bytes:
    """Return the answer to ``raw``; none if the connection was closed."""
    host, _, port = words.client.host.rpartition(":")
    answer = b""
    with socket.create_connection((host, int(port)), WITHIN_SECONDS) as connection:
        try:
            connection.sendall(raw)
            while (piece := connection.recv(1 << 16)) and len(answer) < ANSWER_BYTES_MAX:
                answer += piece
        except ConnectionError:  # it was refused before all was sent
            pass
    return answer


@contextmanager
def watched() -> Iterator[tuple[Words, Errors]]:
    """Give a topology with a page, and what is logged as an error meanwhile."""
    errors = Errors()
    logging.getLogger().addHandler(errors)
    try:
        with serving() as words:
            yield words, errors
    finally:
        logging.getLogger().removeHandler(errors)


def fuzzing(words: Words, errors: Errors, examples: int | None = None) -> Callable[[], None]:
    """Return what tries so many requests; None: as many as the profile says."""
    examples_max = examples or settings().max_examples

    @settings(
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        deadline=None,
        max_examples=examples_max,
    )
    @given(requests)
    def tried(odd: Odd) -> None:
        check(words, errors, odd)

    return tried


def main() -> None:
    """Search until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.http", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    until = time.monotonic() + 60 * parser.parse_args().minutes
    rounds = 0
    with watched() as (words, errors):
        while time.monotonic() < until:
            fuzzing(words, errors, EXAMPLES)()
            rounds += 1
    print(f"{rounds * EXAMPLES} requests")  # noqa: T201


if __name__ == "__main__":
    main()
