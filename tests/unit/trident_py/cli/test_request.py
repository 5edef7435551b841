"""``trident request`` and a page: each knows the other by the token, which neither sends."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from attrs import define, field

from coordinators.backends.local import LocalCoordination
from coordinators.values.secret import Secret
from tests.unit.trident_py.web.serving import Answer, Words, serving
from trident_py.cli import request as command
from trident_py.cli.app import main
from trident_py.web.signatures import SIGNATURE, SignedHeader, Signer

TOKEN = "a token of enough characters"  # noqa: S105 - a test's


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Iterator[Words]:
    monkeypatch.setenv("TRIDENT_TOKEN", TOKEN)
    with serving() as running:
        found_in(monkeypatch, running.coordination)
        running.feed("to", "be", "to")
        yield running


def found_in(monkeypatch: pytest.MonkeyPatch, coordination: LocalCoordination) -> None:
    @contextmanager
    def existing(_config: object) -> Iterator[LocalCoordination]:
        yield coordination

    monkeypatch.setattr(command, "existing", existing)


def test_a_request_is_answered_over_both_signatures(words: Words, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["request", "words", "count", "to", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"rows": [["to", 2]], "epoch": 1, "txid": 1}
    assert main(["request", "words", "sum", "to"]) == 1
    assert "has no function 'sum'" in capsys.readouterr().err
    assert main(["request", "words", "count", "a\nü\0/?"]) == 0
    assert json.loads(capsys.readouterr().out) == ["a\nü\0/?", None]


def test_a_request_with_another_token_is_refused_at_once(
    words: Words, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIDENT_TOKEN", "another token, as long as that")
    assert main(["request", "words", "count", "to"]) == 1
    said = capsys.readouterr().err
    assert "is not signed by the token" in said
    assert "to fix this: use the TRIDENT_TOKEN or --state-dir of the topology" in said


# --- what the server takes --------------------------------------------------------------------------------------------


def signed(words: Words, body: bytes, *, nonce: str = "", epoch: int = 1, path: str = "/drpc/count") -> dict[str, str]:
    nonce = nonce or words.client.get("/nonce", {}).json["nonce"]
    signature = Signer(Secret(TOKEN)).sign_request("POST", path, body, epoch, nonce)
    return {"Authorization": str(SignedHeader(epoch, nonce, signature))}


def test_a_nonce_is_good_once(words: Words) -> None:
    headers = signed(words, b"to")
    assert words.client.post("/drpc/count", b"to", headers).json == [["to", 2]]
    again = words.client.post("/drpc/count", b"to", headers)
    assert (again.status, "nonce" in again.json["error"]) == (401, True)


def test_a_nonce_that_is_too_old_is_refused(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.web.signatures.NONCE_SECONDS", -1)
    assert words.client.post("/drpc/count", b"to", signed(words, b"to")).status == 401


@pytest.mark.parametrize("nonce", ["x", "9999999999.00.00", "."])
def test_a_nonce_that_the_server_did_not_give_is_refused(words: Words, nonce: str) -> None:
    assert words.client.post("/drpc/count", b"to", signed(words, b"to", nonce=nonce)).status == 401


def test_what_was_signed_is_what_is_answered(words: Words) -> None:
    assert words.client.post("/drpc/count", b"be", signed(words, b"to")).status == 401
    assert words.client.post("/drpc/broken", b"to", signed(words, b"to")).status == 401
    assert words.client.post("/drpc/count?a=1", b"to", signed(words, b"to")).status == 401
    assert words.client.ask("PUT", "/drpc/count", b"to", signed(words, b"to")).status == 401
    other = signed(words, b"to")["Authorization"].replace(" 1:", " 2:")
    assert words.client.post("/drpc/count", b"to", {"Authorization": other}).status == 401


def test_a_request_to_another_epoch_is_not_answered(words: Words) -> None:
    refused = words.client.post("/drpc/count", b"to", signed(words, b"to", epoch=2))
    assert (refused.status, "doesn't lead epoch 2" in refused.json["error"]) == (409, True)


def test_a_signature_opens_nothing_but_functions(words: Words) -> None:
    assert words.client.post("/wishes", b"{}", signed(words, b"{}", path="/wishes")).status == 401
    assert words.client.post("/drpc/count", b"x" * (128 * 1024 + 1), signed(words, b"")).status == 413


def test_a_standby_answers_no_signed_request(words: Words) -> None:
    with serving(standby=True, coordination=words.coordination) as standby:
        assert standby.client.post("/drpc/count", b"to", signed(standby, b"to")).status == 409


# --- what the client believes -----------------------------------------------------------------------------------------


@define
class Impostor:
    """A server at a leader's address that doesn't have the token; notes what it is sent."""

    answer: Answer
    nonce: Any = "0.00.00"
    sent: list[str] = field(factory=list)

    @contextmanager
    def serving(self) -> Iterator[str]:
        impostor = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(Answer(200, {}, json.dumps({"nonce": impostor.nonce}).encode()))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                impostor.sent.append(f"{self.headers}\n{body!r}")
                self._answer(impostor.answer)

            def _answer(self, answer: Answer) -> None:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


ROWS = Answer(200, {"Trident-Epoch": "1", "Trident-Txid": "7"}, b'[["to", 1000000]]')


@pytest.mark.parametrize(
    "answer",
    [
        ROWS,
        Answer(200, {**ROWS.headers, SIGNATURE: "0" * 64}, ROWS.body),
        Answer(404, {}, b'{"error": "has no \\u001b[31mfunction"}'),
        Answer(307, {"Location": "http://127.0.0.1:1/"}, b""),
        Answer(401, {}, b'{"error": "send the token as a bearer"}'),
    ],
)
def test_an_impostor_is_not_believed_and_learns_no_token(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRIDENT_TOKEN", TOKEN)
    impostor, coordination = Impostor(answer), LocalCoordination()
    with impostor.serving() as address:
        found_in(monkeypatch, coordination)
        coordination.lead("words", address)
        assert main(["request", "words", "count", "to", "--timeout", "0.1"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert "is not signed by the token" in output.err
    assert "\x1b" not in output.err
    assert len(impostor.sent) == 1
    assert TOKEN not in impostor.sent[0]


@pytest.mark.parametrize("nonce", [None, 7, "a\r\nX-Evil: 1", "x" * 1000, "ü", ["0.0.0"]])
def test_a_nonce_of_a_server_that_could_be_anything_is_not_signed(
    nonce: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRIDENT_TOKEN", TOKEN)
    impostor, coordination = Impostor(ROWS, nonce), LocalCoordination()
    with impostor.serving() as address:
        found_in(monkeypatch, coordination)
        coordination.lead("words", address)
        assert main(["request", "words", "count", "to", "--timeout", "0.1"]) == 1
    assert "it returns no nonce" in capsys.readouterr().err
    assert impostor.sent == []


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1/", "http://", "http://[::1"])
def test_an_address_that_is_no_server_is_not_asked(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRIDENT_TOKEN", TOKEN)
    coordination = LocalCoordination()
    found_in(monkeypatch, coordination)
    coordination.lead("words", address)
    assert main(["request", "words", "count", "to", "--timeout", "0.1"]) == 1
    assert "can't be reached" in capsys.readouterr().err


def test_who_asks_another_machine_by_plain_http_is_warned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRIDENT_TOKEN", TOKEN)
    coordination = LocalCoordination()
    found_in(monkeypatch, coordination)
    coordination.lead("words", "http://192.0.2.1:9")
    monkeypatch.setattr("socket.create_connection", unreachable)
    assert main(["request", "words", "count", "to", "--timeout", "0.1"]) == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "http://192.0.2.1:9 is asked by plain HTTP" in caplog.text


def unreachable(*_: object, **__: object) -> None:
    raise OSError("no route to host")
