"""Who is told without being asked for."""

from __future__ import annotations

import sys

import pytest

from trident_py.telemetry.installed import installed_listeners
from trident_py.telemetry.opentelemetry import OpenTelemetryListener


def test_opentelemetry_is_told_where_its_api_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    (listener,) = installed_listeners("wc")
    assert isinstance(listener, OpenTelemetryListener)
    monkeypatch.setitem(sys.modules, "trident_py.telemetry.opentelemetry", None)
    assert installed_listeners("wc") == []
