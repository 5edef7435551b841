from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from coordinators.attempt import TransactionAttempt
from coordinators.errors import CoordinationLost, FencedError, PoisonBatchError, SpoutError, StateError, TridentError
from trident_py.cli.halt import check, exit_code, tell
from trident_py.cli.usage import UsageError
from trident_py.errors import SinkError

POISON = PoisonBatchError("it failed five times", topology="wc", txid=7, attempt=TransactionAttempt(7, 4))


@contextmanager
def hook(status: int) -> Iterator[tuple[str, list[Any]]]:
    """A web server that answers so, and what it was told."""
    told: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/halts", told
        finally:
            server.shutdown()
            thread.join()


def test_a_web_hook_is_told_what_has_ended_the_topology() -> None:
    with hook(204) as (url, told):
        tell(url, "wc", POISON)
    [facts] = told
    known = ("topology", "error", "message", "txid", "attempt", "spout", "exit_code")
    assert [facts[name] for name in known] == ["wc", "PoisonBatchError", "it failed five times", 7, "7:4", None, 3]


def test_a_command_is_told_on_its_standard_input_and_in_its_environment(tmp_path: Path) -> None:
    file = tmp_path / "told"
    tell(f"sh -c 'cat > {file}; echo $TRIDENT_TOPOLOGY $TRIDENT_ATTEMPT $TRIDENT_SPOUT. >> {file}'", "wc", POISON)
    text, _, rest = file.read_text().partition("}")
    assert json.loads(f"{text}}}")["txid"] == 7
    assert rest.strip() == "wc 7:4 ."


@pytest.mark.parametrize("target", ["false", "/no/such/command", "http://127.0.0.1:1/nowhere"])
def test_who_can_not_be_told_changes_nothing(target: str, caplog: pytest.LogCaptureFixture) -> None:
    tell(target, "wc", POISON)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "topology wc: --on-halt was not told: " in caplog.text


def test_a_web_hook_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with hook(500) as (url, told):
        tell(url, "wc", POISON)
    assert len(told) == 1
    assert "was not told: HTTP Error 500" in caplog.text


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (POISON, 3),
        (SpoutError("x"), 3),
        (StateError("x"), 3),
        (SinkError("x"), 3),
        (FencedError("x"), 1),
        (CoordinationLost("x"), 1),
        (TridentError("x"), 1),
    ],
)
def test_what_another_start_may_mend_has_another_code(error: TridentError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize("target", ["", "  ", "sh -c 'unfinished"])
def test_what_is_neither_a_command_nor_a_url_is_refused(target: str) -> None:
    with pytest.raises(UsageError, match="--on-halt"):
        check(target)
