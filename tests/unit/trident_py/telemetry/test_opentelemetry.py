"""What OpenTelemetry's API is told, where no SDK is set up; with one: tests/integration."""

from __future__ import annotations

from tests.unit.trident_py.history.told import ALL_GOOD, emitted, ended, failed
from trident_py.telemetry.opentelemetry import OpenTelemetryListener


def test_without_an_sdk_nothing_comes_of_it_and_nothing_fails() -> None:
    listener = OpenTelemetryListener("wc")
    for event in (*ALL_GOOD, emitted("2:0"), failed("2:0", ValueError("no")), emitted("2:1"), ended()):
        listener.on_event(event)
