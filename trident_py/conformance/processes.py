"""What other processes do just now, as Linux tells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path


def is_asleep(pid: int, thread: int | None = None) -> bool:
    """Whether no thread of a process, or that one, runs or wants to, however busy the machine is.

    One that is gone never does.
    """
    try:
        stats = Path(f"/proc/{pid}/task").glob(f"{thread or '*'}/stat")
        return all(stat.read_text().rpartition(")")[2].split()[0] in "SZ" for stat in stats)
    except (OSError, IndexError):
        return False


def with_descendants(pids: Iterable[int]) -> Iterator[int]:
    """These processes and all that they, or those, have started and that are there."""
    for pid in pids:
        yield pid
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                below = [int(each) for each in task.read_text().split()]
            except OSError:
                continue
            yield from with_descendants(below)
