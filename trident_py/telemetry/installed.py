"""The listeners that every topology has if their library is installed."""

from __future__ import annotations

from coordinators.status.listener import TridentListener


def installed_listeners(topology: str) -> list[TridentListener]:
    """Return the listener for OpenTelemetry, or an empty list if its API isn't installed."""
    try:
        from trident_py.telemetry.opentelemetry import OpenTelemetryListener
    except ImportError:
        return []
    return [OpenTelemetryListener(topology)]
