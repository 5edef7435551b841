"""A real PgBouncer in front of a PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from attrs import define, field

from tests.servers.ports import free_port, is_answering
from tests.servers.postgresql import PASSWORD, NoServerError, PostgresServer


def missing() -> str | None:
    """What this machine lacks for it; None if nothing."""
    return None if _program() else "PgBouncer is not installed (Debian and Ubuntu: apt-get install pgbouncer)"


def _program() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


@define
class PgBouncer:
    """One, on a port of its own.

    Attributes:
        directory: where its settings and its log are; its user must be able to get there.
        server: what it is in front of.
        mode: when a client gives its server connection back: ``session``, ``transaction`` or ``statement``.
        address: where it answers.
        options: settings, as ``{"default_pool_size": "2"}``.
    """

    directory: Path
    server: PostgresServer
    mode: str
    address: str = "127.0.0.1"
    options: dict[str, str] = field(factory=dict)
    port: int = field(factory=free_port)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it; it answers when this returns.

        Raises:
            NoServerError: it is not installed.
        """
        program = _program()
        if program is None:
            raise NoServerError(missing())
        root = os.geteuid() == 0  # as whom it refuses to run
        user = {"user": "postgres", "group": "postgres", "extra_groups": ()} if root else {}
        settings = self._settings()
        with (self.directory / "pgbouncer.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                **user,  # type: ignore[call-overload]
            )
        self._await_answer()

    def stop(self) -> None:
        """End it, and with it every connection through it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def dsn(self, dbname: str = "postgres") -> str:
        """How to connect through it."""
        return self.server.dsn(dbname, host=self.address, port=str(self.port))

    def _settings(self) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        users, settings = self.directory / "users.txt", self.directory / "pgbouncer.ini"
        users.write_text(f'"postgres" "{PASSWORD}"\n')
        given = {
            "listen_addr": self.address,
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": str(users),
            "pool_mode": self.mode,
            **self.options,
        }
        lines = [f"{name} = {value}" for name, value in given.items()]
        target = f"* = host=127.0.0.1 port={self.server.port}"
        settings.write_text("\n".join(["[databases]", target, "[pgbouncer]", *lines, ""]))
        return settings

    def _await_answer(self) -> None:
        assert self._process is not None
        while not is_answering(self.address, self.port):
            assert self._process.poll() is None, (self.directory / "pgbouncer.log").read_text()
