"""Which paths a `FileSink` can write to."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trident_py.errors import TopologyError
from trident_py.rows.schema import shown

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_path(path: str | os.PathLike[str]) -> Path:
    """Make an absolute path, as seen from the current directory, on a file system that this machine has mounted.

    Args:
        path: a path, or a URL that begins with ``file:/``.

    Raises:
        TopologyError: it is none, or another kind of URL.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    if isinstance(text, str) and _URL.match(text):
        text = _path_of(text)
    if not isinstance(text, str) or not text or "\0" in text:
        raise TopologyError(f"a path is a string or a Path that is not empty, not {shown(path)}")
    absolute = Path(os.path.abspath(text))
    if absolute == absolute.parent:
        raise TopologyError(f"{text!r} has no directory above it, where transactions are staged; give a path below it")
    return absolute


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        raise TopologyError(
            f"{url!r} is on no file system that is mounted here: a transaction becomes visible by the atomic rename "
            f"of a directory, which object stores lack; give a local path, or file:/…, that all machines share"
        )
    return unquote(parts.path)
