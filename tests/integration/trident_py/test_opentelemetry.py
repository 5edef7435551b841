"""What a collector of OpenTelemetry gets of a topology, over HTTP, as protobuf."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

PROGRAM = Path(__file__).with_name("otlp_program.py")


@define(eq=False)
class Collector:
    """Keeps what it gets."""

    spans: list[Span] = field(factory=list)
    metrics: dict[str, Any] = field(factory=dict)
    url: str = ""

    @contextmanager
    def serving(self) -> Iterator[None]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Type"] == "application/x-protobuf"
                collector.take(self.path, raw)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            self.url = f"http://127.0.0.1:{server.server_port}"
            try:
                yield
            finally:
                server.shutdown()
                thread.join()

    def take(self, path: str, raw: bytes) -> None:
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(raw)
            scopes = [scope for each in traces.resource_spans for scope in each.scope_spans]
            self.spans += [span for scope in scopes if scope.scope.name == "trident_py" for span in scope.spans]
        else:
            metrics = ExportMetricsServiceRequest.FromString(raw)
            found = [scope for each in metrics.resource_metrics for scope in each.scope_metrics]
            self.metrics |= {metric.name: metric for scope in found for metric in scope.metrics}

    def about(self, span: Span) -> dict[str, Any]:
        return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}

    def inside(self, parent: Span) -> list[Span]:
        """Its parts, in order."""
        found = [span for span in self.spans if span.parent_span_id == parent.span_id]
        return sorted(found, key=lambda span: span.start_time_unix_nano)


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Collector:
    """What one run of the program tells."""
    collector = Collector()
    with collector.serving():
        command = [sys.executable, str(PROGRAM), collector.url, str(tmp_path_factory.mktemp("otlp"))]
        subprocess.run(command, check=True, timeout=120)
    return collector


def test_each_transaction_is_one_trace(collector: Collector) -> None:
    roots = [span for span in collector.spans if not span.parent_span_id]
    assert [collector.about(root) for root in roots] == [
        {"trident.topology.name": "prices", "trident.txid": txid} for txid in (1, 2, 3)
    ]
    assert {span.name for span in roots} == {"transaction"}
    assert len({span.trace_id for span in collector.spans}) == 3
    for root in roots:
        ends = [span.end_time_unix_nano for span in collector.inside(root)]
        assert max(ends) <= root.end_time_unix_nano


def test_an_attempt_has_a_span_and_in_it_what_was_done_for_it(collector: Collector) -> None:
    first = next(span for span in collector.spans if not span.parent_span_id)
    (attempt,) = collector.inside(first)
    assert (attempt.name, collector.about(attempt)) == ("attempt", {"trident.attempt": "1:0", "trident.rows": 1})
    parts = [span.name for span in collector.inside(attempt)]
    assert Counter(parts) == Counter(["emit numbers", "job prices", "wait", "commit prices"])
    assert parts.index("emit numbers") < parts.index("job prices") < parts.index("commit prices")
    for span in collector.inside(attempt):
        assert attempt.start_time_unix_nano <= span.end_time_unix_nano <= attempt.end_time_unix_nano


def test_a_failed_attempt_says_why_and_one_behind_it_which(collector: Collector) -> None:
    attempts = [span for span in collector.spans if span.name == "attempt"]
    failed = [span for span in attempts if span.status.code == Status.STATUS_CODE_ERROR]
    assert [collector.about(span)["trident.attempt"] for span in failed] == ["2:0", "2:1"]
    assert all("ValueError: twenty" in span.status.message for span in failed)
    replayed = [collector.about(span) for span in attempts if "trident.failed" in collector.about(span)]
    assert {"trident.attempt": "3:0", "trident.failed": "2:0"} in replayed


def test_metrics_come_by_their_names_without_a_txid(collector: Collector) -> None:
    def points(name: str) -> Any:
        metric = collector.metrics[name]
        return getattr(metric, metric.WhichOneof("data")).data_points

    def keys(point: Any) -> set[str]:
        return {each.key for each in point.attributes}

    outcomes = {
        next(each.value.string_value for each in point.attributes if each.key == "trident.outcome"): point.as_int
        for point in points("trident.transactions")
    }
    assert (outcomes["committed"], outcomes["failed"]) == (3, 2)
    assert [point.as_double or point.as_int for point in points("trident.txid.committed")] == [3]
    assert {point.count for point in points("trident.transaction.duration")} == {3}
    assert collector.metrics["trident.transaction.duration"].unit == "s"
    everything = {
        key
        for name in collector.metrics
        if name.startswith("trident.")
        for point in points(name)
        for key in keys(point)
    }
    assert everything == {
        "trident.topology.name",
        "trident.spout.name",
        "trident.state.name",
        "trident.phase",
        "trident.outcome",
    }
