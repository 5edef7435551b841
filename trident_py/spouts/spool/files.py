"""The files of a spool: what it needs of a file system, and a directory that does it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from attrs import define, field

from trident_py.sinks.files.local_path import make_directory, sync


class SpoolFiles(Protocol):
    """Files that appear whole, of which some grow. Every method may raise an `OSError`."""

    @property
    def place(self) -> str:
        """Where they are, for people."""
        ...

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        ...

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        """Return a part of a file, less if the file ends before.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def write_new(self, name: str, data: bytes) -> bool:
        """Make a file with this content, on the disk before its name appears; return False if there is one already."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Append to a file; return when the data are on the disk."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def close(self) -> None:
        """Release resources; files may still be read."""
        ...


@define
class SpoolDirectory:
    """`SpoolFiles` in a directory, which is made when the first file is."""

    path: Path
    _growing: tuple[str, int] | None = field(default=None, init=False)  # the file that was appended to last, as open

    @property
    def place(self) -> str:
        """The path."""
        return str(self.path)

    def names(self) -> list[str]:
        """Return the names of all finished files."""
        with suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self.path) if not name.startswith("."))
        return []

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        with (self.path / name).open("rb") as file:
            file.seek(begin)
            return file.read() if end is None else file.read(end - begin)

    def write_new(self, name: str, data: bytes) -> bool:
        make_directory(self.path)
        draft = self.path / f".{name}-{secrets.token_hex(8)}"
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, self.path / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        sync(self.path)
        return True

    def append(self, name: str, data: bytes) -> None:
        descriptor = self._opened(name)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)

    def _opened(self, name: str) -> int:
        if self._growing is None or self._growing[0] != name:
            self.close()
            self._growing = name, os.open(self.path / name, os.O_WRONLY | os.O_APPEND)
        return self._growing[1]

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
        if self._growing is not None:
            os.close(self._growing[1])
            self._growing = None
