"""Signals to all processes of a driver, as service managers, `timeout` and terminals send them."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
