"""An open Delta table that notices that another table has taken its place.

deltalake reads the log on from the version that it has: where a table was removed and made anew, it would go on with
versions of the new one as if they followed. So each look compares the log's newest entry that was known with what is
there now.
"""

from __future__ import annotations

import hashlib
from typing import Self

from attrs import define, field
from deltalake import DeltaTable

from trident_py.sinks.delta.staging import Storage


class TableReplacedError(Exception):
    """Another table is where this one was."""


@define
class DeltaHandle:
    """A table, as it was when it was last looked at.

    Attributes:
        storage: where it is.
        table: as deltalake has it.
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
            TableNotFoundError: there is none.
        """
        return cls(storage, DeltaTable(storage.uri, storage_options=dict(storage.options)))

    def look(self) -> None:
        """See what was committed since.

        Raises:
            TableReplacedError: it is another table by now.
            TableNotFoundError: there is none.
        """
        version, entry = self._version, self._entry
        self.table.update_incremental()
        self._remember()
        if entry is None or self._entry_of(version) != entry:
            self._reopen(version)

    def _reopen(self, version: int) -> None:
        """Open the table anew, as what was known of its log is not there."""
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
        """Return what tells the log's entry of a version from another one; None: it is not there."""
        try:
            with self.storage.files().open_input_stream(log_entry(version)) as stream:
                return hashlib.sha256(stream.read()).digest()
        except FileNotFoundError:
            return None


def log_entry(version: int) -> str:
    """Return the path of the log's entry of a version, below the table."""
    return f"_delta_log/{version:020}.json"
