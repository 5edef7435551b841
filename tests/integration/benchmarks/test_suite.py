"""The whole suite, with hardly any rows: that it runs, not how fast."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.__main__ import MAIN, MORE

ROOT = Path(__file__).parents[3]
LINES = ("rows", "keys", "partitions", "topologies", "pending", "history", "zookeeper")
PLOTS = {f"growth-{line}.svg" for line in LINES}
SECONDS_MAX = 900

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.slow]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that servers get through, which run as users of their own; pytest's are closed."""
    with tempfile.TemporaryDirectory(prefix="trident-suite-") as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


def suite(directory: Path) -> subprocess.Popen[str]:
    (directory / "tmp").mkdir(0o711)
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "--sizes", "tiny", "--out", str(directory / "results")],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(directory / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_everything_runs_and_the_last_line_is_for_programs(place: Path) -> None:
    running = suite(place)
    out, errors = running.communicate(timeout=SECONDS_MAX)
    assert running.returncode == 0, errors
    last = json.loads(out.splitlines()[-1])
    spread = last.pop("spread")
    wanted = "large_native_vs_bare large_python_vs_bare wordcount_vs_loop wordcount_vs_streaming small_tx_per_s \
        small_p50_ms small_beyond_job_ms zookeeper_round_ms"
    assert set(wanted.split()) <= set(last)
    assert all(math.isfinite(value) for value in [*last.values(), *spread.values()])
    assert {path.name for path in (place / "results").iterdir()} == PLOTS | {"results.json", "results.md"}
    assert set(json.loads((place / "results" / "results.json").read_text())["parts"]) == set(MAIN | MORE)
    assert not list((place / "tmp").glob("trident-benchmarks-*"))


def test_ctrl_c_leaves_nothing_behind(place: Path) -> None:
    running = suite(place)
    assert running.stderr is not None
    for line in running.stderr:
        if "word count" in line:
            break
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=SECONDS_MAX)
    assert running.returncode == 130
    assert not list((place / "tmp").glob("trident-benchmarks-*"))
