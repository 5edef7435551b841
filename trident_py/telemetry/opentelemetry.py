"""Metrics and traces of a topology for OpenTelemetry's API: they go to the SDK that the program has set up, if any."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram
from opentelemetry.trace import Span, Status, StatusCode

from coordinators.status.listener import (
    CommittedEvent,
    EmittedEvent,
    EndedEvent,
    FailedEvent,
    SucceededEvent,
    TopologyEvent,
    TransactionEvent,
    TridentListener,
    WorkEvent,
)
from coordinators.values.attempt import TransactionAttempt
from trident_py.telemetry.instruments import INSTRUMENTS, TOPOLOGY, Instrument, Kind, Measured, Measurement
from trident_py.worker.failures import text_of

_About = Mapping[str, str | int]
SCOPE = "trident_py"
NANOS = 1_000_000_000
TRACES_MAX = 10_000
"""The limit of transactions traced at once; above it, the oldest traces are ended, as their last event was dropped."""


@define(eq=False)
class Meters:
    """Passes measurements on to OpenTelemetry's instruments."""

    topology: str
    _measured: Measured = field(factory=Measured, init=False)
    _take: dict[str, Callable[..., None]] = field(init=False)
    _attributes: dict[tuple[str, tuple[str, ...]], _About] = field(factory=dict, init=False)  # those used before

    def __attrs_post_init__(self) -> None:
        meter = metrics.get_meter(SCOPE)
        self._take = {each.name: _instrument(meter, each) for each in INSTRUMENTS}
        for measurement in self._measured.begin():
            self._record(measurement)

    def take(self, event: TopologyEvent) -> None:
        """Measure an event."""
        for measurement in self._measured.take(event):
            self._record(measurement)

    def _record(self, measurement: Measurement) -> None:
        instrument = measurement.instrument
        key = instrument.name, measurement.attributes
        if (attributes := self._attributes.get(key)) is None:
            of_instrument = dict(zip(instrument.attributes, measurement.attributes, strict=True))
            attributes = self._attributes[key] = {TOPOLOGY: self.topology, **of_instrument}
        self._take[instrument.name](measurement.value, attributes)


def _instrument(meter: metrics.Meter, wanted: Instrument) -> Callable[..., None]:
    """Make an instrument; return the function that records its measurements."""
    about = {"name": wanted.name, "unit": wanted.unit, "description": wanted.description}
    match wanted.kind:
        case Kind.COUNTER:
            counter: Counter = meter.create_counter(**about)
            return counter.add
        case Kind.GAUGE:
            return meter.create_gauge(**about).set
        case Kind.HISTOGRAM:
            made: Histogram = meter.create_histogram(**about, explicit_bucket_boundaries_advisory=wanted.bounds)
            return made.record


@define
class _Trace:
    """The open spans of one transaction: its own span, and those of its attempts.

    Attributes:
        last: the end of the last piece of work for it, in seconds since 1970.
    """

    root: Span
    attempts: dict[TransactionAttempt, Span] = field(factory=dict)
    last: float = 0.0


@define(eq=False)
class Traces:
    """Makes a trace of each transaction that the sampler selects.

    A trace has a span for the transaction, which contains a span for each attempt. That contains one for each emission,
    job and commit, and for the wait between the last two.
    """

    topology: str
    _tracer: trace.Tracer = field(factory=lambda: trace.get_tracer(SCOPE), init=False)
    _open: dict[int, _Trace] = field(factory=dict, init=False)

    def take(self, event: TopologyEvent) -> None:
        """Trace an event."""
        match event:
            case EmittedEvent():
                self._begin(event)
            case WorkEvent():
                self._work(event)
            case CommittedEvent():
                self._commit(event)
            case FailedEvent():
                self._fail(event)
            case SucceededEvent():
                self._end(event.attempt.txid, event.at)
            case EndedEvent():
                for txid in list(self._open):
                    self._end(txid, event.at)

    def _begin(self, event: EmittedEvent) -> None:
        attempt = event.attempt
        if attempt.txid not in self._open:
            if len(self._open) == TRACES_MAX:
                self._end(next(iter(self._open)), event.at)
            about: _About = {TOPOLOGY: self.topology, "trident.txid": attempt.txid}
            root = self._tracer.start_span("transaction", Context(), attributes=about, start_time=_nanos(event.at))
            self._open[attempt.txid] = _Trace(root)
        known = self._open[attempt.txid]
        if known.root.is_recording():
            known.attempts[attempt] = self._span(known.root, "attempt", event.at, {"trident.attempt": str(attempt)})

    def _work(self, event: WorkEvent) -> None:
        about = {"trident.transactions": len(event.attempts)}
        for attempt in event.attempts:
            parent = self._span_of(attempt)
            if parent is not None:
                name = f"{event.work.value} {' + '.join(event.parts)}"
                span = self._span(parent, name, event.at - event.seconds, about)
                if event.has_failed:
                    span.set_status(Status(StatusCode.ERROR))
                span.end(_nanos(event.at))
                self._open[attempt.txid].last = max(event.at, self._open[attempt.txid].last)

    def _commit(self, event: CommittedEvent) -> None:
        span = self._close(event.attempt)
        if span is None:
            return
        processed = event.at - event.committing
        self._span(span, "wait", processed, {}).end(_nanos(processed + event.waiting))
        span.set_attribute("trident.rows", event.rows)
        self._end_attempt(span, event)

    def _fail(self, event: FailedEvent) -> None:
        span = self._close(event.attempt)
        if span is None:
            return
        if event.failed == event.attempt:
            span.set_attribute("error.type", type(event.error).__name__)
            span.set_status(Status(StatusCode.ERROR, text_of(event.error)))
        else:
            span.set_attribute("trident.failed", str(event.failed))
        self._end_attempt(span, event)

    def _end_attempt(self, span: Span, event: TransactionEvent) -> None:
        """End the span after all spans inside it: the driver's times are those at which its turns begin."""
        span.end(_nanos(max(event.at, self._open[event.attempt.txid].last)))

    def _span(self, parent: Span, name: str, at: float, about: _About) -> Span:
        inside = trace.set_span_in_context(parent, Context())
        return self._tracer.start_span(name, inside, attributes=about, start_time=_nanos(at))

    def _span_of(self, attempt: TransactionAttempt) -> Span | None:
        known = self._open.get(attempt.txid)
        return known.attempts.get(attempt) if known else None

    def _close(self, attempt: TransactionAttempt) -> Span | None:
        known = self._open.get(attempt.txid)
        return known.attempts.pop(attempt, None) if known else None

    def _end(self, txid: int, at: float) -> None:
        known = self._open.pop(txid, None)
        if known is not None:
            for span in (*known.attempts.values(), known.root):
                span.end(_nanos(max(at, known.last)))


def _nanos(seconds: float) -> int:
    return round(seconds * NANOS)


@define(eq=False)
class OpenTelemetryListener(TridentListener):
    """Reports the events of a topology to OpenTelemetry."""

    topology: str
    _meters: Meters = field(init=False)
    _traces: Traces = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._meters, self._traces = Meters(self.topology), Traces(self.topology)

    def on_event(self, event: TopologyEvent) -> None:
        self._meters.take(event)
        self._traces.take(event)
