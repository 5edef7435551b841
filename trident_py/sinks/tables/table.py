"""A table of an open format, as a sink uses it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from trident_py.sinks.tables.staging import StagedFile, TableStorage
from trident_py.sinks.token import TableToken


class Conflict(Exception):
    """Somebody has committed meanwhile what this commit would have to know: look again."""


class SinkTable(ABC):
    """The table, as it was when it was last looked at."""

    @property
    @abstractmethod
    def files(self) -> TableStorage:
        """Where its files are."""

    @abstractmethod
    def look(self) -> None:
        """See what was committed since."""

    @abstractmethod
    def token(self, uuid: str) -> TableToken | None:
        """Return what it knows of a topology; None: that one was never here.

        Raises:
            SinkError: what the token says is there was taken away.
        """

    @property
    @abstractmethod
    def paths(self) -> list[str]:
        """The files that it consists of and that are below `files`."""

    @abstractmethod
    def rows_of(self, paths: Sequence[str]) -> int:
        """Count the rows that these files of it have."""

    @abstractmethod
    def commit(self, uuid: str, token: TableToken, staged: Sequence[StagedFile], removed: Sequence[str] = ()) -> None:
        """Add files, remove others, and write the token, in one step, if nobody has written a token since the look.

        Raises:
            Conflict: somebody has, or something else has changed that matters.
            OSError: nobody answers; it may have been committed.
            FileNotFoundError: a staged file is gone.
        """
