"""A program with OpenTelemetry's SDK set up as its users do, in a process of its own: there is one for each process.

``python otlp_program.py ENDPOINT DIRECTORY``
"""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import uuid4

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from trident_py import FixedBatchSpout, Row, SQLiteState, Sum, TridentTopology
from trident_py.testing import LocalCoordination

TRIES = Path(sys.argv[2], "tries")


def priced(row: Row) -> tuple[int]:
    """Fail twice at 20."""
    if row.n == 20 and len(list(TRIES.parent.glob("tries*"))) < 2:
        TRIES.with_suffix(f".{uuid4()}").touch()
        raise ValueError("twenty")
    return (row.n * 2,)


def main(endpoint: str, directory: str) -> None:
    """Run three transactions, the second of which fails twice."""
    resource = Resource.create({"service.name": "prices"})
    tracing = TracerProvider(resource=resource)
    tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")))
    trace.set_tracer_provider(tracing)
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=f"{endpoint}/v1/metrics"))
    metering = MeterProvider([reader], resource=resource)
    metrics.set_meter_provider(metering)

    topology = TridentTopology("prices")
    stream = topology.new_stream("numbers", FixedBatchSpout("n bigint", 1, (10,), (20,), (30,)))
    state = SQLiteState(f"{directory}/prices.db", table="prices")
    stream.map(priced, "price bigint").persistent_aggregate(state, Sum("price"), "total")
    with topology.start(coordination=LocalCoordination()) as query:
        query.process_all_available()
    tracing.shutdown()
    metering.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
