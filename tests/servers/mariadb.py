"""A real MariaDB (or MySQL) server for tests: started, stopped and killed as a test wants it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymysql
from attrs import define, field

from tests.servers.ports import free_port
from tests.servers.postgresql import NoServerError
from tests.servers.process import ServerProcess

PASSWORD = "canary-S3cret%/@\u00fc"  # noqa: S105 - to be looked for in what is printed
USER = "trident"
_PATHS = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_PATIENCE_SECONDS = 60


def program(*names: str) -> str:
    """The path of the first of these programs that is installed.

    Raises:
        NoServerError: none is.
    """
    for name in names:
        if found := shutil.which(name, path=_PATHS):
            return found
    raise NoServerError("MariaDB is not installed (Debian and Ubuntu: apt-get install mariadb-server)")


@define
class MariaDBServer(ServerProcess):
    """One server, on a port of its own of the loopback interface; its data survive `stop` and `kill`.

    Attributes:
        data: its data directory.
        options: settings, as ``{"max_connections": "20"}``.
    """

    data: Path
    options: dict[str, str] = field(factory=dict)
    port: int = 0

    def url(self, database: str = "test") -> str:
        """How `MySQLState` connects, password and all."""
        return f"mysql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str | None = None) -> Any:
        """A client."""
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD.encode(), database=database, autocommit=True
        )

    def run(self, *statements: str, database: str | None = None) -> list[Any]:
        """What the last of these statements gives another client."""
        client = self.connect(database)
        try:
            with client.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            client.close()

    def start(self) -> None:
        """Start it, and make its data where there are none; it answers when this returns."""
        server = program("mariadbd", "mysqld")
        self.data.parent.mkdir(parents=True, exist_ok=True)
        if not self.data.exists():
            self._init()
        self.port = self.port or free_port()
        user = [f"--user={_user()}"] if os.geteuid() == 0 else []
        settings = [f"--{name.replace('_', '-')}={value}" for name, value in self.options.items()]
        with self.data.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    server,
                    "--no-defaults",
                    *user,
                    f"--datadir={self.data}",
                    f"--tmpdir={self.data}",  # the server's user may not get into the system's
                    f"--port={self.port}",
                    "--bind-address=127.0.0.1",
                    f"--socket={self.data}/s",
                    f"--pid-file={self.data}/pid",
                    "--innodb-buffer-pool-size=32M",
                    *settings,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        self._await_answer()

    def _await_answer(self) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                self.connect().close()
            except pymysql.MySQLError as error:
                said = f"{error} {self.data.with_suffix('.log').read_text()}"
                gone = self.process is None or self.process.poll() is not None
                assert not gone, said
                assert time.monotonic() < deadline, said
                time.sleep(0.1)
            else:
                return

    def _init(self) -> None:
        install = program("mariadb-install-db", "mysql_install_db")
        self.data.mkdir(mode=0o755)
        root = os.geteuid() == 0
        if root:
            shutil.chown(self.data, _user())
        more = [f"--user={_user()}"] if root else []
        command = [
            install,
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={self.data}",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
        ]
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr
        secret = PASSWORD.replace("'", "''")
        accounts = (
            f"CREATE USER {USER}@'%' IDENTIFIED BY '{secret}';\n"
            f"GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;\nDELETE FROM mysql.global_priv WHERE User = '';\n"
            "FLUSH PRIVILEGES;\n"
        )
        server = program("mariadbd", "mysqld")
        made = subprocess.run(
            [
                server,
                "--no-defaults",
                *more,
                f"--datadir={self.data}",
                f"--tmpdir={self.data}",
                "--bootstrap",
                "--innodb-buffer-pool-size=8M",
            ],
            input="FLUSH PRIVILEGES;\n" + accounts,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        assert made.returncode == 0, made.stdout + made.stderr


def _user() -> str:
    """As whom the server runs where root starts it."""
    return "mysql"
