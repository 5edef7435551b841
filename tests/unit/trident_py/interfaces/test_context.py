"""What user code is told about where it runs, and its metrics."""

from __future__ import annotations

from threading import Thread
from typing import Any

from trident_py.interfaces.context import Metrics, TopologyContext


def test_metrics_are_added_to_and_set_and_what_was_read_does_not_change() -> None:
    metrics = Metrics()
    metrics.add("rows")
    seen = metrics.values()
    metrics.add("rows", 2)
    metrics.set("lag", 7)
    metrics.set("lag", 5)
    assert seen == {"rows": 1}
    assert metrics.values() == {"rows": 3, "lag": 5}


def test_no_addition_of_any_thread_is_lost() -> None:
    metrics = Metrics()

    def count() -> None:
        for _ in range(1000):
            metrics.add("rows")

    threads = [Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.values() == {"rows": 4000}


def test_a_session_is_built_when_it_is_asked_for_and_coordinators_have_none() -> None:
    built: list[Any] = []

    def build() -> Any:
        built.append("a session")
        return built[-1]

    context = TopologyContext("t", "lines", build)
    assert built == []
    assert context.spark is built[-1]
    assert TopologyContext("t", "lines").spark is None
