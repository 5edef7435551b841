"""The embedded server as processes see it that share it, die, and come back."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from attrs import define

from coordinators.embedded import EmbeddedZooKeeper
from coordinators.errors import ConfigError, CoordinationLost
from coordinators.leadership import lead
from coordinators.record import CoordinatorRecord

pytestmark = [pytest.mark.zookeeper, pytest.mark.usefixtures("zookeeper_server")]  # skipped where that can't start

PATIENCE_SECONDS = 30.0
USER = """
import sys
from pathlib import Path
from coordinators.embedded import EmbeddedZooKeeper
with EmbeddedZooKeeper.running(Path(sys.argv[1])) as server:
    print(server.port, server.pid, flush=True)
    sys.stdin.read()
"""


@define
class User:
    """Another process that uses the server in a directory."""

    process: subprocess.Popen[str]
    port: int
    pid: int

    @classmethod
    def start(cls, directory: Path) -> User:
        process = subprocess.Popen(
            [sys.executable, "-c", USER, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        port, pid = process.stdout.readline().split()
        return cls(process, int(port), int(pid))

    def leave(self) -> None:
        self.process.communicate(timeout=PATIENCE_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.leave()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where a test's own server may live; none is left at the end."""
    yield tmp_path / "zookeeper"
    if (tmp_path / "zookeeper" / "data").exists():
        (tmp_path / "zookeeper" / "stay").unlink(missing_ok=True)
        with EmbeddedZooKeeper.running(tmp_path / "zookeeper"):  # a server without supervisor ends here, too
            pass
        _await_end(tmp_path / "zookeeper")


def _await_end(directory: Path) -> None:
    """Return when no server has the data any more: its lock tells, without asking again and again."""
    with (directory / "data").open() as data, ThreadPoolExecutor(1) as pool:
        pool.submit(fcntl.flock, data, fcntl.LOCK_EX).result(PATIENCE_SECONDS)


def _is_held(directory: Path) -> bool:
    with (directory / "data").open() as data:
        try:
            fcntl.flock(data, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _supervisor_of(server: EmbeddedZooKeeper) -> psutil.Process:
    supervisor = psutil.Process(server.pid).parent()
    assert supervisor is not None
    assert any(argument.endswith("supervisor.py") for argument in supervisor.cmdline())
    return supervisor


# --- who shares it, and when it ends ----------------------------------------------------------------------------------


def test_processes_that_use_the_same_directory_share_one_server_until_the_last_one_leaves(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory) as server:
        other = User.start(directory)
        assert (other.port, other.pid) == (server.port, server.pid)
    assert _is_held(directory)
    other.leave()
    _await_end(directory)


def test_processes_that_come_at_once_share_one_server(directory: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        users = list(pool.map(User.start, [directory] * 3))
    assert len({(user.port, user.pid) for user in users}) == 1
    for user in users:
        user.leave()
    _await_end(directory)


def test_one_process_may_use_it_twice(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory) as server, EmbeddedZooKeeper.running(directory) as again:
        assert server == again


def test_the_server_is_gone_when_its_last_user_was_killed(directory: Path) -> None:
    first, second = User.start(directory), User.start(directory)
    first.kill()
    assert _is_held(directory)
    second.kill()
    _await_end(directory)


def test_a_user_that_is_killed_while_the_server_starts_leaves_nothing_behind(directory: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", USER, str(directory)], stdin=subprocess.PIPE, text=True)
    with ExitStack() as stack:
        pid_file = directory / "server.pid"
        until = psutil.Process(process.pid)
        while not pid_file.exists():
            assert until.is_running()
        stack.callback(process.communicate)
        process.kill()
    _await_end(directory)
    with EmbeddedZooKeeper.running(directory):
        assert _is_held(directory)


def test_a_server_asked_to_stay_outlives_its_user_until_it_is_told_to_go(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory, stay=True) as server:
        pass
    with EmbeddedZooKeeper.running(directory) as again:
        assert again == server
    with pytest.raises(TimeoutError):
        _await_end_within(directory, 1.5)
    (directory / "stay").unlink()
    _await_end(directory)


def _await_end_within(directory: Path, seconds: float) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, sys; fcntl.flock(sys.stdin, fcntl.LOCK_EX)"],
        stdin=(directory / "data").open(),
    )
    try:
        waiting.wait(seconds)
    except subprocess.TimeoutExpired as error:
        waiting.kill()
        waiting.wait()
        raise TimeoutError from error


def test_the_server_is_not_reached_by_what_a_terminal_sends_to_its_user(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory) as server:
        assert os.getsid(server.pid) != os.getsid(0)
        for process in (server.pid, _supervisor_of(server).pid):
            os.kill(process, signal.SIGINT)
        store = lead("wordcount", hosts=server.hosts)
        store.write(CoordinatorRecord(1))
        store.close()
        assert _is_held(directory)


def test_nothing_of_it_holds_open_what_its_user_was_given(directory: Path) -> None:
    user = User.start(directory)
    user.process.kill()
    assert user.process.stdout is not None
    assert user.process.stdout.read() == ""  # the end of a pipe that nobody else has
    user.leave()


# --- what is killed, and what is in the way ---------------------------------------------------------------------------


def test_a_killed_server_is_started_again_on_the_same_data_and_port(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory) as server:
        store = lead("wordcount", hosts=server.hosts, session_timeout=60.0)
        store.write(CoordinatorRecord(1, seq=1))
        os.kill(server.pid, signal.SIGKILL)
        _await_end(directory)
        with EmbeddedZooKeeper.running(directory) as restarted:
            assert restarted.hosts == server.hosts
            assert restarted.pid != server.pid
            assert store.read() == CoordinatorRecord(1, seq=1)
        store.close()


def test_a_server_whose_supervisor_was_killed_serves_its_users_and_is_replaced_by_the_next(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory) as server:
        store = lead("wordcount", hosts=server.hosts, session_timeout=60.0)
        _supervisor_of(server).kill()
        store.write(CoordinatorRecord(1, seq=1))
        with EmbeddedZooKeeper.running(directory) as replaced:
            assert replaced.hosts == server.hosts
            assert replaced.pid != server.pid
            store.write(CoordinatorRecord(1, seq=2))
            assert _supervisor_of(replaced).is_running()
        store.close()
    _await_end(directory)


def test_a_supervisor_asked_to_end_takes_the_server_with_it(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory) as server:
        _supervisor_of(server).terminate()
        _await_end(directory)


def test_a_port_that_is_taken_is_given_up_for_another(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        directory.mkdir()
        taken = occupied.getsockname()[1]
        (directory / "port").write_text(str(taken))
        with EmbeddedZooKeeper.running(directory) as server:
            assert server.port != taken
            lead("wordcount", hosts=server.hosts).close()


def test_another_server_on_the_port_is_not_taken_for_ours(directory: Path, zookeeper_server: EmbeddedZooKeeper) -> None:
    directory.mkdir()
    (directory / "port").write_text(str(zookeeper_server.port))
    with EmbeddedZooKeeper.running(directory) as server:
        assert server.port != zookeeper_server.port


def test_a_directory_may_have_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "a b" / "ü\\n 日本 #=!"
    with EmbeddedZooKeeper.running(directory) as server:
        lead("wordcount", hosts=server.hosts).close()
    _await_end(directory)
    assert any((directory / "server").rglob("log.*"))


def test_it_listens_on_this_machine_only(zookeeper_server: EmbeddedZooKeeper) -> None:
    listening = [c for c in psutil.Process(zookeeper_server.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    addresses = {connection.laddr.ip.removeprefix("::ffff:") for connection in listening}
    assert (addresses, len(listening)) == ({"127.0.0.1"}, 1)


# --- what is missing --------------------------------------------------------------------------------------------------


def _error_of_a_user(directory: Path, **changes: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("PATH", "JAVA_HOME")} | changes
    user = subprocess.run(
        [sys.executable, "-c", USER, str(directory)],
        env=environment,
        input="",
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert user.returncode == 1
    return user.stderr.splitlines()[-1]


def test_a_machine_without_java_is_told_how_to_get_one(directory: Path) -> None:
    error = _error_of_a_user(directory, PATH="")
    assert error.startswith("coordinators.errors.ConfigError: there is no Java on this machine")
    assert "apt-get install openjdk-17-jre-headless" in error


def test_a_wrong_java_home_is_named(directory: Path, tmp_path: Path) -> None:
    error = _error_of_a_user(directory, JAVA_HOME=str(tmp_path))
    assert f"JAVA_HOME is {str(tmp_path)!r}, where there is no bin/java" in error


def test_a_pyspark_without_jars_is_named(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    error = _error_of_a_user(directory, PATH=os.environ["PATH"], PYTHONPATH=str(tmp_path))
    assert f"there is no ZooKeeper among the jars of PySpark ({tmp_path}/pyspark/jars)" in error


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigError, match="can't keep its data in .*file/zookeeper.*state_dir"),
        EmbeddedZooKeeper.running(tmp_path / "file" / "zookeeper"),
    ):
        pass


def test_a_server_that_cannot_start_is_quoted(directory: Path) -> None:
    (directory / "server").mkdir(parents=True)
    (directory / "server" / "version-2").touch()
    with (
        pytest.raises(
            CoordinationLost, match=r"(?s)ended while it started.*server\.log.*Unable to create data directory"
        ),
        EmbeddedZooKeeper.running(directory),
    ):
        pass
    (directory / "server" / "version-2").unlink()
