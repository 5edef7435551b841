"""A Spark of another version beside ours: the newest whose Kafka connector is published, in an environment of its own.

It is made where it is not there yet: PySpark from PyPI, and the connector by Spark's own Ivy, 450 MB once for a user.
"""

from __future__ import annotations

import json
import os
import subprocess
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

VERSION = "4.2.0"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}"
ROOT = Path(__file__).parents[1]
END_SECONDS_MAX = 60.0
_TAIL = 500


class NoSparkError(Exception):
    """It can't be had."""


def prepared() -> Path:
    """Return the Python of that environment, made if it is not there.

    Raises:
        NoSparkError: it can't be made.
    """
    home = _home()
    python, done = home / "bin" / "python", home / "complete"
    if done.exists():
        return python
    venv.create(home, clear=True, with_pip=True)
    wanted = [f"pyspark[sql]=={VERSION}", "attrs"]
    made = subprocess.run([python, "-m", "pip", "install", "-q", *wanted], capture_output=True, text=True, check=False)
    if made.returncode:
        raise NoSparkError(f"PySpark {VERSION} can't be installed: {made.stderr[-_TAIL:].strip()}")
    done.touch()
    return python


def ivy() -> Path:
    """Return where jars for it are kept."""
    return _home() / "ivy"


def _home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trident" / f"pyspark-{VERSION}"


def environment(python: Path, **more: str) -> dict[str, str]:
    """Return what a program of that environment is started with: nothing that says where ours is."""
    left_out = {"SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON", "SPARK_CONF_DIR"}
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**inherited, "PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT), **more}


def end(process: subprocess.Popen[Any]) -> None:
    """End a program that goes on as long as its standard input does; kill it if it doesn't."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@frozen
class OtherSpark:
    """The program that runs `benchmarks.streaming`.

    Attributes:
        process: it.
        log: what it prints.
    """

    process: subprocess.Popen[str]
    log: Path

    @classmethod
    @contextmanager
    def running(cls, directory: Path, settings: Mapping[str, str]) -> Iterator[OtherSpark]:
        """Run it in local mode until the end of the context.

        Raises:
            NoSparkError: it can't be had, or doesn't start.
        """
        python, log = prepared(), directory / "peer.log"
        given = {**settings, "spark.jars.packages": CONNECTOR, "spark.jars.ivy": str(ivy())}
        with log.open("w") as errors:
            process = subprocess.Popen(
                [python, "-m", "benchmarks.streaming", json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env=environment(python),
            )
        peer = cls(process, log)
        try:
            peer._answer()
            yield peer
        finally:
            end(process)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Have something done.

        Raises:
            NoSparkError: it has ended.
        """
        assert self.process.stdin is not None
        print(json.dumps({"do": do, **arguments}), file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise NoSparkError(f"Spark {VERSION} has ended: {self.log.read_text()[-_TAIL:].strip()}")
        found: dict[str, Any] = json.loads(line)
        return found


def settings_of(spark: Any) -> dict[str, str]:
    """Return the settings of a session that the other one is to have, too."""
    return {name: value for name, value in spark.sparkContext.getConf().getAll() if name in _SHARED}


_SHARED = {
    "spark.master",
    "spark.driver.memory",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.ui.enabled",
    "spark.ui.showConsoleProgress",
    "spark.sql.warehouse.dir",
    "spark.sql.shuffle.partitions",
}
