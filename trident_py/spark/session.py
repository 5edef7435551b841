"""The session a topology runs in: a new one of the user's, or one that we build and stop again."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from attrs import define, field
from pyspark.sql import SparkSession
from pyspark.sql.functions import max as max_
from pyspark.sql.functions import spark_partition_id

from coordinators.backends.zookeeper.java import find_java
from trident_py.errors import ConfigError
from trident_py.spark.asking import Life, life_of
from trident_py.spark.cluster import SparkCluster
from trident_py.spark.failures import spark_lost
from trident_py.spark.jobs import parallelism, spark_context

log = logging.getLogger(__name__)


_starting = threading.local()


@contextmanager
def jvm_shielded() -> Iterator[None]:
    """Have a JVM that is started inside ignore SIGTERM, and keep this process's own handler of SIGINT.

    PySpark starts the JVM so that it ignores SIGINT. Without this, SIGTERM to all processes would end Spark before the
    driver has committed what is under way. The JVM ends when its standard input does, with this process; if Ctrl-C
    interrupts its start it might not, so it is killed then. PySpark's own handler of SIGINT asks the JVM in the middle
    of whatever else is asked of it.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if is_main else None
    reading, _starting.pids = os.pipe()
    try:
        yield
    except KeyboardInterrupt:
        os.close(_starting.pids)
        for pid in os.read(reading, 1024).split():
            atexit.register(_kill, int(pid))
        _starting.pids = -1
        raise
    finally:
        for descriptor in {reading, _starting.pids} - {-1}:
            os.close(descriptor)
        _starting.pids = -1
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # our child, which was not waited for, so no other process has its number


def _ignore_in_child() -> None:
    """Ignore SIGTERM in a process that is forked to start a JVM, which keeps that when it is executed."""
    if (pids := getattr(_starting, "pids", -1)) != -1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(pids, b"%d " % os.getpid())


os.register_at_fork(after_in_child=_ignore_in_child)


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
    """Give a session of its own for topology ``name``, of ``spark`` or of the active one, or one that is built.

    Over Spark Connect it is that session itself: PySpark 4.3 takes what another session has checkpointed for a frame of
    the active session, and doesn't find it there.

    What is built here serves all topologies of the process, and is stopped with the last of them; what is not is never
    stopped. Python workers run the interpreter that runs this, unless ``PYSPARK_PYTHON`` says otherwise.

    Raises:
        ConfigError: nobody answers where Spark should be, by the environment and ``spark-defaults.conf``.
    """
    with _BUILT.lock:
        root = spark or SparkSession.getActiveSession() or _build(name, SparkCluster.found())
        application = _built_application(root)
        _BUILT.users[application] += 1
    try:
        with nullcontext(root) if spark_context(root) is None else beside(root) as session:
            if session.conf.get("spark.sql.shuffle.partitions") == DEFAULT_SHUFFLE_PARTITIONS:
                session.conf.set("spark.sql.shuffle.partitions", str(_tasks_at_once(session)))
            session.conf.set(
                "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"
            )  # as INT96 others read other times
            yield session
    finally:
        with _BUILT.lock:
            _BUILT.users[application] -= 1
            if application and not _BUILT.users[application] and life_of(root) is Life.ALIVE:
                root.stop()


@contextmanager
def session_on(cluster: SparkCluster, name: str) -> Iterator[SparkSession]:
    """Build a session on ``cluster`` for topology ``name``, and stop it.

    Raises:
        ConfigError: nobody answers there.
    """
    session = _build(name, cluster)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def beside(session: SparkSession) -> Iterator[SparkSession]:
    """Give a new session beside ``session``, of the same application.

    One of Spark Connect has a connection of its own, which would keep the process from ending: it is closed.
    """
    new = session.newSession()
    try:
        yield new
    finally:
        if spark_context(new) is None:
            new.stop()


@define(eq=False)
class _Built:
    """The sessions that were built here.

    Attributes:
        lock: held while one is built or stopped, so that no topology takes one that is about to end.
        application: Spark's id of the application that was built last; empty before the first.
        users: how many topologies run in it, by Spark's id of the application; "" is for those not built here.
        remote: the session of Spark Connect that was built here.
    """

    lock: threading.Lock = field(factory=threading.Lock)
    application: str = ""
    users: Counter[str] = field(factory=Counter)
    remote: SparkSession | None = None


_BUILT = _Built()
_BUILDER = "spark.trident.builder"
_CONNECTED = "Spark Connect"
"""Stands for the id of an application, which a Connect server doesn't tell."""


_CONNECT_NEEDS = ("grpc", "grpc_status", "zstandard")


def _built_application(session: SparkSession) -> str:
    context = spark_context(session)
    if context is None:
        return _CONNECTED if session is _BUILT.remote else ""
    return _BUILT.application if context.applicationId == _BUILT.application else ""


def session_if_any() -> SparkSession | None:
    """Return the active session, where there is one."""
    return SparkSession.getActiveSession()


def ensure_session_possible(spark: SparkSession | None, cluster: SparkCluster | None = None) -> None:
    """Return if there is a session to run in, or one can be built; asked before anything is started.

    Raises:
        ConfigError: there is no Java that Spark runs on, which PySpark itself tells nobody; or what Spark Connect needs
            is not installed.
    """
    if spark is not None or SparkSession.getActiveSession() is not None:
        return
    cluster = cluster or SparkCluster.found()
    if cluster.remote is None:
        find_java()
    elif missing := [name for name in _CONNECT_NEEDS if find_spec(name) is None]:
        raise ConfigError(f"Spark Connect needs {', '.join(missing)}: pip install 'trident-py[connect]'")


def _build(name: str, cluster: SparkCluster) -> SparkSession:
    cluster.ensure_there()
    if cluster.remote is not None:
        _BUILT.remote = SparkSession.Builder().remote(cluster.remote).appName(f"trident {name}").getOrCreate()
        return _BUILT.remote
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    if cluster.is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # otherwise it warns of the host's name, whatever it is
    build = uuid4().hex
    builder = (
        SparkSession.Builder()
        .master(cluster.master)
        .appName(f"trident {name}")
        .config(map=dict(cluster.settings()))
        .config("spark.ui.showConsoleProgress", "false")
        .config(map=dict(QUICK))
        .config(_BUILDER, build)
        .config("spark.task.reaper.enabled", "true")  # a cancelled task's Python worker goes on otherwise
    )
    with jvm_shielded():
        session = builder.getOrCreate()
    context = spark_context(session)
    # Spark may have found a session of the user's instead of building one: the active one is by thread. Only the value
    # of the setting tells them apart: each later session of the process inherits the settings of the first.
    if context and context.getConf().get(_BUILDER) == build:
        _BUILT.application = context.applicationId
    if cluster.is_local and context and _built_application(session) and not log.isEnabledFor(logging.INFO):
        context.setLogLevel("FATAL")  # the JVM's trace of a failed task says less than our one line
    return session


def _tasks_at_once(session: SparkSession) -> int:
    """Return how many tasks run at once; Spark Connect is asked into how many parts it would cut a range."""
    if spark_context(session) is not None:
        return parallelism(session)
    [[last]] = session.range(10_000).select(spark_partition_id().alias("part")).agg(max_("part")).collect()
    return int(last) + 1


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


def ship(code: Path | Collection[Path], *sessions: SparkSession) -> tuple[str, ...]:
    """Have these sessions' workers import ``code``: Python files, archives, or directories of packages.

    Returns the names of the modules that these are; what is in archives isn't known.
    """
    files = [code] if isinstance(code, Path) else code
    with TemporaryDirectory(prefix="trident-code-") as directory:
        for each in files:
            file = str(each)
            if each.is_dir():
                file = shutil.make_archive(str(Path(directory) / each.name), "zip", each.parent, each.name)
            for session in sessions:
                session.addArtifacts(file, pyfile=True)
    return tuple(each.stem for each in files if each.is_dir() or each.suffix == ".py")
