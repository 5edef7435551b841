"""The services for development: exact versions, looked after, and reachable from this machine only."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.servers.missing import lacks

ROOT = Path(__file__).parents[1]
FULL_VERSION = re.compile(r"[\w./-]+:\d+\.\d+(\.\d+)?(-[\w.-]+)?")
"""PostgreSQL has versions of two numbers, everyone else of three."""

BRIDGE = "172.17.0.1"
"""Docker's, which this machine and containers reach."""

AS_JSON = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services as Docker Compose understands them; Docker itself need not be there."""
    if _is_plugin():
        text = _said(["docker", "compose", "config", "--format", "json"])
    elif shutil.which("docker-compose"):
        # the old one, in Python, writes YAML only, and Debian installs what reads it along with it
        text = _said(["/usr/bin/python3", "-c", AS_JSON], _said(["docker-compose", "config"]))
    else:
        lacks("docker compose")
    found: dict[str, Any] = json.loads(text)["services"]
    return found


def _is_plugin() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0


def _said(command: list[str], given: str = "") -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_that_a_topology_runs_on_is_there(services: dict[str, Any]) -> None:
    assert set(services) == {
        *(f"zookeeper{number}" for number in (1, 2, 3)),
        "spark-master",
        "spark-worker1",
        "spark-worker2",
        "postgres",
        "kafka",
    }
    for name in ("spark-worker1", "spark-worker2"):
        assert services[name]["depends_on"]["spark-master"]["condition"] == "service_healthy"


def test_every_image_has_a_full_version(services: dict[str, Any]) -> None:
    images = {service["image"] for service in services.values()}
    for service in services.values():
        if "build" in service:
            dockerfile = ROOT / service["build"]["dockerfile"]
            images |= set(re.findall(r"^FROM (\S+)", dockerfile.read_text(), re.MULTILINE))
    assert [image for image in images if not FULL_VERSION.fullmatch(image)] == []


def test_the_image_has_the_spark_that_the_tests_run(services: dict[str, Any]) -> None:
    sources = [ROOT / services["spark-worker1"]["build"]["dockerfile"], ROOT / "docker" / "install"]
    versions = set(re.findall(r"pyspark==(\d+\.\d+\.\d+)", "".join(source.read_text() for source in sources)))
    assert versions == {services["spark-worker1"]["image"].rpartition(":")[2]}
    assert {version.rpartition(".")[0] for version in versions} == {pyspark.__version__.rpartition(".")[0]}


def test_every_service_is_health_checked(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if not service.get("healthcheck", {}).get("test")] == []


def test_every_port_is_bound_to_this_machine(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) >= 6
    for port in ports:
        host = port["host_ip"] if isinstance(port, dict) else port.rpartition(":")[0].rpartition(":")[0]
        assert host in {"127.0.0.1", BRIDGE}, port
