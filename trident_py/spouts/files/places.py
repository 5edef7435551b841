"""Places of files that are read as a whole, and the files there."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa
from attrs import field, frozen

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.files.paths import PathPattern, status_of

StoredFile = list[Json]
"""``[path, size, version]``, or ``[path, size, version, modified]`` if the version isn't a time."""


@frozen
class WholeFile:
    """A file as it was when it was defined.

    Attributes:
        path: its path or URL.
        size: in bytes.
        version: changes with its content: the modification time in nanoseconds, or the ETag of an object.
        modified: the modification time in nanoseconds.
    """

    path: str
    size: int
    version: int | str
    modified: int = field(eq=False)

    @classmethod
    def parse(cls, stored: Sequence[Json]) -> WholeFile:
        """Return the file with this form in a batch's metadata."""
        match stored:
            case [str() as path, int() as size, int() as modified]:
                return cls(path, size, modified, modified)
            case [str() as path, int() as size, str() as version, int() as modified]:
                return cls(path, size, version, modified)
        raise SpoutError(f"a batch of files is defined as {stored!r}, which this version cannot read")

    @property
    def stored(self) -> StoredFile:
        """The form in a batch's metadata."""
        return [self.path, *self.state]

    @property
    def state(self) -> StoredFile:
        """Its form without the path."""
        return [self.size, self.version, *([] if self.version == self.modified else [self.modified])]


class Place(ABC):
    """Where files are that are read as a whole."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The pattern of the files."""

    @abstractmethod
    def find(self) -> dict[str, WholeFile]:
        """Return the files by path.

        Raises:
            FailedException: the place can't be reached now.
            SpoutError: it can't be read.
        """

    @abstractmethod
    def open(self, file: WholeFile) -> pa.NativeFile:
        """Return the content of a file; close it.

        Raises:
            OSError: it can't be opened.
        """

    @abstractmethod
    def check(self, file: WholeFile) -> None:
        """Check that a file is as it was defined, unless reading it does.

        Raises:
            SpoutError: it has changed, or is gone.
        """


@frozen
class LocalFiles(Place):
    """The files of a pattern on disks."""

    pattern: PathPattern

    @property
    def text(self) -> str:
        return self.pattern.text

    def find(self) -> dict[str, WholeFile]:
        return {path: _local(path, status) for path, status in self.pattern.find().items()}

    def open(self, file: WholeFile) -> pa.NativeFile:
        return pa.OSFile(file.path)

    def check(self, file: WholeFile) -> None:
        status = status_of(file.path)
        if status is None:
            raise SpoutError(
                f"file {file.path!r} is gone, and a batch has its rows; to fix this: put it back, with its old time"
            )
        if _local(file.path, status) != file:
            raise changed(file)


def _local(path: str, status: os.stat_result) -> WholeFile:
    return WholeFile(path, status.st_size, status.st_mtime_ns, status.st_mtime_ns)


def changed(file: WholeFile) -> SpoutError:
    """Return the error for a file that was changed after it was defined."""
    return SpoutError(
        f"file {file.path!r} was changed after a batch was defined with its {file.size} bytes; to fix this: restore it "
        f"with its old time, and give changed data a new name"
    )
