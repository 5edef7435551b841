"""The image of docker/spark.Dockerfile without Docker: its script installs Spark, and a topology runs in the result."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template

import pytest
from attrs import frozen

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "docker" / "spark.Dockerfile").read_text()
IN_IMAGE = "/opt/trident"

pytestmark = pytest.mark.slow


@frozen
class Image:
    """An environment that docker/install has made.

    Attributes:
        variables: those of the Dockerfile, for this environment.
    """

    home: Path
    variables: Mapping[str, str]

    def run(self, *command: object) -> str:
        """Run ``command`` and return its output; the test fails if it fails."""
        words = [str(self.home / "bin" / str(command[0])), *map(str, command[1:])]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=dict(self.variables), cwd=self.home
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Install with the script and the extras of the Dockerfile."""
    home = tmp_path_factory.mktemp("image") / "trident"
    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)$", DOCKERFILE, re.MULTILINE)
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "PYSPARK"))}
    command = [ROOT / "docker" / "install", ROOT, home, extras]
    done = subprocess.run(command, capture_output=True, text=True, env={**outside, "PYTHON": sys.executable})
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r"^ENV (.+)$", DOCKERFILE, re.MULTILINE)
    given = dict(word.split("=", 1) for line in lines for word in line.replace(IN_IMAGE, str(home)).split())
    variables = {name: Template(value).substitute(outside) for name, value in given.items()}
    return Image(home, {**outside, **variables})


def test_workers_start_with_the_tested_spark(image: Image) -> None:
    told = image.run("spark-class", "org.apache.spark.deploy.SparkSubmit", "--version")
    (version,) = re.findall(r"pyspark==(\S+)", (ROOT / "docker" / "install").read_text())
    assert f"version {version}\n" in told


def test_the_extras_are_there(image: Image) -> None:
    assert image.run("python", "-c", "import confluent_kafka, fastavro, psycopg") == ""


def test_a_topology_runs(image: Image, tmp_path: Path) -> None:
    assert "words" in image.run("trident", "demo", "--state-dir", tmp_path / "demo")
