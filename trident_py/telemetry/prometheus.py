"""The metrics of a topology for Prometheus, by its own client: the content of ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import define, field
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from coordinators.status.listener import TopologyEvent, TridentListener
from trident_py.telemetry.instruments import INSTRUMENTS, TOPOLOGY, Instrument, Kind, Measured, Measurement

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

M = TypeVar("M", Counter, Gauge, Histogram)

_UNITS = {"s": "seconds"}
"""Units that Prometheus spells out in names, as OpenTelemetry's exporters do."""


@define(eq=False)
class PrometheusListener(TridentListener):
    """Keeps the metrics of a topology and of this process for a scraper. Safe to read from any thread."""

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
        for measurement in self._measured.take(event):
            self._take[measurement.instrument.name](measurement)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's format."""
        return generate_latest(self._registry)

    def _instrument(self, wanted: Instrument) -> Callable[[Measurement], None]:
        """Make an instrument; return the function that records its measurements."""
        labels = [each.replace(".", "_") for each in (TOPOLOGY, *wanted.attributes)]
        name, unit = wanted.name.replace(".", "_"), _UNITS.get(wanted.unit, "")
        match wanted.kind:
            case Kind.COUNTER:
                counter = Counter(name, wanted.description, labels, unit=unit, registry=self._registry)
                return self._taking(counter, Counter.inc)
            case Kind.GAUGE:
                gauge = Gauge(name, wanted.description, labels, unit=unit, registry=self._registry)
                return self._taking(gauge, Gauge.set)
            case Kind.HISTOGRAM:
                histogram = Histogram(
                    name, wanted.description, labels, unit=unit, registry=self._registry, buckets=wanted.bounds
                )
                return self._taking(histogram, Histogram.observe)

    def _taking(self, metric: M, add: Callable[[M, float], None]) -> Callable[[Measurement], None]:
        """Return a function that adds measurements to the series of ``metric``, each of which is looked up once."""
        series: dict[tuple[str, ...], M] = {}

        def take(measurement: Measurement) -> None:
            of = measurement.attributes
            if of not in series:
                series[of] = metric.labels(self.topology, *of)
            add(series[of], measurement.value)

        return take
