"""A small schema registry, with a part of Confluent's HTTP interface."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from attrs import define, field


@define(eq=False)
class Registry:
    """What the registry has.

    Attributes:
        schemas: by id, each as the registry tells it.
        versions: the ids by subject, in order.
        user: the ``user:password`` that it demands; empty: none.
        answers: the status with which it answers; 200: as it should.
        asked: the paths of all requests.
        port: where it listens.
    """

    schemas: dict[int, dict[str, Any]] = field(factory=dict)
    versions: dict[str, list[int]] = field(factory=dict)
    user: str = ""
    answers: int = 200
    asked: list[str] = field(factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        """The URL by which it is reached."""
        return f"http://{self.user + '@' if self.user else ''}127.0.0.1:{self.port}"

    def register(self, subject: str, schema: Any, *references: tuple[str, str, int], **more: Any) -> int:
        """Take a schema, and return its id."""
        number, names = 1000 + len(self.schemas), ("name", "subject", "version")
        self.schemas[number] = {"schema": json.dumps(schema), **more}
        if references:
            self.schemas[number]["references"] = [dict(zip(names, each, strict=True)) for each in references]
        self.versions.setdefault(subject, []).append(number)
        return number

    def found(self, path: str) -> dict[str, Any] | None:
        """Return what there is at a path."""
        match path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                return self.schemas.get(int(number))
            case ["subjects", subject, "versions", version]:
                numbers = self.versions.get(unquote(subject), [])
                return self.schemas[numbers[int(version) - 1]] if int(version) <= len(numbers) else None
        return None


@contextmanager
def registry_running(user: str = "") -> Iterator[Registry]:
    """A registry, until the end of the context."""
    registry = Registry(user=user)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            expected = f"Basic {base64.b64encode(registry.user.encode()).decode()}"
            if registry.user and self.headers["Authorization"] != expected:
                self._answer(401, {})
            elif registry.answers != 200:
                self._answer(registry.answers, {})
            else:
                found = registry.found(self.path)
                self._answer(200 if found else 404, found or {"error_code": 40403})

        def do_POST(self) -> None:
            registry.asked.append(self.path)
            schema = json.loads(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"])
            subject = unquote(self.path.split("/")[2])
            if registry.answers != 200:
                self._answer(registry.answers, {})
            else:
                known = (
                    n for n in registry.versions.get(subject, []) if registry.schemas[n]["schema"] == json.dumps(schema)
                )
                self._answer(200, {"id": next(known, None) or registry.register(subject, schema)})

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
