"""What Prometheus is shown."""

from __future__ import annotations

import subprocess

from prometheus_client.parser import text_string_to_metric_families

from tests.unit.trident_py.history.told import ALL_GOOD, committed
from trident_py.telemetry.prometheus import PrometheusListener


def test_prometheus_finds_nothing_to_complain_about(promtool: str) -> None:
    shown = PrometheusListener("wc")
    for event in (*ALL_GOOD, committed("2:0", processing=2.0, rows=3, counts={"bad": 1}, written={"counts": 2})):
        shown.on_event(event)
    done = subprocess.run([promtool, "check", "metrics"], input=shown.text(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_series_are_told_apart_by_topology_and_by_what_they_are_about() -> None:
    shown = PrometheusListener("wc")
    for event in (*ALL_GOOD, committed("2:0", processing=2.0, committing=1.0, waiting=0.25, rows=3)):
        shown.on_event(event)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(shown.text().decode())
        for sample in family.samples
    }
    assert found["trident_leader", "wc"] == 1
    assert found["trident_txid_committed", "wc"] == 2
    assert found["trident_rows_total", "wc"] == 3
    assert found["trident_transactions_total", "committed", "wc"] == 2
    assert found["trident_transaction_duration_seconds_sum", "commit", "wc"] == 0.75
    assert found["process_cpu_seconds_total",] > 0


def test_a_topology_that_stands_by_leads_not() -> None:
    assert b'trident_leader{trident_topology_name="wc"} 0.0' in PrometheusListener("wc").text()
