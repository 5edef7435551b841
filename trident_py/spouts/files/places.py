"""Places of files that are read as a whole, and the files there."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

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
        return [self.path, self.size, self.version, *([] if self.version == self.modified else [self.modified])]

    @property
    def mark(self) -> str:
        """Size and version, for the inventory."""
        return f"{self.size} {self.version}"


class Place(ABC):
    """Where files are that are read as a whole."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The pattern of the files."""

    @abstractmethod
    def find(self, after: str = "") -> Iterator[WholeFile]:
        """Yield the files with a path greater than ``after``; objects in the order of their names, if the store can.

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

    def find(self, after: str = "") -> Iterator[WholeFile]:
        return (_local(path, status) for path, status in self.pattern.find().items() if path > after)

    def open(self, file: WholeFile) -> pa.NativeFile:
        return pa.OSFile(file.path)

    def check(self, file: WholeFile) -> None:
        status = status_of(file.path)
        if status is None:
            raise SpoutError(
                f"file {file.path!r} is gone, and a batch has its rows; to fix this: put it back, with its old time"
            )
        if _local(file.path, status) != file:
            raise changed(file.path, file.mark)


def _local(path: str, status: os.stat_result) -> WholeFile:
    return WholeFile(path, status.st_size, status.st_mtime_ns, status.st_mtime_ns)


def changed(path: str, mark: str) -> SpoutError:
    """Return the error for a file that was changed after a batch was defined with it.

    Args:
        path: of the file.
        mark: its `WholeFile.mark` at that time.
    """
    return SpoutError(
        f"file {path!r} was changed after a batch was defined with its {mark.partition(' ')[0]} bytes; to fix this: "
        f"restore it with its old time, and give changed data a new name"
    )
