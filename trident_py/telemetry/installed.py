"""Who is told of a topology because it is installed, without being asked for."""

from __future__ import annotations

from coordinators.status.listener import TridentListener


def installed_listeners(topology: str) -> list[TridentListener]:
    """Return what tells OpenTelemetry of a topology; none where its API isn't installed."""
    try:
        from trident_py.telemetry.opentelemetry import OpenTelemetryListener
    except ImportError:
        return []
    return [OpenTelemetryListener(topology)]
