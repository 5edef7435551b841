"""The rows of a snapshot, kept in a Parquet file until they are committed."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import define, field, frozen

from trident_py.errors import SpoutError
from trident_py.sinks.files.local_path import sync

_SUFFIX, _UNFINISHED = ".parquet", ".unfinished"
_BLOCK = 1 << 20


@frozen
class Spool:
    """A directory with the files of one spout.

    Attributes:
        prefix: of the names of its files.
    """

    directory: Path
    prefix: str

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        return self.directory / f"{name}{_SUFFIX}"

    def sweep(self, keep: str | None = None) -> None:
        """Delete all files, or all but that of the name ``keep``."""
        if not self.directory.is_dir():
            return
        for path in self.directory.iterdir():
            if path.name.startswith(self.prefix) and path.name != f"{keep}{_SUFFIX}":
                path.unlink(missing_ok=True)

    def check(self, name: str, digest: str) -> None:
        """Check that a file is there, as it was written.

        Raises:
            SpoutError: it isn't.
        """
        path = self.path(name)
        if not path.exists():
            raise SpoutError(
                f"the snapshot {path} is gone, and its rows are needed; to fix this: start the topology where that "
                f"directory is, restore the file, or `trident reset` this topology, which takes a new snapshot"
            )
        if _digest(path) != digest:
            raise SpoutError(
                f"the snapshot {path} is not as it was written; to fix this: restore the file, or `trident reset` this "
                f"topology, which takes a new snapshot"
            )

    def read(self, name: str, first: int, end: int) -> Iterator[pa.Table]:
        """Yield the rows from number ``first`` up to ``end``, without the latter."""
        try:
            file = pq.ParquetFile(self.path(name))
        except FileNotFoundError as error:
            raise SpoutError(f"the snapshot {self.path(name)} is gone, and its rows are needed again") from error
        with file:
            begin = 0
            for group in range(file.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                if begin < end and begin + size > first:
                    skipped = max(0, first - begin)
                    yield file.read_row_group(group).slice(skipped, min(end - begin, size) - skipped)
                begin += size


@define
class SpoolFile:
    """A file that is being written; it has its name when it is complete and durable."""

    spool: Spool
    name: str
    schema: pa.Schema
    rows: int = field(default=0, init=False)
    _writer: pq.ParquetWriter = field(init=False)
    _path: Path = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.spool.directory.mkdir(parents=True, exist_ok=True)
        self._path = self.spool.directory / f"{self.name}{_UNFINISHED}"
        self._writer = pq.ParquetWriter(self._path, self.schema)

    def write(self, rows: pa.Table) -> None:
        """Add rows, as a new group."""
        if rows.num_rows:
            self._writer.write_table(rows)
            self.rows += rows.num_rows

    def complete(self) -> str:
        """Make the file durable under its name; return its hash."""
        self._writer.close()
        sync(self._path)
        self._path.rename(self.spool.path(self.name))
        sync(self.spool.directory)
        return _digest(self.spool.path(self.name))


def _digest(path: Path) -> str:
    found = sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
