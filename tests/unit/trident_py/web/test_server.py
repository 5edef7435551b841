from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from coordinators.backends.local import LocalCoordination
from tests.servers.certificates import Authority
from tests.unit.trident_py.web.serving import declared
from trident_py.errors import ConfigError
from trident_py.interfaces.config import TridentConfig
from trident_py.spouts.feeder import FeederBatchSpout


def test_a_page_is_served_by_https_where_there_is_a_certificate(tmp_path: Path) -> None:
    authority = Authority.named("the-authority", tmp_path)
    server = authority.vouch("server", alternative="IP:127.0.0.1")
    config = TridentConfig(serve="127.0.0.1:0", serve_cert=server.cert, serve_key=server.key)
    with declared(FeederBatchSpout("word string")).start(config, coordination=LocalCoordination()) as query:
        address, token = query.page.split("/?token=")
        request = Request(f"{address}/status", headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - ours
        trusting = ssl.create_default_context(cafile=str(authority.own.cert))
        with urlopen(request, context=trusting) as response:  # noqa: S310
            assert json.load(response)["state"] == "running"
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            urlopen(request)  # noqa: S310
        assert "Secure" in _cookie(query.page, trusting)


def _cookie(url: str, context: ssl.SSLContext) -> str:
    host, path = url.removeprefix("https://").split("/", 1)
    name, port = host.split(":")
    with socket.create_connection((name, int(port))) as raw, context.wrap_socket(raw, server_hostname=name) as tls:
        tls.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: tls.recv(1 << 16), b"")).decode()
    return next(line for line in answer.splitlines() if line.lower().startswith("set-cookie"))


def test_an_address_that_is_taken_is_named_before_anything_starts() -> None:
    coordination = LocalCoordination()
    with socket.create_server(("127.0.0.1", 0)) as other:
        config = TridentConfig(serve=f"127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(ConfigError, match=r"the page can't be served at 127\.0\.0\.1"):
            declared(FeederBatchSpout("word string")).start(config, coordination=coordination)
    assert coordination.topologies() == []


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("none")
    (tmp_path / "key.pem").write_text("none")
    config = TridentConfig(serve="127.0.0.1:0", serve_cert=tmp_path / "cert.pem", serve_key=tmp_path / "key.pem")
    with pytest.raises(ConfigError, match=r"can't be served by HTTPS with .*cert\.pem"):
        declared(FeederBatchSpout("word string")).start(config, coordination=LocalCoordination())


def test_the_leader_is_found_by_its_address_and_the_page_ends_with_the_topology() -> None:
    coordination = LocalCoordination()
    with declared(FeederBatchSpout("word string")).start(
        TridentConfig(serve="127.0.0.1:0"), coordination=coordination
    ) as query:
        leader = coordination.describe("words").leader
        assert leader is not None
        assert query.page.startswith(f"{leader.address}/?token=")
        where = leader.address.removeprefix("http://").split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((where[0], int(where[1])))
