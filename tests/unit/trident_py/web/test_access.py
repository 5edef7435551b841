"""Who is let in."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.unit.trident_py.web.serving import WITHIN_SECONDS, Words, serving

GUARDED = ("/events", "/status", "/plan", "/tx", "/tx/1", "/drpc/count/to")


@pytest.fixture(scope="module")
def words() -> Iterator[Words]:
    with serving() as running:
        running.feed("to")
        yield running


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer no"}, {"Authorization": "Basic {token}"}, {"Cookie": "trident-1={token}"}]
)
def test_rows_are_shown_to_nobody_without_the_token(words: Words, path: str, headers: dict[str, str]) -> None:
    given = {name: value.format(token=words.client.token) for name, value in headers.items()}
    answer = words.client.get(path, given)
    assert answer.status == 401
    assert b"to" not in answer.body.split(b"token")[0]


def test_the_address_with_the_token_lets_a_browser_in_from_then_on(words: Words) -> None:
    first = words.client.get(f"/?token={words.client.token}", {})
    assert (first.status, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert words.client.get("/status", {"Cookie": cookie.partition(";")[0]}).status == 200


def test_others_are_asked_for_the_token(words: Words) -> None:
    asked = words.client.get("/", {})
    assert (asked.status, b'name="token"' in asked.body) == (401, True)
    assert words.client.post("/login", "token=wrong", {}).status == 401
    assert words.client.get("/?token=wrong", {}).status == 401
    let_in = words.client.post("/login", f"token={words.client.token}", {})
    assert (let_in.status, "set-cookie" in let_in.headers) == (303, True)


def cookie(words: Words) -> str:
    return words.client.get(f"/?token={words.client.token}", {}).headers["set-cookie"].partition(";")[0]


def test_a_change_comes_from_the_page_itself_or_from_a_program(words: Words) -> None:
    own, wish = f"http://{words.client.host}", {"action": "resume"}
    by_cookie = {"Cookie": cookie(words)}
    assert words.client.post("/wishes", wish, {**by_cookie, "Origin": own}).status == 200
    assert words.client.post("/wishes", wish, {**by_cookie, "Origin": "http://evil.example"}).status == 403
    assert words.client.post("/wishes", wish, {**by_cookie, "Origin": "null"}).status == 403
    assert words.client.post("/wishes", wish, by_cookie).status == 401
    assert words.client.post(f"/wishes?token={words.client.token}", wish, {}).status == 401
    assert words.client.post("/login", f"token={words.client.token}", {"Origin": "http://evil.example"}).status == 403


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:80"])
def test_names_that_others_own_do_not_lead_here(words: Words, host: str) -> None:
    answer = words.client.get("/status", {"Host": host, "Authorization": f"Bearer {words.client.token}"})
    assert answer.status in (400, 421)


def test_this_machine_is_asked_by_its_own_names(words: Words) -> None:
    port = words.client.host.rpartition(":")[2]
    for name in ("localhost", "127.0.0.1", "[::1]", socket.gethostname()):
        headers = {"Host": f"{name}:{port}", "Authorization": f"Bearer {words.client.token}"}
        assert words.client.get("/status", headers).status == 200


def test_what_is_large_is_refused(words: Words) -> None:
    assert words.client.post("/drpc/count", b"x" * ((1 << 20) + 1)).status == 413
    bearer = f"Authorization: Bearer {words.client.token}"
    with socket.create_connection(words.client.host.split(":"), WITHIN_SECONDS) as raw:  # type: ignore[arg-type]
        head = (
            f"POST /drpc/count HTTP/1.1\r\nHost: {words.client.host}\r\n{bearer}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        raw.sendall(head.encode())
        chunk = b"%x\r\n%s\r\n" % (1 << 16, b"x" * (1 << 16))
        try:
            for _ in range(64):
                raw.sendall(chunk)
            assert b" 200 " not in raw.recv(1 << 16)[:20]
        except (BrokenPipeError, ConnectionResetError):
            pass


@pytest.mark.parametrize("path", ["/", "/status", "/metrics", "/static/login.css", "/nowhere"])
def test_each_answer_forbids_what_pages_do_not_need(words: Words, path: str) -> None:
    headers = words.client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_no_file_beside_those_of_the_page_is_served(words: Words) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd"):
        assert words.client.get(path).status == 404
