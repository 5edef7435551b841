from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import (
    CoordinationLost,
    FencedError,
    PoisonBatchError,
    SpoutError,
    StateError,
    TridentError,
)
from trident_py.cli.app import main
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
    assert "topology wc: --on-halt could not be notified: " in caplog.text


def test_a_web_hook_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with hook(500) as (url, told):
        tell(url, "wc", POISON)
    assert len(told) == 1
    assert "could not be notified: HTTPError: HTTP Error 500" in caplog.text


class BrokenText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


ODD = {
    "nul": PoisonBatchError("a bad line: a\0b"),
    "large": PoisonBatchError("x" * 50_000_000),
    "surrogate": PoisonBatchError("M\udcfcller"),
    "escape": PoisonBatchError("\x1b]0;owned\x07\r{}"),
    "of no class of ours": ConnectionError("password refused\0" * 1000),
    "without a text": BrokenText(),
    "an exit": SystemExit(0),
    "group": ExceptionGroup("two", [ValueError("\0"), KeyError("b")]),
}


@pytest.mark.parametrize("error", ODD.values(), ids=ODD)
def test_every_error_is_told_whatever_its_text_is(error: BaseException, tmp_path: Path) -> None:
    told = tmp_path / "told"
    tell(f"sh -c 'cat > {told}; env > {told}.env'", "wc", error)
    facts, env = json.loads(told.read_text()), (tmp_path / "told.env").read_bytes()
    with hook(204) as (url, sent):
        tell(url, "wc", error)
    assert sent[0].keys() == facts.keys()
    assert sent[0]["message"] == facts["message"]
    assert (facts["topology"], facts["error"]) == ("wc", type(error).__name__)
    assert len(facts["message"].encode()) <= 4096
    assert facts["message"].isprintable()
    values = dict(line.split(b"=", 1) for line in env.splitlines() if line.startswith(b"TRIDENT_"))
    assert values[b"TRIDENT_ERROR"].decode() == type(error).__name__
    assert 0 < len(values[b"TRIDENT_MESSAGE"]) <= 4096
    assert values[b"TRIDENT_EXIT_CODE"] == (b"3" if isinstance(error, PoisonBatchError) else b"1")


def test_a_command_that_reads_nothing_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    many_lines = TridentError("\n".join(["x" * 4000] * 150))
    tell("true", "wc", many_lines)
    assert caplog.records == []


@pytest.mark.parametrize(
    "command", ["sleep 9{pid}", "sh -c 'sleep 9{pid} & sleep 9{pid}'", "sh -c 'cat; sleep 9{pid} | cat'"]
)
def test_a_command_that_does_not_end_is_ended_with_all_that_it_has_started(
    command: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.cli.halt.CALL_SECONDS", 0.5)
    tell(command.format(pid=os.getpid()), "wc", POISON)
    assert "--on-halt could not be notified: TimeoutExpired: " in caplog.text
    while any(f"9{os.getpid()}" in (each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])):
        pass


def test_a_web_hook_that_answers_a_byte_now_and_then_is_not_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.cli.halt.CALL_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def answer() -> None:
            accepted, _ = server.accept()
            with accepted, suppress(OSError):
                while not ended.wait(0.1):
                    accepted.sendall(b"H")

        thread = threading.Thread(target=answer)
        thread.start()
        tell(f"http://127.0.0.1:{server.getsockname()[1]}/", "wc", POISON)
        ended.set()
        thread.join()
    assert "--on-halt could not be notified: TimeoutError: no answer within 0.5 s" in caplog.text


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("raise ValueError('no')", "TopologyError"),
        ("raise SystemExit(0)", "TopologyError"),
        ("import sys; sys.exit()", "TopologyError"),
        ("import no_such_library", "TopologyError"),
    ],
)
def test_a_target_that_can_not_be_imported_is_told(
    source: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    name = f"halting_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_text(source)
    with hook(204) as (url, told):
        assert main(["run", f"{tmp_path / name}.py", "--on-halt", url]) == 1
    assert [(each["topology"], each["error"], each["exit_code"]) for each in told] == [(None, error, 1)]


def test_a_command_line_that_makes_no_sense_is_told_to_its_user_alone(tmp_path: Path) -> None:
    with hook(204) as (url, told):
        assert main(["run", str(tmp_path / "missing.py"), "--on-halt", url]) == 2
    assert told == []


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
