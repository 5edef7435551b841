"""What a driver process tells about itself: one line of JSON an event, appended, so that a SIGKILL loses none."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, TypeAlias

from attrs import define, field

Event: TypeAlias = dict[str, Any]
"""Has ``kind``, ``topology``, ``pid`` and ``at``, by the monotonic clock that all processes of a machine share."""


@define(eq=False)
class Journal:
    """The writing end; any thread may tell."""

    path: Path
    topology: str = ""
    _file: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def tell(self, kind: str, **what: Any) -> None:
        """Append an event."""
        event = {"kind": kind, "topology": self.topology, "pid": os.getpid(), "at": time.monotonic(), **what}
        os.write(self._file, (json.dumps(event) + "\n").encode())


def read(path: Path) -> list[Event]:
    """All that was told so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
