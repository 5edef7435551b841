"""The check of a session's Python workers: one tiny task, before anything is emitted."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from trident_py.errors import ConfigError
from trident_py.spark.jobs import described, spark_context

NEEDED = ("trident_py", "pyarrow", "pandas")
_good: set[tuple[str, Sequence[str]]] = set()
"""Spark's ids of the applications with suitable workers, and the checked modules."""


def ensure_workers(session: SparkSession, topology: str, code: Sequence[str] = ()) -> None:
    """Return if the session's Python workers can run a topology; checks each Spark application once.

    Args:
        session: the session of the workers.
        topology: the topology to name in the error.
        code: modules that were shipped to the workers; the modules that they import must exist too.

    Raises:
        ConfigError: the workers can't; the message says which Python they run and what it lacks.
    """
    context = spark_context(session)
    if context is not None and (context.applicationId, code) in _good:
        return
    looked = udf(
        _looking(code), "array<string>", useArrow=False
    )()  # an Arrow function needs the libraries that may be missing
    try:
        with described(session, f"{topology}: what the Python workers have"):
            [[[python, version, missing]]] = session.range(0, 1, 1, 1).select(looked).collect()
    except PySparkException as error:
        raise ConfigError(_explained(topology, f"they could not run one task, {_last_line(error)}")) from error
    if missing:
        raise ConfigError(_explained(topology, f"they run {python} (Python {version}), which lacks {missing}"))
    if context is not None:
        _good.add((context.applicationId, code))


def _looking(code: Sequence[str]) -> Callable[[], list[str]]:
    needed = NEEDED

    # A nested function is pickled as code: a worker that can't import our package can still report it.
    def look() -> list[str]:
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        for name in code:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                missing.append(error.name or name)
            except Exception:  # noqa: BLE001, S110 - other errors are raised where the module is used
                pass
        return [sys.executable, ".".join(map(str, sys.version_info[:3])), ", ".join(map(repr, missing))]

    return look


def _explained(topology: str, what: str) -> str:
    here = f"{sys.executable} (Python {'.'.join(map(str, sys.version_info[:3]))})"
    return (
        f"topology {topology!r}: the Python workers of this Spark session can't run it: {what}; this program runs "
        f'{here}. Before the session is made: os.environ["PYSPARK_PYTHON"] = sys.executable; on a cluster, install '
        f"trident-py and what the topology imports for the workers' Python, or ship your own code: --py-files"
    )


def _last_line(error: PySparkException) -> str:
    return str(error).rstrip().rpartition("\n")[2].strip()
