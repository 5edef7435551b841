"""Connections that ask nothing, or ask slowly: whoever has the token is answered all the same."""

from __future__ import annotations

import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from coordinators.backends.local import LocalCoordination
from tests.servers.certificates import Authority
from tests.unit.trident_py.web.serving import WITHIN_SECONDS, Client, declared, serving
from trident_py.errors import ConfigError
from trident_py.interfaces.config import TridentConfig
from trident_py.spouts.feeder import FeederBatchSpout
from trident_py.web import connections
from trident_py.web.connections import CONNECTIONS_MAX, DRIVER_FILES

ROOT = Path(__file__).parents[4]


def connect(client: Client) -> socket.socket:
    host, _, port = client.host.rpartition(":")
    return socket.create_connection((host, int(port)), WITHIN_SECONDS)


@contextmanager
def crowd(client: Client, silent: int, slow: int) -> Iterator[None]:
    """So many clients that hold connections, in a process of their own."""
    host, _, port = client.host.rpartition(":")
    command = [sys.executable, "-m", "benchmarks.crowd", host, port, str(silent), str(slow)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"connected\n"
            yield
        finally:
            process.kill()


@contextmanager
def files_limited(free: int) -> Iterator[None]:
    """This process may open so many files more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as lowest:
        limit = lowest.fileno() + free
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_request_is_answered_while_many_hold_connections_and_ask_nothing() -> None:
    with serving() as words, crowd(words.client, 600, 150):
        for _ in range(3):
            words.feed("to")
            words.query.process_all_available(WITHIN_SECONDS)
            assert words.client.get("/status").status == 200


def test_a_new_connection_takes_the_place_of_the_oldest_that_has_asked_nothing() -> None:
    with serving() as words, ExitStack() as held:
        watching = held.enter_context(words.client.watching())
        assert next(watching)["topology"] == "words"
        silent = [held.enter_context(connect(words.client)) for _ in range(CONNECTIONS_MAX)]
        assert silent[0].recv(1) == b""
        silent[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.1 200"
        assert next(watching)["topology"] == "words"


def test_a_connection_is_closed_whose_header_does_not_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    answered = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving() as words, ExitStack() as held:
        slow = [held.enter_context(connect(words.client)) for _ in range(4)]
        for each, sent in zip(slow, (b"", b"GET /status HTT", answered, answered + b"GET /"), strict=True):
            each.sendall(sent)
        for each in slow:
            while each.recv(1 << 16):
                pass


def test_a_connection_is_closed_whose_handshake_does_not_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 2.0)
    authority = Authority.named("the-authority", tmp_path)
    server = authority.vouch("server", alternative="IP:127.0.0.1")
    config = TridentConfig(serve="127.0.0.1:0", serve_cert=server.cert, serve_key=server.key)
    topology = declared(FeederBatchSpout("word string"))
    with topology.start(config, coordination=LocalCoordination()) as query, ExitStack() as held:
        client = Client(query.page)
        silent = [held.enter_context(connect(client)) for _ in range(CONNECTIONS_MAX + 1)]
        assert silent[0].recv(1) == b""  # for the last one
        trusting = ssl.create_default_context(cafile=str(authority.own.cert))
        with trusting.wrap_socket(connect(client), server_hostname="127.0.0.1") as asking:
            asking.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert asking.recv(12) == b"HTTP/1.1 200"
        assert silent[-1].recv(1) == b""


def test_descriptors_are_kept_for_the_driver_where_few_are_free() -> None:
    with serving() as words, files_limited(DRIVER_FILES + 20), crowd(words.client, 100, 20):
        assert words.client.get("/status").status == 200
        with ExitStack() as files:
            for _ in range(DRIVER_FILES - 10):
                files.enter_context(open(os.devnull))
        words.feed("to")
        words.query.process_all_available(WITHIN_SECONDS)


def test_a_process_that_may_open_few_files_serves_no_page() -> None:
    config = TridentConfig(serve="127.0.0.1:0")
    with files_limited(DRIVER_FILES - 1), pytest.raises(ConfigError, match=r"needs 64 .* `ulimit -n 1024`"):
        declared(FeederBatchSpout("word string")).start(config, coordination=LocalCoordination())


def test_no_more_pages_watch_than_may_although_all_ask_at_once() -> None:
    with serving() as words, ExitStack() as held:
        asking = [held.enter_context(connect(words.client)) for _ in range(60)]
        bearer = f"Authorization: Bearer {words.client.token}"
        for each in asking:
            each.sendall(f"GET /events HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n\r\n".encode())
        answers = [each.recv(12) for each in asking]
        assert (answers.count(b"HTTP/1.1 200"), answers.count(b"HTTP/1.1 503")) == (20, 40)
