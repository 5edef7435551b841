"""Ten looks of a `FileSpout` at objects, in a separate process: ``python -m benchmarks.looks URL COUNT ORDER``.

``URL`` is that of `benchmarks.list_server`, and ``ORDER`` is ``any`` or ``name``. First, batches take all objects.
Before each look, another object appears. It prints one JSON object.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any
from urllib.request import Request, urlopen

from trident_py import FileSpout, TopologyContext, TridentConfig

LOOKS = 10
BATCH_BYTES = 1 << 40
RELIST = timedelta(days=1)


def main() -> None:
    """Take all objects, then look ten times, and once at all."""
    url, count, order = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(measured(url, count, order, directory)), flush=True)


def measured(url: str, count: int, order: str, directory: str) -> dict[str, float]:
    """Return requests, keys, CPU seconds, and megabytes of memory without the libraries."""
    base = _peak_megabytes()
    context = TopologyContext("looks", "in")
    coordinator: Any = _spout(url, order, directory).get_coordinator("in", TridentConfig(), context)
    coordinator.restore({})
    _set_count(url, count)
    metadata: Any = {}
    began, txid = time.process_time(), 0
    while coordinator.is_ready(txid + 1):
        txid += 1
        metadata = coordinator.initialize_transaction(txid, None, None)
        coordinator.success(txid)
        if order == "any" and not coordinator.search.pending:
            break  # the next look is one of those that are measured
    taken = time.process_time() - began
    requests, keys, looks = 0, 0, 0.0
    for number in range(LOOKS):
        _set_count(url, count + 1 + number)
        began = time.process_time()
        if not coordinator.is_ready(txid := txid + 1):
            raise RuntimeError("a look has found nothing")
        looks += time.process_time() - began
        metadata = coordinator.initialize_transaction(txid, None, None)
        coordinator.success(txid)
        told = _told(url)
        requests, keys = requests + told["requests"], keys + told["keys"]
    facts = {"taken_cpu": taken, "requests": requests, "keys": keys, "cpu": looks, "batches": txid}
    facts |= _full_look(url, coordinator) if order == "name" else {}
    position = len(json.dumps(metadata["position"]))
    return {**facts, "memory": _peak_megabytes() - base, "position": position}


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _full_look(url: str, coordinator: Any) -> dict[str, float]:
    began, before = time.process_time(), _told(url)["requests"]
    now = time.time()
    coordinator.today = lambda: now + RELIST.total_seconds()
    coordinator.is_ready(0)
    asked = _told(url)["requests"] - before
    return {"full_cpu": time.process_time() - began, "full_requests": asked}


def _spout(url: str, order: str, directory: str) -> FileSpout:
    options = {"AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "eu-central-1"}
    options |= {"AWS_SKIP_SIGNATURE": "true"}
    chosen: dict[str, Any] = {"order": "name", "relist": RELIST} if order == "name" else {}
    return FileSpout("s3://bucket/in/*", BATCH_BYTES, storage_options=options, directory=directory, **chosen)


def _set_count(url: str, count: int) -> None:
    with urlopen(Request(f"{url}/count/{count}", method="PUT"), timeout=60):  # noqa: S310 - ours
        pass


def _told(url: str) -> dict[str, int]:
    with urlopen(f"{url}/told", timeout=60) as answer:  # noqa: S310
        told: dict[str, int] = json.load(answer)
        return told


if __name__ == "__main__":
    main()
