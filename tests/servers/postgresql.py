"""A real PostgreSQL server for tests: started, stopped and killed as a test wants it."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
from attrs import define, field

from tests.servers.ports import free_port

PASSWORD = "canary-S3cret%/@ü"  # noqa: S105 - to be looked for in what is printed
_DEBIAN = Path("/usr/lib/postgresql")
_PATIENCE_SECONDS = 60


class NoServerError(Exception):
    """PostgreSQL is not installed here."""


def binaries() -> Path:
    """The directory with ``initdb`` and ``pg_ctl``.

    Raises:
        NoServerError: there is none.
    """
    found = shutil.which("initdb")
    places = (
        [Path(found).resolve().parent]
        if found
        else sorted(_DEBIAN.glob("*/bin"), key=lambda path: -int(path.parent.name))
    )
    if not places:
        raise NoServerError("PostgreSQL is not installed (Debian and Ubuntu: apt-get install postgresql)")
    return places[0]


@define
class PostgresServer:
    """One server, on a port of its own of the loopback interface; its data survive `stop` and `kill`.

    Attributes:
        data: its data directory; root gives it, and what is in it, to the user ``postgres``, who must be able to get
            there.
        options: settings, as ``{"max_connections": "20"}``.
    """

    data: Path
    options: dict[str, str] = field(factory=dict)
    port: int = 0

    @property
    def pid(self) -> int:
        """The process whose death is the server's."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    @property
    def is_running(self) -> bool:
        """Whether it has not ended; whoever was killed leaves its file behind."""
        return (self.data / "postmaster.pid").exists() and psutil.pid_exists(self.pid)

    @property
    def log(self) -> str:
        """What it has said."""
        return self.data.with_suffix(".log").read_text()

    def dsn(self, dbname: str = "postgres", **more: str) -> str:
        """How to connect as the superuser, password and all."""
        parts: dict[str, str | int] = {"host": "127.0.0.1", "port": self.port, "user": "postgres"}
        return psycopg.conninfo.make_conninfo("", **{**parts, "dbname": dbname, "password": PASSWORD, **more})

    def start(self) -> None:
        """Start it, and make its data where there are none; it answers when this returns."""
        if not (self.data / "PG_VERSION").exists():
            self._init()
        self.port = self.port or free_port()
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on",
            "wal_level": "logical",
            "recovery_init_sync_method": "syncfs",  # one by one they take a minute after a crash
            **self.options,
        }
        given = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        log = str(self.data.with_suffix(".log"))
        self._run("pg_ctl", "start", "-w", "-l", log, "-o", f"-p {self.port} {given}")

    def follow(self, primary: PostgresServer) -> None:
        """Make its data a copy of those of ``primary``, which it follows once it is started."""
        self._own()
        self._run("pg_basebackup", "-R", "-X", "stream", "-c", "fast", "-d", primary.dsn(application_name="replica"))

    def promote(self) -> None:
        """Have it follow nobody any more, and take writes; it does when this returns."""
        self._run("pg_ctl", "promote", "-w")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``smart``, ``fast``, or ``immediate``, which is a crash that other processes survive."""
        self._run("pg_ctl", "stop", "-w", "-m", mode)

    def kill(self) -> None:
        """SIGKILL to all of its processes; returns when they are gone.

        A backend that waits for a lock of another one may never notice that the server is gone.
        """
        server = psutil.Process(self.pid)
        family = [server, *server.children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        gone, alive = psutil.wait_procs(family, timeout=_PATIENCE_SECONDS)
        assert not alive, (gone, alive)

    def close(self) -> None:
        """Stop it, if it runs, without waiting for clients."""
        if self.is_running:
            self.stop("immediate")

    def _own(self, *more: Path) -> None:
        """Make the directory and the log; they, and what else is named, belong to the server's user."""
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = self.data.with_suffix(".log")
        log.touch()
        if os.geteuid() == 0:
            for path in (self.data, log, *more):
                shutil.chown(path, "postgres", "postgres")

    def _init(self) -> None:
        secret = self.data.with_suffix(".pw")
        self.data.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text(PASSWORD)
        self._own(secret)
        self._run(
            "initdb", "-U", "postgres", "--auth=scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C.UTF-8"
        )
        secret.unlink()

    def _run(self, program: str, *arguments: str) -> None:
        root = os.geteuid() == 0  # as whom it refuses to run
        user = {"user": "postgres", "group": "postgres", "extra_groups": ()} if root else {}
        # Not captured: a pipe would stay open as long as the server runs.
        said = self.data.with_suffix(".log")
        with said.open("a") as log:
            command = [binaries() / program, "-D", self.data, *arguments]
            done = subprocess.run(
                command,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                **user,  # type: ignore[call-overload]
            )
        assert done.returncode == 0, said.read_text()
