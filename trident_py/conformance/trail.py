"""The lines that a call comes to, in a file in memory: it outlives the process that writes it, and costs no message."""

from __future__ import annotations

import fcntl
import os
from typing import Self

from attrs import define, frozen


@frozen
class Fresh:
    """The call came to a line for the first time.

    Attributes:
        file: whose.
        line: which.
        dies: whether nobody was killed there before, so that this process is.
    """

    file: str
    line: int
    dies: bool


@define(eq=False)
class Trail:
    """The lines of one process's present call, in order. One process writes them, the one that it was made in reads.

    Attributes:
        descriptor: of the file.
    """

    descriptor: int

    @classmethod
    def make(cls) -> Self:
        """An empty one."""
        made = cls(os.memfd_create("trail"))
        fcntl.fcntl(made.descriptor, fcntl.F_SETFL, os.O_APPEND)
        return made

    def put(self, file: str, line: int, dies: bool) -> None:
        """Add a line; it is there once this returns, whatever becomes of the process."""
        os.write(self.descriptor, f"{line} {dies:d} {file}\0".encode())

    def clear(self) -> None:
        """Forget all, for the next call."""
        os.ftruncate(self.descriptor, 0)

    @property
    def length(self) -> int:
        """Grows with each line."""
        return os.fstat(self.descriptor).st_size

    def lines(self) -> list[Fresh]:
        """What is there."""
        entries = os.pread(self.descriptor, self.length, 0).decode().split("\0")[:-1]
        parts = [each.split(" ", 2) for each in entries]
        return [Fresh(file, int(line), dies == "1") for line, dies, file in parts]

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.descriptor)
