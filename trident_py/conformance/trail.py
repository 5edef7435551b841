"""The lines that a call reaches, in a file in memory: it outlives the process that writes it, and needs no messages."""

from __future__ import annotations

import fcntl
import os
from typing import Self

from attrs import define, frozen


@frozen
class Fresh:
    """The call reached a line for the first time.

    Attributes:
        file: the file of the line.
        line: its number.
        dies: whether the process is killed there, because none was killed at this line before.
    """

    file: str
    line: int
    dies: bool


@define(eq=False)
class Trail:
    """The lines of one process's present call, in order. One process writes, and the maker of the trail reads.

    Attributes:
        descriptor: the descriptor of the file.
    """

    descriptor: int

    @classmethod
    def make(cls) -> Self:
        """Make an empty trail."""
        made = cls(os.memfd_create("trail"))
        fcntl.fcntl(made.descriptor, fcntl.F_SETFL, os.O_APPEND)
        return made

    def put(self, file: str, line: int, dies: bool) -> None:
        """Add a line; it is stored when this returns, even if the process is then killed."""
        os.write(self.descriptor, f"{line} {dies:d} {file}\0".encode())

    def clear(self) -> None:
        """Remove all lines, for the next call."""
        os.ftruncate(self.descriptor, 0)

    @property
    def length(self) -> int:
        """The length in bytes, which grows with each line."""
        return os.fstat(self.descriptor).st_size

    def lines(self) -> list[Fresh]:
        """Return the stored lines."""
        entries = os.pread(self.descriptor, self.length, 0).decode().split("\0")[:-1]
        parts = [each.split(" ", 2) for each in entries]
        return [Fresh(file, int(line), dies == "1") for line, dies, file in parts]

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)
