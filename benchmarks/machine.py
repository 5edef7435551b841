"""What a run was measured on: without it, no number means anything."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

from kazoo.client import KazooClient

from benchmarks.parts import Cell
from benchmarks.report import rounded
from coordinators.backends.zookeeper.java import find_java

PROBES = 50
RECORD_BYTES = 600
"""About what the record of a topology takes."""


def described(directory: Path, zookeeper: str) -> dict[str, Cell]:
    """The machine, with two things measured: an ``fsync`` in ``directory``, and a write to the ZooKeeper there."""
    return {
        "processor": _first(r"model name\s*:\s*(.*)", "/proc/cpuinfo") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory, GiB": rounded(int(_first(r"MemTotal:\s*(\d+)", "/proc/meminfo") or 0) / (1 << 20)),
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _java(),
        "PySpark": version("pyspark"),
        "pyarrow": version("pyarrow"),
        "load before the run": rounded(os.getloadavg()[0]),
        "fsync, ms": rounded(1000 * fsync_seconds(directory)),
        "zookeeper round, ms": rounded(1000 * zookeeper_seconds(zookeeper)),
    }


def fsync_seconds(directory: Path) -> float:
    """The median of what a small appended write takes to be durable."""
    took = []
    with (directory / "fsync").open("wb", buffering=0) as file:
        for _ in range(PROBES):
            file.write(b"x" * RECORD_BYTES)
            started = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - started)
    return median(took)


def zookeeper_seconds(hosts: str) -> float:
    """The median of one synchronous write, of about the size of a topology's record."""
    client = KazooClient(hosts)
    client.start()
    took = []
    try:
        client.create("/probe")
        for _ in range(PROBES):
            started = time.perf_counter()
            client.set("/probe", b"x" * RECORD_BYTES)
            took.append(time.perf_counter() - started)
        client.delete("/probe")
    finally:
        client.stop()
        client.close()
    return median(took)


def tree_bytes(hosts: str, path: str) -> int:
    """The bytes of data at and under ``path``."""
    client = KazooClient(hosts)
    client.start()
    try:
        return _bytes_under(client, path)
    finally:
        client.stop()
        client.close()


def _bytes_under(client: KazooClient, path: str) -> int:
    data, _ = client.get(path)
    below = (_bytes_under(client, f"{path.rstrip('/')}/{child}") for child in client.get_children(path))
    return len(data) + sum(below)


def _first(pattern: str, path: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1] if found else None


def _java() -> str:
    told = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True).stderr
    return told.splitlines()[0]
