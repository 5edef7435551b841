"""Supervisor of one server, which runs as long as it has users: a small process that needs only the standard library.

    supervisor.py DATA_LOCK_FD DIRECTORY COMMAND…

It starts COMMAND and passes it the lock on the data. So no second server can start there while this one lives, however
this process ends. It writes the server's pid to ``server.pid``, and ends with the server. When it obtains the exclusive
lock on ``users``, no user is left, and it stops the server. A file ``stay`` delays that until it is removed.

`coordinators.backends.zookeeper.embedded` starts it, detached from its own process. So it must not import the package.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

STOP_SECONDS_MAX = 5.0
STAY_POLL_SECONDS = 1.0


def main() -> int:
    """Start the server and wait for its end; return its exit status."""
    data_lock, directory, command = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    alive = os.open(directory / "supervisor", os.O_RDWR | os.O_CREAT)
    fcntl.flock(alive, fcntl.LOCK_EX)
    server = subprocess.Popen(command, pass_fds=[data_lock])  # noqa: S603  the command is embedded.py's
    os.close(data_lock)
    temporary = directory / "server.pid.new"
    temporary.write_text(str(server.pid))
    temporary.replace(directory / "server.pid")
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    threading.Thread(target=_stop_when_unused, args=(server, directory), daemon=True).start()
    return server.wait()


def _stop_when_unused(server: subprocess.Popen[bytes], directory: Path) -> None:
    users = os.open(directory / "users", os.O_RDWR | os.O_CREAT)
    fcntl.flock(users, fcntl.LOCK_EX)
    while (directory / "stay").exists():
        fcntl.flock(users, fcntl.LOCK_UN)
        time.sleep(STAY_POLL_SECONDS)
        fcntl.flock(users, fcntl.LOCK_EX)
    # still locked: a new user waits until this process is gone, and starts a new server
    server.terminate()
    time.sleep(STOP_SECONDS_MAX)
    server.kill()


if __name__ == "__main__":
    sys.exit(main())
