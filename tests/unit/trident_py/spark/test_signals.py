"""What happens to a process that PySpark starts, by signals and by Ctrl-C; `sleep` stands for the JVM."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[4]
START = """
import signal, subprocess, sys
from trident_py.spark.session import jvm_shielded

def started():
    # as PySpark does
    return subprocess.Popen(["sleep", "600"], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))

handler = signal.getsignal(signal.SIGINT)
with jvm_shielded():
    jvm = started()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    print(jvm.pid, end=" ", flush=True)
    {then}
assert signal.getsignal(signal.SIGINT) is handler
other = started()
print(other.pid, flush=True)
"""


def started(then: str) -> list[int]:
    """Run the program to its end, and return the ids of what it has started."""
    command = [sys.executable, "-c", START.format(then=then)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        process.wait()
        return [*map(int, process.stdout.readline().split())]


def test_sigterm_does_not_end_what_is_started_inside_and_later_processes_are_as_before() -> None:
    shielded, other = map(psutil.Process, started("pass"))
    shielded.send_signal(signal.SIGTERM)
    other.send_signal(signal.SIGTERM)
    assert psutil.wait_procs([other], 30)[1] == []
    assert shielded.is_running()
    shielded.kill()


def test_what_ctrl_c_interrupts_in_its_start_does_not_stay() -> None:
    [shielded] = started("raise KeyboardInterrupt")
    while psutil.pid_exists(shielded):
        pass
