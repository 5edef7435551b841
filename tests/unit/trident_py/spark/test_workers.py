"""What becomes of a Python worker; each test has a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
SETTLED = """
import gc, os, socket, sys
from trident_py.spark.counting import Settling
assert list(Settling(lambda batches: (batch + 1 for batch in batches))(iter([1, 2]))) == [2, 3]
ours, theirs = socket.socketpair()
theirs.close()
def flush():
    with os.fdopen(os.dup(ours.fileno()), "wb") as file:
        file.write(b"x")
        try:
            file.flush()
        except OSError:
            os.environ.get("X")
            raise
def worker():
    flush()
"""


def ran(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SETTLED + program]
    return subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=60, check=False)


def called_by(file: str) -> str:
    return f"worker.__code__ = worker.__code__.replace(co_filename={file!r})\nworker()"


def test_a_worker_whose_connection_was_closed_ends_without_a_word() -> None:
    done = ran(called_by("/lib/pyspark.zip/pyspark/daemon.py"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_users_broken_pipe_is_an_error_as_ever() -> None:
    done = ran(called_by("/lib/pyspark.zip/pyspark/worker.py"))
    assert done.returncode == 1
    assert "BrokenPipeError" in done.stderr


def test_what_a_worker_has_imported_is_not_gone_through_again() -> None:
    done = ran("print(gc.get_freeze_count() > 10_000, len(gc.get_objects()) < 10_000)")
    assert done.stdout.split() == ["True", "True"], done.stderr
