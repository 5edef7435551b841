"""The meaning of errors of a table's file system or object store, by their number, never by their text."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from trident_py.errors import SinkError, StoreBusyException
from trident_py.interfaces.verdict import unknown_errors

_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_PLACE = {errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR}
_FULL = {errno.EDQUOT, errno.ENOSPC}


def raise_store_error(error: OSError, who: str, uri: str) -> NoReturn:
    """Raise the error that follows from an error of the store of the table at ``uri``.

    Raises:
        SinkError: no retry can succeed.
        StoreBusyException: a retry may succeed.
    """
    cause = _with_number(error, uri)
    if cause.errno in _FORBIDDEN:
        raise SinkError(
            f"{who}: {uri!r} can't be written to: {cause}; to fix this: give the user that runs the topology, and "
            f"Spark's workers, the right to write there"
        ) from error
    if cause.errno in _NO_PLACE:
        raise SinkError(
            f"{who}: no table can be at {uri!r}: {cause}; to fix this: give the sink another place"
        ) from error
    if cause.errno in _FULL:
        raise StoreBusyException(
            f"{who}: no space is left for {uri!r}, and writing is retried: {cause}; to fix this: free some space there"
        ) from error
    if cause.errno is None:
        unknown_errors.came((type(cause).__name__, uri), f"{who}: {cause}")
    raise StoreBusyException(f"{who}: {uri!r} can't be reached, and the attempt is retried: {cause}") from error


@contextmanager
def store_errors(who: str, uri: str) -> Iterator[None]:
    """Convert errors of the block's store by `raise_store_error`."""
    try:
        yield
    except OSError as error:
        raise_store_error(error, who, uri)


def _with_number(error: OSError, uri: str) -> OSError:
    """Return an error with a number; if the library gave none, try to write to the disk to get one."""
    path = uri.removeprefix("file://")
    if error.errno is not None or not os.path.isabs(path):
        return error
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    log = os.path.join(path, "_delta_log")
    try:
        with tempfile.TemporaryFile(dir=log if os.path.isdir(log) else path) as file:
            file.write(b"\0" * 4096)
            file.flush()
    except OSError as found:
        return found
    return error
