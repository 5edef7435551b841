"""Whether a process waits, and which ones work for it."""

from __future__ import annotations

import subprocess
import sys

from trident_py.conformance.children import is_asleep, with_descendants


def test_a_process_that_waits_is_asleep_and_one_that_computes_is_not() -> None:
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as waits,
        subprocess.Popen(
            [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
        ) as works,
    ):
        while not is_asleep(waits.pid):
            pass
        assert works.stdout is not None
        works.stdout.readline()
        assert not is_asleep(works.pid)
        works.kill()


def test_a_process_has_those_below_it_with_it() -> None:
    program = ["sh", "-c", "sh -c 'cat; :'; :"]  # in the foreground: what runs behind has no standard input
    with subprocess.Popen(program, stdin=subprocess.PIPE) as above:
        while len(found := list(with_descendants([above.pid]))) < 3:
            assert above.poll() is None
        assert found[0] == above.pid
