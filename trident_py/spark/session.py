"""The session a topology runs in: a new one of the user's, or one that we build and stop again."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import define, field
from pyspark.sql import SparkSession

from coordinators.zookeeper.java import find_java
from trident_py.spark.asking import Life, life_of
from trident_py.spark.failures import spark_lost
from trident_py.spark.jobs import parallelism, spark_context

DEFAULT_SHUFFLE_PARTITIONS = "200"
"""What Spark sets where nobody did: far too many for one batch."""

QUICK: Mapping[str, str] = {
    # Where in Python an expression was made: to note that is a quarter of what making a small job's frame costs.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Over TCP the JVM and Python wait for each other's acknowledgements: of 110 ms a small job's 40.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
}
"""What makes small jobs faster, and can only be set where a session is built."""


@contextmanager
def topology_session(name: str, spark: SparkSession | None) -> Iterator[SparkSession]:
    """Give a session of its own for topology ``name``, of ``spark`` or of the active or a local one.

    What is built here serves all topologies of the process, and is stopped with the last of them; what is not is never
    stopped. Python workers run the interpreter that runs this, unless ``PYSPARK_PYTHON`` says otherwise.
    """
    with _BUILT.lock:
        root = spark or SparkSession.getActiveSession() or _build(name)
        application = _built_application(root)
        _BUILT.users[application] += 1
    try:
        yield _own_session(root)
    finally:
        with _BUILT.lock:
            _BUILT.users[application] -= 1
            if application and not _BUILT.users[application] and life_of(root) is Life.ALIVE:
                root.stop()


@define(eq=False)
class _Built:
    """The sessions that were built here.

    Attributes:
        lock: held while one is built or stopped, so that nobody takes one that is about to end.
        users: how many topologies run in it, by Spark's id of the application; "" is for those not built here.
    """

    lock: threading.Lock = field(factory=threading.Lock)
    users: Counter[str] = field(factory=Counter)


_BUILT = _Built()
_BUILDER = "spark.trident.builder"


def _built_application(session: SparkSession) -> str:
    # Spark may have found a session of the user's where it was asked to build one, and active is by thread.
    context = spark_context(session)
    ours = context is not None and context.getConf().get(_BUILDER) == str(os.getpid())
    return context.applicationId if context is not None and ours else ""


def session_if_any() -> SparkSession | None:
    """Return the active session, where there is one."""
    return SparkSession.getActiveSession()


def ensure_session_possible(spark: SparkSession | None) -> None:
    """Return if there is a session to run in, or one can be built; asked before anything is started.

    Raises:
        ConfigError: there is no Java that Spark runs on, which PySpark itself tells nobody.
    """
    if spark is None and SparkSession.getActiveSession() is None:
        find_java()


def _build(name: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # otherwise it warns of the host's name, whatever it is
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    return (
        SparkSession.Builder()
        .master("local[*]")
        .appName(f"trident {name}")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config(map=dict(QUICK))
        .config(_BUILDER, str(os.getpid()))
        .config("spark.task.reaper.enabled", "true")  # a cancelled task's Python worker goes on otherwise
        .getOrCreate()
    )


def _own_session(root: SparkSession) -> SparkSession:
    session = root.newSession()
    if session.conf.get("spark.sql.shuffle.partitions") == DEFAULT_SHUFFLE_PARTITIONS:
        session.conf.set("spark.sql.shuffle.partitions", str(parallelism(session)))
    return session


PROBE_SECONDS = 2.0


@contextmanager
def watched(session: SparkSession, name: str, lost: Callable[[BaseException], object]) -> Iterator[None]:
    """Ask the session for a sign of life every few seconds; ``lost`` is told when it is gone."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(PROBE_SECONDS):
            if life_of(session) is Life.GONE:
                lost(spark_lost(f"topology {name!r}"))
                return

    threading.Thread(target=watch, name=f"trident-{name}-spark", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def ship(code: Path, *sessions: SparkSession) -> None:
    """Have these sessions' workers import ``code``, a Python file or the directory of a package, by its name."""
    with TemporaryDirectory(prefix="trident-code-") as directory:
        file = str(code)
        if code.is_dir():
            file = shutil.make_archive(str(Path(directory) / code.name), "zip", code.parent, code.name)
        for session in sessions:
            session.addArtifacts(file, pyfile=True)
