"""``trident doctor``: checks all requirements, and prints a remedy for each that is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from attrs import asdict, frozen

from coordinators.backends.zookeeper.java import look_for_java
from coordinators.values.errors import TridentError
from trident_py.cli.usage import config_of
from trident_py.coordination import coordination_of
from trident_py.interfaces.config import TridentConfig

ANSWER_SECONDS_MAX = 60.0
FREE_BYTES_MIN = 128 * 2**20
"""Free space for the log of the embedded ZooKeeper, which keeps several logs."""

LIBRARIES = ("pyspark", "pandas", "pyarrow", "kazoo", "attrs", "tenacity", "rich")
EXTRAS = {
    "confluent-kafka": "KafkaSpout, KafkaSink",
    "deltalake": "DeltaSink, DeltaSpout",
    "fastavro": "Avro in files and in Kafka",
    "nats-py": "NATSSpout",
    "obstore": "FileSpout of an object store",
    "psycopg": "PostgresState, PostgresChangesSpout",
    "pyiceberg": "IcebergSink",
    "pika": "RabbitMQSpout",
    "pymysql": "MySQLState",
    "redis": "RedisState",
}
"""Optional libraries, each with the feature that needs it."""


@frozen
class Finding:
    """The result of one check.

    Attributes:
        name: the name of the check.
        ok: whether the requirement is met.
        found: the version or setting that was found.
        remedy: an instruction to fix the problem; empty without a problem.
    """

    name: str
    ok: bool
    found: str
    remedy: str = ""


def run(arguments: Namespace) -> int:
    """Print a line for each finding; return 1 if one of them is a problem."""
    findings = []
    for finding in _findings(config_of(arguments)):
        findings.append(finding)
        if not arguments.json:
            print(f"{'ok     ' if finding.ok else 'problem'}  {finding.name:<17}{finding.found}")
            if finding.remedy:
                print(f"{'':26}→ {finding.remedy}")
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    return 0 if all(finding.ok for finding in findings) else 1


def _findings(config: TridentConfig) -> Iterator[Finding]:
    yield _python()
    yield _java()
    for library in LIBRARIES:
        yield _library(library)
    for library, user in EXTRAS.items():
        yield _extra(library, user)
    yield _workers()
    yield _state_dir(config.state_dir)
    yield _given_zookeeper(config) if config.zookeeper else _embedded_zookeeper()


def _python() -> Finding:
    found = f"{sys.version.split()[0]} ({sys.executable})"
    ok = sys.version_info >= (3, 11)
    return Finding("python", ok, found, "" if ok else "run this with Python 3.11 or newer")


def _java() -> Finding:
    java = look_for_java()
    return Finding("java", not java.remedy, java.found, java.remedy)


def _library(name: str) -> Finding:
    wanted = _requirement(name)
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(name, False, "not installed", f"{sys.executable} -m pip install '{name}{wanted}'")
    ok = all(_satisfies(found, clause) for clause in wanted.split(",") if clause)
    remedy = "" if ok else f"{sys.executable} -m pip install '{name}{wanted}'"
    return Finding(name, ok, f"{found} (wanted: {wanted})", remedy)


def _extra(name: str, user: str) -> Finding:
    try:
        return Finding(name, True, f"{version(name)} (for {user})")
    except PackageNotFoundError:
        return Finding(name, True, f"not installed (only {user} needs it)")


def _requirement(name: str) -> str:
    """Return the version range that our package requires of another: ``>=2.2,<3``."""
    for requirement in requires("trident-py") or []:
        match = re.match(rf"{name}\s*([<>=!~][^;\s]*)", requirement)
        if match and "extra ==" not in requirement:
            return ",".join(sorted(match[1].split(","), reverse=True))
    return ""


def _satisfies(found: str, clause: str) -> bool:
    operator, bound = (clause[:2], clause[2:]) if clause[1] == "=" else (clause[:1], clause[1:])
    here, there = _numbers(found), _numbers(bound)
    compare: dict[str, Callable[[], bool]] = {
        ">=": lambda: here >= there,
        "<": lambda: here < there,
        "==": lambda: here == there,
    }
    return compare[operator]()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text.partition("+")[0])[:3])


def _workers() -> Finding:
    """Check that Spark's Python workers have our Python version, and the libraries of Arrow functions."""
    python = os.environ.get("PYSPARK_PYTHON")
    if python is None:
        return Finding("python workers", True, "run this Python (PYSPARK_PYTHON is not set)")
    wanted = f"{sys.version_info.major}.{sys.version_info.minor}"
    said = _answer([python, "-c", "import sys, pandas, pyarrow; print('%d.%d' % sys.version_info[:2])"])
    if said == wanted:
        return Finding("python workers", True, f"PYSPARK_PYTHON={python}")
    remedy = f"unset PYSPARK_PYTHON, or let it name a Python {wanted} that has pandas and pyarrow"
    last = said.rpartition("\n")[2] or "no answer"
    return Finding("python workers", False, f"PYSPARK_PYTHON={python}: {last}", remedy)


def _state_dir(directory: Path) -> Finding:
    place = next(place for place in (directory.absolute(), *directory.absolute().parents) if place.exists())
    note = "" if place == directory.absolute() else " (not there yet)"
    try:
        with tempfile.TemporaryDirectory(
            prefix=".trident-doctor-", dir=place
        ):  # permission alone doesn't prove that writing works
            free = shutil.disk_usage(place).free
    except OSError as error:
        remedy = f"make {place} a writable directory, or choose another with --state-dir"
        return Finding("state directory", False, f"{directory}{note}: {error.strerror}", remedy)
    remedy = "" if free >= FREE_BYTES_MIN else "free some space, or choose another disk with --state-dir"
    return Finding("state directory", not remedy, f"{directory}{note}, {free / 2**30:.1f} GiB free", remedy)


def _embedded_zookeeper() -> Finding:
    """Start a server with temporary data, to check that this machine can."""
    begun = time.monotonic()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="trident-doctor-", ignore_cleanup_errors=True) as directory,
            coordination_of(TridentConfig(state_dir=Path(directory))) as coordination,
        ):
            coordination.topologies()
    except TridentError as error:
        return Finding("zookeeper", False, "the embedded server does not start", str(error))
    return Finding("zookeeper", True, f"the embedded server starts in {time.monotonic() - begun:.1f} s")


def _given_zookeeper(config: TridentConfig) -> Finding:
    try:
        with coordination_of(config) as coordination:
            names = coordination.topologies()
    except TridentError as error:
        return Finding("zookeeper", False, f"{config.zookeeper} does not let us in or does not answer", str(error))
    return Finding("zookeeper", True, f"{config.zookeeper} answers and knows {len(names)} topologies")


def _answer(command: list[str]) -> str:
    """Return the output of a command on both streams, or the error if it can't be run."""
    try:
        done = subprocess.run(  # noqa: S603  Java or Python, as this user's environment names them
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=ANSWER_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout.decode(errors="replace").strip()
