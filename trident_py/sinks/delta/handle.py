"""An open Delta table that detects its replacement by another table.

deltalake continues to read the log after the version that it has. If a table was removed and made again, it would read
the new table's versions as if they followed. So each look compares the newest log entry that was read with the entry
that is there now.
"""

from __future__ import annotations

import hashlib
from typing import Self

from attrs import define, field
from deltalake import DeltaTable

from trident_py.sinks.delta.staging import Storage


class TableReplacedError(Exception):
    """Another table has replaced this one."""


@define
class DeltaHandle:
    """A table, as of the last look.

    Attributes:
        storage: the place of the table.
        table: deltalake's table.
    """

    storage: Storage
    table: DeltaTable
    _version: int = field(init=False)
    _entry: bytes | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._remember()

    @classmethod
    def open(cls, storage: Storage) -> Self:
        """Open a table.

        Raises:
            TableNotFoundError: it does not exist.
        """
        return cls(storage, DeltaTable(storage.uri, storage_options=dict(storage.options)))

    def look(self) -> None:
        """Read the commits since the last look.

        Raises:
            TableReplacedError: another table has replaced it.
            TableNotFoundError: it does not exist.
        """
        version, entry = self._version, self._entry
        self.table.update_incremental()
        self._remember()
        if entry is None or self._entry_of(version) != entry:
            self._reopen(version)

    def _reopen(self, version: int) -> None:
        """Open the table again, because the known part of its log is not there."""
        found = DeltaTable(self.storage.uri, storage_options=dict(self.storage.options))
        before, now = self.table.metadata().id, found.metadata().id
        if now != before or found.version() < version:
            raise TableReplacedError(
                f"it was at version {version} of the table with the id {before}, and is at version {found.version()} "
                f"of {now}"
            )
        self.table = found
        self._remember()

    def _remember(self) -> None:
        self._version = self.table.version()
        self._entry = self._entry_of(self._version)

    def _entry_of(self, version: int) -> bytes | None:
        """Return a checksum of the log's entry of a version; None: there is no such entry."""
        try:
            with self.storage.files().open_input_stream(log_entry(version)) as stream:
                return hashlib.sha256(stream.read()).digest()
        except FileNotFoundError:
            return None


def log_entry(version: int) -> str:
    """Return the path of the log's entry of a version, relative to the table."""
    return f"_delta_log/{version:020}.json"
