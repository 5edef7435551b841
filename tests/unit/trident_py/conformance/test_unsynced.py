"""No sync does anything where processes are killed by the hundred."""

from __future__ import annotations

import os

import pytest

from trident_py.conformance import children


def synced(descriptor: int) -> int:
    """0 if the kernel says that it has synced a pipe, which it can't."""
    try:
        os.fsync(descriptor)
    except OSError:
        return 1
    return 0


@pytest.mark.skipif(os.uname().machine not in children._SYNCS, reason="knows the calls of other machines")
def test_a_process_and_those_forked_from_it_sync_nothing_and_this_one_does() -> None:
    _, pipe = os.pipe()
    pid = os.fork()
    if pid == 0:
        children.sync_nothing()
        child = os.fork()
        os._exit(synced(pipe) if child == 0 else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert synced(pipe) == 1
