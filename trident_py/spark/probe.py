"""What the Python workers of a session are: asked by one tiny task, before anything is emitted."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from trident_py.errors import ConfigError
from trident_py.spark.jobs import spark_context

NEEDED = ("trident_py", "pyarrow", "pandas")
_good: set[str] = set()
"""Spark's ids of the applications whose workers will do."""


def ensure_workers(session: SparkSession, topology: str) -> None:
    """Return if the session's Python workers can run what a topology needs; asks once for each Spark application.

    Raises:
        ConfigError: they can't; says which Python they run and what it lacks.
    """
    context = spark_context(session)
    application = context.applicationId if context else session.version
    if application in _good:
        return
    looked = udf(_looking(), "array<string>", useArrow=False)()  # an Arrow function needs what may be missing
    try:
        [[[python, version, missing]]] = session.range(0, 1, 1, 1).select(looked).collect()
    except PySparkException as error:
        raise ConfigError(_explained(topology, f"they could not run one task, {_last_line(error)}")) from error
    if missing:
        raise ConfigError(_explained(topology, f"they run {python} (Python {version}), which lacks {missing}"))
    _good.add(application)


def _looking() -> Callable[[], list[str]]:
    needed = NEEDED

    # Made in here, it travels as code: a worker that can't import our package can still tell so.
    def look() -> list[str]:
        missing = ", ".join(repr(name) for name in needed if importlib.util.find_spec(name) is None)
        return [sys.executable, ".".join(map(str, sys.version_info[:3])), missing]

    return look


def _explained(topology: str, what: str) -> str:
    here = f"{sys.executable} (Python {'.'.join(map(str, sys.version_info[:3]))})"
    return (
        f"topology {topology!r}: the Python workers of this Spark session can't run it: {what}; this program runs "
        f'{here}. Before the session is made: os.environ["PYSPARK_PYTHON"] = sys.executable; on a cluster, install '
        f"trident-py for the workers' Python"
    )


def _last_line(error: PySparkException) -> str:
    return str(error).rstrip().rpartition("\n")[2].strip()
