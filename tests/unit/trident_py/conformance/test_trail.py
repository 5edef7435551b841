"""What a process leaves on its trail is there when it is gone."""

from __future__ import annotations

import os
import signal
from contextlib import closing

from trident_py.conformance.trail import Fresh, Trail


def test_lines_outlive_the_process_that_came_to_them() -> None:
    with closing(Trail.make()) as trail:
        pid = os.fork()
        if pid == 0:
            trail.put("/a b/sink.py", 7, dies=False)
            trail.put("/a b/sink.py", 8, dies=True)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        assert trail.lines() == [Fresh("/a b/sink.py", 7, dies=False), Fresh("/a b/sink.py", 8, dies=True)]


def test_each_call_begins_with_an_empty_one() -> None:
    with closing(Trail.make()) as trail:
        trail.put("sink.py", 7, dies=False)
        assert trail.length > 0
        trail.clear()
        assert (trail.length, trail.lines()) == (0, [])
        trail.put("sink.py", 8, dies=False)
        assert trail.lines() == [Fresh("sink.py", 8, dies=False)]
