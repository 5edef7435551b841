"""The choice of the database for the place of a history."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from coordinators.values.secret import Secret
from trident_py.errors import ConfigError, HistoryError
from trident_py.history.database import HistoryDatabase
from trident_py.history.sqlite import SQLiteHistory


class NoHistoryError(HistoryError):
    """No history of a topology or transaction was found at its place."""


def existing_history(place: Path | Secret | None) -> HistoryDatabase:
    """Return the history at ``place``, as in ``TridentConfig.history_place``, for reading.

    Raises:
        NoHistoryError: there is no history.
        ConfigError: psycopg isn't installed, or can't be loaded.
    """
    if place is None:
        raise NoHistoryError("history=None: nothing is kept")
    if isinstance(place, Path) and not place.is_file():
        raise NoHistoryError(f"there is no history in {place}")
    return history_at(place, reads=True)


def history_at(place: Path | Secret, *, reads: bool = False) -> HistoryDatabase:
    """Return the history at ``place``: a file, or a PostgreSQL database by its DSN. Nothing is opened yet.

    Raises:
        ConfigError: psycopg isn't installed, or can't be loaded.
    """
    if isinstance(place, Path):
        return SQLiteHistory(place, reads=reads)
    if find_spec("psycopg") is None:
        raise ConfigError(
            "a history in PostgreSQL needs psycopg, which isn't installed; `pip install 'trident-py[postgres]'`"
        )
    from trident_py.history.postgres import PostgresHistory  # a history in a file needs no psycopg

    return PostgresHistory(place, reads=reads)
