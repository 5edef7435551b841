"""What SQLite's errors mean to whoever runs a topology."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.verdict import Verdict
from trident_py.states.sql.verdicts import ErrorTable

WRITE_LOCK = 120
"""The byte of the wal-index that stands for the right to write."""

BY_CLIENT = 0
"""What Python's module refuses itself."""

_PRIMARY = 0xFF  # the low byte of an extended error code
_WRITABLE = "make the file and its directory writable"
ERRORS = ErrorTable(
    verdicts={
        **dict.fromkeys(
            (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_NOMEM),
            Verdict.COMES_AGAIN,
        ),
        sqlite3.SQLITE_PROTOCOL: Verdict.COMES_AGAIN,
        sqlite3.SQLITE_SCHEMA: Verdict.NEVER,  # what a statement is answered that can't be read against a new schema
        **dict.fromkeys(
            (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE),
            Verdict.THIS_BATCH,
        ),
        **dict.fromkeys(
            (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN),
            Verdict.NEVER,
        ),
        **dict.fromkeys(
            (sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR), Verdict.NEVER
        ),
        **dict.fromkeys((sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_MISUSE), Verdict.NEVER),
        BY_CLIENT: Verdict.NEVER,
    },
    ways_out={
        sqlite3.SQLITE_NOTADB: "give another path, or move the file away, which is not a SQLite database",
        sqlite3.SQLITE_CORRUPT: "restore the file from a backup, as it is damaged, or `trident reset` the topology",
        sqlite3.SQLITE_READONLY: _WRITABLE,
        sqlite3.SQLITE_CANTOPEN: _WRITABLE,
        sqlite3.SQLITE_PERM: _WRITABLE,
        sqlite3.SQLITE_FULL: "free some space and start again; nothing committed is lost",
        sqlite3.SQLITE_IOERR: "see to the disk and start again",
        sqlite3.SQLITE_CONSTRAINT: "correct the value before it gets here, or change the constraint",
    },
)
"""By primary result code: https://www.sqlite.org/rescode.html."""


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
def explained(where: str, way_out: str = "") -> Iterator[None]:
    """Turn what SQLite raises into an error that names ``where``, the cause and the way out.

    Args:
        where: names the topology, the attempt and the table.
        way_out: what to do, in place of what is known of the code.

    Raises:
        StoreBusyException: another process holds the lock; the attempt may be replayed.
        FailedException: a value is refused.
        StateError: anything else.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", BY_CLIENT) & _PRIMARY
        is_locked = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        said = f"another process keeps it locked: {error}" if is_locked else str(error)
        raise ERRORS.error(where, said, [code], way_out) from error
    except OverflowError as error:
        said = "a value is beyond 64 bits, where SQLite's integers end"
        raise ERRORS.error(where, said, [sqlite3.SQLITE_CONSTRAINT], way_out) from error
    except UnicodeEncodeError as error:
        raise StateError(f"{where}: {error.object!r} is not Unicode text") from error
