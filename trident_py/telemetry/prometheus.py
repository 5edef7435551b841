"""The metrics of a topology for Prometheus, by its own client: what ``/metrics`` shows."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from coordinators.listener import TopologyEvent, TridentListener
from trident_py.telemetry.instruments import INSTRUMENTS, TOPOLOGY, Instrument, Kind, Measured, Measurement

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

_UNITS = {"s": "seconds"}
"""What Prometheus spells out in a name, as OpenTelemetry's exporters do."""


@define(eq=False)
class PrometheusListener(TridentListener):
    """Keeps what is measured of a topology, and of this process, for whoever scrapes it. Any thread may ask."""

    topology: str
    _measured: Measured = field(factory=Measured, init=False)
    _registry: CollectorRegistry = field(factory=CollectorRegistry, init=False)
    _take: dict[str, Callable[[Measurement], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        ProcessCollector(registry=self._registry)
        self._take = {each.name: self._instrument(each) for each in INSTRUMENTS}
        for measurement in self._measured.begin():
            self._take[measurement.instrument.name](measurement)

    def on_event(self, event: TopologyEvent) -> None:
        """Measure what has happened."""
        for measurement in self._measured.take(event):
            self._take[measurement.instrument.name](measurement)

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self._registry)

    def _instrument(self, wanted: Instrument) -> Callable[[Measurement], None]:
        """Make one; returns what takes its measurements."""
        labels = [each.replace(".", "_") for each in (TOPOLOGY, *wanted.attributes)]
        name, unit = wanted.name.replace(".", "_"), _UNITS.get(wanted.unit, "")
        match wanted.kind:
            case Kind.COUNTER:
                counter = Counter(name, wanted.description, labels, unit=unit, registry=self._registry)
                return lambda each: counter.labels(self.topology, *each.attributes).inc(each.value)
            case Kind.GAUGE:
                gauge = Gauge(name, wanted.description, labels, unit=unit, registry=self._registry)
                return lambda each: gauge.labels(self.topology, *each.attributes).set(each.value)
            case Kind.HISTOGRAM:
                histogram = Histogram(
                    name, wanted.description, labels, unit=unit, registry=self._registry, buckets=wanted.bounds
                )
                return lambda each: histogram.labels(self.topology, *each.attributes).observe(each.value)
