"""A table of an open format, as a sink uses it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from trident_py.sinks.tables.staging import StagedFile, TableStorage
from trident_py.sinks.token import TableToken


class Conflict(Exception):
    """Another program has committed a conflicting change since the last look: look again."""


class SinkTable(ABC):
    """The table, as of the last look."""

    @property
    @abstractmethod
    def files(self) -> TableStorage:
        """The storage of its files."""

    @abstractmethod
    def look(self) -> None:
        """Read the commits since the last look."""

    @abstractmethod
    def token(self, uuid: str) -> TableToken | None:
        """Return the token of a topology; None: it has no token here.

        Raises:
            SinkError: the commit of the token was removed from the table.
        """

    @property
    @abstractmethod
    def paths(self) -> list[str]:
        """The files of the table that are below `files`."""

    @abstractmethod
    def rows_of(self, paths: Sequence[str]) -> int:
        """Return the number of rows in those of its files that are in ``paths``."""

    @abstractmethod
    def commit(self, uuid: str, token: TableToken, staged: Sequence[StagedFile], removed: Sequence[str] = ()) -> None:
        """Add files, remove others, and write the token, in one step, if no token was written since the last look.

        Raises:
            Conflict: a token was written, or another commit conflicts with this one.
            OSError: the store doesn't answer; the commit may have been made.
            FileNotFoundError: a staged file is gone.
        """
