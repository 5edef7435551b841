"""No request ends anything that it isn't about, or is answered with a traceback."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.fuzz.http import Errors, answered, fuzzing, watched
from tests.unit.trident_py.web.serving import Words


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Words, Errors]]:
    with watched() as found:
        yield found


def test_requests_of_all_kinds_are_answered(world: tuple[Words, Errors]) -> None:
    fuzzing(*world)()


CHUNKED = b"".join([*([b"10000\r\n" + b"a" * 65536 + b"\r\n"] * 20), b"0\r\n\r\n"])


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        ("GET /status HTTP/1.1\r\nHost: [::1", b"", 400),
        ("GET /status HTTP/1.1\r\nHost: 127.0.0.1:99999999", b"", 400),
        ("GET /status HTTP/1.1\r\nHost: a\xfcb", b"", 400),
        ("POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked", CHUNKED, 413),
        ("POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999", b"", 413),
        ("GET /" + "a" * 9000 + " HTTP/1.1\r\nHost: localhost", b"", 414),
        ("GET /tx/9223372036854775808 HTTP/1.1\r\nHost: localhost\r\n{bearer}", b"", 404),
        ("GET /tx/" + "9" * 5000 + " HTTP/1.1\r\nHost: localhost\r\n{bearer}", b"", 404),
        ("GET /tx?last=" + "1" * 5000 + " HTTP/1.1\r\nHost: localhost\r\n{bearer}", b"", 400),
        ("GET /tx?last=%D9%A1 HTTP/1.1\r\nHost: localhost\r\n{bearer}", b"", 400),
        ("GET /drpc/count/3%0d%0aX:1%0a HTTP/1.1\r\nHost: localhost\r\n{bearer}", b"", 200),
        ("GET /drpc/count/%0a HTTP/1.1\r\nHost: localhost\r\n{bearer}", b"", 200),
        ("POST /wishes HTTP/1.1\r\nHost: localhost\r\n{bearer}", b'{"action":"pause","reason":"\\ud800"}', 400),
        ("POST /wishes HTTP/1.1\r\nHost: localhost\r\n{bearer}", b'{"action":"pause","reason":"a\\u0000"}', 400),
        (
            "POST /wishes HTTP/1.1\r\nHost: localhost\r\n{bearer}",
            b'{"action":"rate","batches_per_second":1' + b"0" * 401 + b"}",
            400,
        ),
        (
            "POST /wishes HTTP/1.1\r\nHost: localhost\r\n{bearer}",
            b'{"action":"rate","max_batch":' + b"9" * 40 + b"}",
            400,
        ),
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_refused_with_its_status(
    world: tuple[Words, Errors], head: str, body: bytes, status: int
) -> None:
    words, errors = world
    length = "" if "\r\nTransfer-" in head or "\r\nContent-" in head else f"\r\nContent-Length: {len(body)}"
    head = head.replace("{bearer}", f"Authorization: Bearer {words.client.token}")
    raw = f"{head}{length}\r\nConnection: close\r\n\r\n".encode("latin-1") + body
    assert answered(words, raw)[:12] == f"HTTP/1.1 {status}".encode()
    assert errors.lines == []
    assert words.client.get("/status").json["hold"] == "nothing"


def test_a_head_that_is_followed_by_data_is_refused_without_a_traceback(world: tuple[Words, Errors]) -> None:
    words, errors = world
    more = b"x" * (1 << 20)  # is not read at once: the rest arrives while the page is read from its file
    answer = answered(words, b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + more)
    assert answer[:10] in (b"", b"HTTP/1.1 4")  # empty if the connection is reset before it is read
    assert errors.lines == []


def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_error(world: tuple[Words, Errors]) -> None:
    words, errors = world
    head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx"
    host, _, port = words.client.host.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head)
    assert words.client.get("/status").status == 200
    assert errors.lines == []
