"""The embedded server as processes see it that share it, die, and come back."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from attrs import define

from coordinators.backends.zookeeper.access import ANONYMOUS, ZooKeeperAccess
from coordinators.backends.zookeeper.administration import describe, reset
from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
from coordinators.backends.zookeeper.leadership import lead
from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.record.record import CoordinatorRecord, decode, encode
from coordinators.values.errors import ConfigError, CoordinationLost, FencedError
from tests.golden.loading import restore_zookeeper
from trident_py.cli import main

pytestmark = [pytest.mark.zookeeper, pytest.mark.usefixtures("zookeeper_server")]  # skipped where that can't start

PATIENCE_SECONDS = 30.0
USER = """
import sys
from pathlib import Path
from coordinators.backends.zookeeper.embedded import EmbeddedZooKeeper
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
    directory = tmp_path / "zookeeper"
    yield directory
    (directory / "stay").unlink(missing_ok=True)
    if (directory / "data").exists() and not _has_ended(directory, within=5):
        os.kill(int((directory / "server.pid").read_text()), signal.SIGKILL)


def _has_ended(directory: Path, *, within: float = PATIENCE_SECONDS) -> bool:
    """Whether no server has the data any more within so many seconds: the kernel tells whoever waits for its lock."""
    with (directory / "data").open() as data:
        command = [sys.executable, "-I", "-S", "-c", "import fcntl; fcntl.flock(0, fcntl.LOCK_EX)"]
        waiting = subprocess.Popen(command, stdin=data)
        try:
            waiting.wait(within)
        except subprocess.TimeoutExpired:
            return False
        finally:
            waiting.kill()
            waiting.wait()
    return True


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


def test_processes_that_come_at_once_share_one_server_until_the_last_one_leaves_or_is_killed(directory: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        first, second, third = pool.map(User.start, [directory] * 3)
    assert (first.port, first.pid) == (second.port, second.pid) == (third.port, third.pid)
    first.leave()
    second.kill()
    assert _is_held(directory)
    third.kill()
    assert _has_ended(directory)


def test_one_process_may_use_it_twice(zookeeper_server: EmbeddedZooKeeper) -> None:
    with EmbeddedZooKeeper.running(zookeeper_server.directory) as again:
        assert again == zookeeper_server
    assert _is_held(zookeeper_server.directory)


def test_a_user_that_is_killed_while_the_server_starts_leaves_nothing_behind(directory: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", USER, str(directory)], stdin=subprocess.PIPE) as process:
        while not (directory / "server.pid").exists():
            assert process.poll() is None
        process.kill()
    assert _has_ended(directory)


def test_a_server_asked_to_stay_outlives_its_user_until_it_is_told_to_go(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory, stay=True) as server:
        assert server.directory == directory
    assert not _has_ended(directory, within=1.5)
    with EmbeddedZooKeeper.running(directory) as again:
        assert again == server
    (directory / "stay").unlink()
    assert _has_ended(directory)


def test_the_server_is_not_reached_by_what_a_terminal_sends_to_its_user(
    zookeeper_server: EmbeddedZooKeeper, zookeeper: str
) -> None:
    supervisor = _supervisor_of(zookeeper_server)
    assert {os.getsid(zookeeper_server.pid), os.getsid(supervisor.pid)}.isdisjoint({os.getsid(0)})
    for pid in (zookeeper_server.pid, supervisor.pid):
        os.kill(pid, signal.SIGINT)
    lead("wordcount", hosts=zookeeper).close()
    assert supervisor.is_running()


def test_it_listens_on_this_machine_only(zookeeper_server: EmbeddedZooKeeper) -> None:
    listening = [c for c in psutil.Process(zookeeper_server.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    addresses = {connection.laddr.ip.removeprefix("::ffff:") for connection in listening}
    assert (addresses, len(listening)) == ({"127.0.0.1"}, 1)


# --- what is killed, and what is in the way ---------------------------------------------------------------------------


def test_a_killed_server_is_started_again_on_the_same_data_and_port_and_its_leader_goes_on(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory) as server:
        store = lead("wordcount", hosts=server.hosts, session_timeout=30.0)
        store.write(CoordinatorRecord(1, seq=1))
        os.kill(server.pid, signal.SIGKILL)
        assert _has_ended(directory)
        with EmbeddedZooKeeper.running(directory) as restarted:
            assert (restarted.hosts, restarted.pid == server.pid) == (server.hosts, False)
            assert store.read() == CoordinatorRecord(1, seq=1)
            store.write(CoordinatorRecord(1, seq=2))
            store.ensure_leading()
        store.close()


@pytest.mark.slow
def test_a_server_whose_supervisor_was_killed_serves_its_users_and_is_replaced_by_the_next(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory) as server:
        store = lead("wordcount", hosts=server.hosts, session_timeout=60.0)
        supervisor = _supervisor_of(server)
        supervisor.kill()
        supervisor.wait(10)  # until the kernel has released its lock
        store.write(CoordinatorRecord(1, seq=1))
        with EmbeddedZooKeeper.running(directory) as replaced:
            assert (replaced.hosts, replaced.pid == server.pid) == (server.hosts, False)
            store.write(CoordinatorRecord(1, seq=2))
            store.close()
            _supervisor_of(replaced).terminate()  # asked to end, it takes the server with it
            assert _has_ended(directory)


def test_a_port_on_which_another_server_answers_is_given_up(
    directory: Path, zookeeper_server: EmbeddedZooKeeper
) -> None:
    directory.mkdir()
    (directory / "port").write_text(str(zookeeper_server.port))
    with EmbeddedZooKeeper.running(directory) as server:
        assert server.port != zookeeper_server.port
        lead("wordcount", hosts=server.hosts).close()


# --- whose it is ------------------------------------------------------------------------------------------------------


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_another_user_can_neither_lock_its_files_nor_read_or_change_what_is_in_it(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedZooKeeper.running(directory) as server:
        assert (_mode(directory), _mode(directory / "login")) == (0o700, 0o600)
        with closing(lead("wordcount", hosts=server.hosts, access=server.access)) as store:
            assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
            for stranger in (ANONYMOUS, ZooKeeperAccess(login="trident:guessed")):
                for use in (lead, describe, reset):
                    with pytest.raises(ConfigError, match=r"refused /trident.*NoAuthError"):
                        use("wordcount", hosts=server.hosts, access=stranger)
            store.write(CoordinatorRecord(1, seq=1))
        login = server.access
    assert _has_ended(directory)
    with EmbeddedZooKeeper.running(directory) as again:
        assert again.access == login
        (directory / "login").unlink()
    with (
        EmbeddedZooKeeper.running(directory) as others,
        pytest.raises(ConfigError, match=r"NoAuthError.*put the file `login` back next to its data"),
    ):
        describe("wordcount", hosts=others.hosts, access=others.access)


def test_what_a_release_without_a_login_has_made_is_closed_to_others_at_the_next_start(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored = encode(CoordinatorRecord(1, seq=1, current_txid=4, attempt_ids={3: 0}, success_upto=2))
    directory.mkdir(mode=0o755)
    (directory / "users").touch(mode=0o644)
    with EmbeddedZooKeeper.running(directory) as server:
        restore_zookeeper("owed-success", server.hosts, stored)
        assert main(["status", "golden-owed-success", "--state-dir", str(directory.parent)]) == 0
        with closing(lead("golden-owed-success", hosts=server.hosts, access=server.access)) as store:
            assert store.read() == decode(stored.head, stored.blobs, where="the golden data")
            session = ZooKeeperSession.connect(
                server.hosts, who="the tests", session_timeout=30.0, access=server.access
            )
            nodes = list(_nodes(session, "/trident"))
            assert {path.rpartition("/")[2] for path in nodes} >= {"trident", "identity", "record", "blobs", "leader"}
            for path in nodes:
                [acl] = session._client.get_acls(path)[0]
                assert (acl.acl_list, acl.id.id.partition(":")[0]) == (["ALL"], "trident"), path
            session.close()
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
        assert main(["reset", "golden-owed-success", "--yes", "--state-dir", str(directory.parent)]) == 0
    assert _mode(directory) == 0o700


def test_a_leader_without_a_login_is_not_locked_out_by_who_waits_for_it(directory: Path) -> None:
    with EmbeddedZooKeeper.running(directory) as server:
        with closing(lead("wordcount", hosts=server.hosts)) as store:
            with pytest.raises(FencedError):
                lead("wordcount", hosts=server.hosts, access=server.access, wait=0)
            store.write(CoordinatorRecord(1, seq=1))
        with closing(lead("wordcount", hosts=server.hosts, access=server.access)) as store:
            assert store.read() == CoordinatorRecord(1, seq=1)


def _nodes(session: ZooKeeperSession, path: str) -> Iterator[str]:
    yield path
    for name in session._client.get_children(path):
        yield from _nodes(session, f"{path}/{name}")


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
    assert error.startswith("coordinators.values.errors.ConfigError: there is no Java on this machine")
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
        pytest.raises(ConfigError, match=r"can't keep its data in .*file/zookeeper.*state_dir"),
        EmbeddedZooKeeper.running(tmp_path / "file" / "zookeeper"),
    ):
        pass


def test_a_server_that_cannot_start_is_quoted(directory: Path) -> None:
    (directory / "server").mkdir(parents=True)
    (directory / "server" / "version-2").touch()
    with (
        pytest.raises(CoordinationLost, match=r"(?s)ended while it started.*server\.log.*Not a directory"),
        EmbeddedZooKeeper.running(directory),
    ):
        pass
    (directory / "server" / "version-2").unlink()
