"""What Kubernetes is to Spark's driver: an API over HTTP. This one writes down what it is asked, and starts nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any
from urllib.parse import parse_qs, urlsplit

from attrs import frozen

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@frozen
class Request:
    """What the API was asked, in the words that a Role allows it by.

    Attributes:
        name: of the one that is meant; empty: all of them.
        body: what is to be created.
    """

    verb: str
    resource: str
    namespace: str
    name: str
    body: Mapping[str, Any]


class KubernetesApi(ThreadingHTTPServer):
    """Says yes to everything; each pod that somebody asks for by name is there, and nothing else is.

    Attributes:
        requests: all that it was asked.
        ended: set when watches have to end.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: SimpleQueue[Request] = SimpleQueue()
        self.ended = threading.Event()

    @property
    def master(self) -> str:
        """What a session takes as its master."""
        return f"k8s://http://127.0.0.1:{self.server_port}"

    def start(self) -> None:
        """Start it; it answers when this returns."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End it, and everybody's watches."""
        self.ended.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: KubernetesApi

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:  # who watched has gone
            self.close_connection = True

    def _answer(self) -> None:
        request = self._request()
        self.server.requests.put(request)
        if request.verb == "watch":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.server.ended.wait()  # nothing ever happens
            return
        text = json.dumps(_there(request)).encode()
        self.send_response(201 if request.verb == "create" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - as http.server calls them

    def _request(self) -> Request:
        url = urlsplit(self.path)
        _, _, _, _, namespace, resource, *names = url.path.split("/")  # /api/v1/namespaces/NAMESPACE/RESOURCE[/NAME]
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else {}
        return Request(self._verb(bool(names), url.query), resource, namespace, "".join(names), body)

    def _verb(self, is_named: bool, query: str) -> str:
        match self.command:
            case "GET" if "watch" in parse_qs(query):
                return "watch"
            case "GET":
                return "get" if is_named else "list"
            case "DELETE":
                return "delete" if is_named else "deletecollection"
        return _VERBS[self.command]

    def log_message(self, *_: object) -> None:
        return


def _there(request: Request) -> Mapping[str, Any]:
    match request.verb:
        case "create" | "update" | "patch":
            return {**request.body, "metadata": {**request.body["metadata"], "uid": "made"}}
        case "delete" | "deletecollection":
            return {"apiVersion": "v1", "kind": "Status", "status": "Success"}
        case "get":
            about = {"name": request.name, "namespace": request.namespace, "uid": f"uid of {request.name}"}
            return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {"containers": []}}
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}
