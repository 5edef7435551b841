"""What of a child's standard error passes."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, subprocess, sys
from trident_py.cli.jvm_noise import NOISE, filtered
before = os.fstat(2)
try:
    with filtered():
        child = "import os; [os.write(2, piece) for piece in (b'one WARN', b'two WARNING: Using', b' incubator modules'"
        child += ", b': jdk.incubator.vector\\\\nthree\\\\n', b'W')]"
        subprocess.run([sys.executable, "-c", child], check=True)
        raise KeyError
except KeyError:
    os.write(2, b"|own" if os.fstat(2) == before else b"|not put back")
"""


def test_the_warning_of_incubator_modules_is_left_out_wherever_a_write_cuts_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert done.stderr == b"one WARNtwo three\nW|own"
