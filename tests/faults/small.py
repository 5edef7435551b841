"""A file system that is soon full."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen


@frozen
class SmallDisk:
    """Where it is."""

    path: Path

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"

    def fill(self) -> None:
        """Leave no room."""
        with self._ballast.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 10):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def clear(self) -> None:
        """Give the room back."""
        self._ballast.unlink()


@contextmanager
def small_disk(path: Path, *, megabytes: int) -> Iterator[SmallDisk]:
    """One in memory, mounted here; any user may write to it."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)], check=True, timeout=10)
    path.chmod(0o777)
    try:
        yield SmallDisk(path)
    finally:
        # Lazily: who was killed a moment ago may still have a file open.
        subprocess.run(["umount", "-l", str(path)], check=True, timeout=10)
        os.rmdir(path)
