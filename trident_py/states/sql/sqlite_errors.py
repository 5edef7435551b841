"""What SQLite's errors mean to whoever runs a topology."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from trident_py.errors import StateError, StoreBusyException

WRITE_LOCK = 120
"""The byte of the wal-index that stands for the right to write."""

_PRIMARY = 0xFF  # the low byte of an extended error code
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_WRITABLE = "make the file and its directory writable"
_WAYS_OUT = {
    sqlite3.SQLITE_NOTADB: "it is not a SQLite database: give another path, or move the file away",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: restore it from a backup, or `trident reset` the topology",
    sqlite3.SQLITE_READONLY: _WRITABLE,
    sqlite3.SQLITE_CANTOPEN: _WRITABLE,
    sqlite3.SQLITE_PERM: _WRITABLE,
    sqlite3.SQLITE_FULL: "free some space and start again; nothing committed is lost",
    sqlite3.SQLITE_IOERR: "see to the disk and start again",
    sqlite3.SQLITE_CONSTRAINT: "a value is beyond 64 bits, or not of its field's type",
}


def writers_of(path: Path) -> list[tuple[int, str]]:
    """Return the processes that have the write lock of a database in WAL mode, and their programs, where Linux tells.

    The lock is on a byte of the file beside it: https://www.sqlite.org/walformat.html#wal_index_locking.
    """
    try:
        shared = os.stat(f"{path}-shm")
        lines = Path("/proc/locks").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    file = f"{os.major(shared.st_dev):02x}:{os.minor(shared.st_dev):02x}:{shared.st_ino}"
    pids = {int(pid) for pid, of, first, last in _written(lines) if of == file and _has(first, last)}
    return [(pid, _program(pid)) for pid in sorted(pids)]


def _written(lines: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Give process, file, first and last byte of each lock for writing that is held, of lines of ``/proc/locks``."""
    for line in lines:
        match line.split():
            case [_, "POSIX" | "OFDLCK", _, "WRITE", pid, file, first, last]:  # one that is waited for has an arrow
                yield pid, file, first, last


def _has(first: str, last: str) -> bool:
    return int(first) <= WRITE_LOCK and (last == "EOF" or int(last) >= WRITE_LOCK)


def _program(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""


def ensure_usable(path: Path, where: str) -> None:
    """Return if there is a database at ``path`` that we may write, or one can be made; nothing is changed.

    Raises:
        StateError: there isn't, and none can.
    """
    if not path.parent.is_dir():
        raise StateError(f"{where}: there is no directory {path.parent}; make it")
    unwritable = [str(place) for place in (path.parent, path) if place.exists() and not os.access(place, os.W_OK)]
    if unwritable:
        raise StateError(f"{where}: {' and '.join(unwritable)} can't be written; {_WRITABLE}")
    if path.exists():
        # A lock that somebody holds passes.
        with suppress(StoreBusyException), explained(where), _existing(path) as connection:
            connection.execute("PRAGMA schema_version")


def _existing(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True))


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Turn what SQLite raises into an error that names ``where``, the cause and the way out.

    Raises:
        StoreBusyException: another process holds the lock; the attempt may be replayed.
        StateError: anything else.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
        if code in _BUSY:
            raise StoreBusyException(f"{where}: another process keeps it locked: {error}") from error
        raise StateError(f"{where}: {error}; {_WAYS_OUT.get(code, 'nothing was committed')}") from error
    except OverflowError as error:
        raise StateError(f"{where}: a value is beyond 64 bits, where SQLite's integers end") from error
    except UnicodeEncodeError as error:
        raise StateError(f"{where}: {error.object!r} is not Unicode text") from error
