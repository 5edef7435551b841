"""A server that lists objects as S3 does, and has none: it makes up their names. ``python -m benchmarks.list_server``.

It prints its port. ``PUT /count/N`` sets how many objects there are, and ``GET /told`` returns what it was asked for
since then. It knows ``list-type=2`` with ``start-after`` and ``continuation-token``, and no other request.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE_KEYS = 1000
WRITTEN_AT = "2026-11-28T12:00:00.000Z"
PREFIX = "in/"


def key_of(number: int) -> str:
    """Return the name of an object; the first is number 0."""
    return f"{PREFIX}{number:09}.json"


class ListServer(ThreadingHTTPServer):
    """Lists ``count`` objects; counts requests and the keys that it has returned."""

    daemon_threads = True
    count = requests = keys = 0

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def page(self, after: str) -> bytes:
        """Return the names after ``after``, a page of them."""
        first = 0 if after < PREFIX else int(after.removeprefix(PREFIX).removesuffix(".json")) + 1
        numbers = range(first, min(self.count, first + PAGE_KEYS))
        self.requests += 1
        self.keys += len(numbers)
        is_last = first + PAGE_KEYS >= self.count
        more = "" if is_last else f"<NextContinuationToken>{key_of(numbers[-1])}</NextContinuationToken>"
        objects = "".join(
            f"<Contents><Key>{key_of(number)}</Key><LastModified>{WRITTEN_AT}</LastModified>"
            f"<ETag>&quot;{number:032x}&quot;</ETag><Size>1000</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for number in numbers
        )
        return (
            f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>bucket</Name><Prefix>{PREFIX}</Prefix>'
            f"<KeyCount>{len(numbers)}</KeyCount><MaxKeys>{PAGE_KEYS}</MaxKeys>"
            f"<IsTruncated>{str(not is_last).lower()}</IsTruncated>{more}{objects}</ListBucketResult>"
        ).encode()


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server: ListServer

    def do_GET(self) -> None:
        """Answer with a page, or with the counts."""
        url = urlsplit(self.path)
        if url.path == "/told":
            self._answer(json.dumps({"requests": self.server.requests, "keys": self.server.keys}).encode())
            return
        asked = parse_qs(url.query)
        after = asked.get("continuation-token", asked.get("start-after", [""]))[0]
        self._answer(self.server.page(after))

    def do_PUT(self) -> None:
        """Set how many objects there are."""
        self.server.count, self.server.requests, self.server.keys = int(self.path.rpartition("/")[2]), 0, 0
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def main() -> None:
    """Serve until the end of the process."""
    server = ListServer(("127.0.0.1", 0), Handler)
    print(server.url, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
