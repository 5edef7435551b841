"""The search for the Java runtime that ZooKeeper and Spark need, and the check of its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from attrs import frozen

from coordinators.values.errors import ConfigError

JAVA_MIN = 17
"""The version that Spark 4 needs."""

ANSWER_SECONDS_MAX = 60.0


@frozen(kw_only=True)
class Java:
    """The result of a search for a Java runtime.

    Attributes:
        path: of the runtime; None if it is missing.
        found: the version that it reports, or a description of the missing part.
        remedy: how to fix it; empty if the runtime can be used.
    """

    path: str | None
    found: str
    remedy: str


def look_for_java() -> Java:
    """Find the runtime that ``JAVA_HOME`` names, or else the first of the ``PATH``, as ZooKeeper and Spark do."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    remedy = (
        f"install a Java runtime of at least {JAVA_MIN} (Debian and Ubuntu: apt-get install openjdk-17-jre-headless)"
        + (f", or correct JAVA_HOME, which is {home}" if home else "")
    )
    if path is None:
        missing = f"JAVA_HOME is {home!r}, where there is no bin/java" if home else "there is no Java on this machine"
        return Java(path=None, found=missing, remedy=remedy)
    said = _version(path)
    match = re.search(r'version "(\d+)[^"]*"', said)
    is_new = match is not None and int(match[1]) >= JAVA_MIN
    found = f"{match[0] if match else said.partition(chr(10))[0] or 'no answer'} ({path})"
    return Java(path=path, found=found, remedy="" if is_new else remedy)


def find_java() -> str:
    """Return the path of the Java runtime that ZooKeeper and Spark will use.

    Raises:
        ConfigError: no runtime was found, or it is too old; says how to get one.
    """
    java = look_for_java()
    if java.path is None or java.remedy:
        what = java.found if java.path is None else f"Java is {java.found}"
        raise ConfigError(
            f"{what}; ZooKeeper and Spark need one of at least {JAVA_MIN}: {java.remedy}; `trident doctor` checks "
            f"everything that is needed"
        )
    return java.path


def _version(path: str) -> str:
    """Return the version text of a runtime, from either output stream; if it can't be run, the reason."""
    try:
        done = subprocess.run(  # noqa: S603 - Java, as this user's environment names it
            [path, "-version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ANSWER_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout.decode(errors="replace").strip()
