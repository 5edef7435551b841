"""The Spark session of a topology: made in the user's application or built here, watched, and supplied with code."""

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
from trident_py.spark.cluster import EXTRA_SLOTS, SparkCluster
from trident_py.spark.failures import spark_lost
from trident_py.spark.jobs import parallelism, spark_context

log = logging.getLogger(__name__)


_starting = threading.local()


@contextmanager
def jvm_shielded() -> Iterator[None]:
    """Make a JVM that is started inside ignore SIGTERM, and keep this process's own handler of SIGINT.

    PySpark starts the JVM so that it ignores SIGINT. Without this function, SIGTERM to all processes would end Spark
    before the driver has committed the batches in flight. The JVM ends when its standard input is closed, with this
    process. If Ctrl-C interrupts its start, it might not end, so it is killed then. PySpark's own handler of SIGINT
    calls the JVM in the middle of any other call.
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
        os.kill(pid, signal.SIGKILL)  # our child, which was not reaped, so no other process has its id


def _ignore_in_child() -> None:
    """Ignore SIGTERM in a process forked to start a JVM, which inherits this when it is executed."""
    if (pids := getattr(_starting, "pids", -1)) != -1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(pids, b"%d " % os.getpid())


os.register_at_fork(after_in_child=_ignore_in_child)


DEFAULT_SHUFFLE_PARTITIONS = "200"
"""Spark's default if the user set nothing: far too many for one batch."""

QUICK: Mapping[str, str] = {
    # Recording where in Python an expression was made is a quarter of the cost of a small job's frame.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Over TCP the JVM and Python wait for each other's acknowledgements: 40 of the 110 ms of a small job.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    # If Python fetches the rows of a job later than that, Spark 4.3 lets it wait for ever. The default is 15 s.
    "spark.python.authenticate.socketTimeout": "10m",
}
"""Settings for small jobs, which can only be set when a session is built."""


@contextmanager
def topology_session(name: str, spark: SparkSession | None, residents: int | None = 0) -> Iterator[SparkSession]:
    """Yield a new session for topology ``name``: in the application of ``spark`` or the active session, or built.

    So many slots as ``residents`` are for tasks that stay, and the others for jobs. None: as many as small batches need
    at the time. A local session that is built here has these slots in addition to those of the processors.

    For Spark Connect it is that session itself: PySpark 4.3 looks for checkpoints of another session in the active
    session, and doesn't find them there.

    A session built here serves all topologies of the process, and is stopped with the last of them; other sessions are
    never stopped. Python workers run the interpreter of this process, unless ``PYSPARK_PYTHON`` names another.

    Raises:
        ConfigError: Spark doesn't answer at the place named by the environment or ``spark-defaults.conf``.
    """
    with _BUILT.lock:
        root = spark or SparkSession.getActiveSession() or _build(name, SparkCluster.found().with_slots(residents))
        application = _built_application(root)
        _BUILT.users[application] += 1
    try:
        with nullcontext(root) if spark_context(root) is None else beside(root) as session:
            if session.conf.get("spark.sql.shuffle.partitions") == DEFAULT_SHUFFLE_PARTITIONS:
                stay = extra_slots(session) if residents is None else residents
                session.conf.set("spark.sql.shuffle.partitions", str(max(1, _tasks_at_once(session) - stay)))
            session.conf.set(
                "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"
            )  # other programs read INT96 as other times
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
        ConfigError: the cluster doesn't answer.
    """
    session = _build(name, cluster)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def beside(session: SparkSession) -> Iterator[SparkSession]:
    """Yield a new session of the same application as ``session``.

    A new session of Spark Connect has a separate connection, which would keep the process from ending, so it is closed.
    """
    new = session.newSession()
    try:
        yield new
    finally:
        if spark_context(new) is None:
            new.stop()


@define(eq=False)
class _Built:
    """The sessions built in this process.

    Attributes:
        lock: held while one is built or stopped, so that no topology gets one that is about to end.
        application: Spark's id of the application built last; empty before the first.
        users: the number of topologies that use it, by Spark's id of the application; "" for applications not built
            here.
        remote: the session of Spark Connect that was built here.
    """

    lock: threading.Lock = field(factory=threading.Lock)
    application: str = ""
    users: Counter[str] = field(factory=Counter)
    remote: SparkSession | None = None


_BUILT = _Built()
_BUILDER = "spark.trident.builder"
_CONNECTED = "Spark Connect"
"""Used as the application id for a Connect server, which doesn't report one."""


_CONNECT_NEEDS = ("grpc", "grpc_status", "zstandard")


def _built_application(session: SparkSession) -> str:
    context = spark_context(session)
    if context is None:
        return _CONNECTED if session is _BUILT.remote else ""
    return _BUILT.application if context.applicationId == _BUILT.application else ""


def session_if_any() -> SparkSession | None:
    """Return the active session, or None."""
    return SparkSession.getActiveSession()


def ensure_session_possible(spark: SparkSession | None, cluster: SparkCluster | None = None) -> None:
    """Return if a session exists or can be built; called before anything is started.

    Raises:
        ConfigError: there is no suitable Java, which PySpark itself doesn't report; or a package for Spark Connect is
            not installed.
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
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # otherwise it warns about any host name
    build = uuid4().hex
    builder = (
        SparkSession.Builder()
        .master(cluster.master)
        .appName(f"trident {name}")
        .config(map=dict(cluster.settings()))
        .config("spark.ui.showConsoleProgress", "false")
        .config(map=dict(QUICK))
        .config(_BUILDER, build)
        .config("spark.task.reaper.enabled", "true")  # otherwise a cancelled task's Python worker continues
    )
    with jvm_shielded():
        session = builder.getOrCreate()
    context = spark_context(session)
    # Spark may have found a user's session instead of building one, because the active one is set by thread. Only the
    # value of the setting distinguishes them: each later session of the process inherits the settings of the first.
    if context and context.getConf().get(_BUILDER) == build:
        _BUILT.application = context.applicationId
    if cluster.is_local and context and _built_application(session) and not log.isEnabledFor(logging.INFO):
        context.setLogLevel("FATAL")  # our one line says more than the JVM's trace of a failed task
    return session


def extra_slots(session: SparkSession) -> int:
    """Return the number of slots that a session has for tasks that stay, in addition to one for each processor."""
    return int(session.conf.get(EXTRA_SLOTS, "0") or 0)


def _tasks_at_once(session: SparkSession) -> int:
    """Return how many tasks run at once; for Spark Connect, the number of partitions of a range."""
    if spark_context(session) is not None:
        return parallelism(session)
    [[last]] = session.range(10_000).select(spark_partition_id().alias("part")).agg(max_("part")).collect()
    return int(last) + 1


PROBE_SECONDS = 2.0


@contextmanager
def watched(session: SparkSession, name: str, lost: Callable[[BaseException], object]) -> Iterator[None]:
    """Check every few seconds that the session is alive; call ``lost`` when it is gone."""
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
    """Add ``code`` to the imports of these sessions' workers: Python files, archives, or directories of packages.

    Return the names of these modules, except those in archives, which are unknown.
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
