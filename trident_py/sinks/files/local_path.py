"""Paths that a `FileSink` can write to, and durable operations on them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trident_py.errors import TopologyError
from trident_py.rows.schema import shown


def sync(path: Path) -> None:
    """Flush the content of a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """Flush a directory and everything below it to the disk."""
    for parent, _, files in os.walk(directory):
        for name in files:
            sync(Path(parent, name))
        sync(Path(parent))


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents, durably."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def move(files: Iterable[Path], source: Path, target: Path) -> None:
    """Rename files below ``source`` to the same relative paths below ``target``, which is made."""
    make_directory(target)
    for file in files:
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.rename(place)


OBJECT_SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""The schemes of URLs of object stores."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return an absolute path, relative to the current directory, on a file system that this machine has mounted.

    Args:
        path: a path, or a URL that begins with ``file:/``.

    Raises:
        TopologyError: it is not a path, or is another kind of URL.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    if isinstance(text, str) and _URL.match(text):
        text = _path_of(text)
    if not isinstance(text, str) or not text or "\0" in text:
        raise TopologyError(f"a path is a string or a Path that is not empty, not {shown(path)}")
    absolute = Path(os.path.abspath(text))
    if absolute == absolute.parent:
        raise TopologyError(
            f"{text!r} has no parent directory, where transactions are staged; to fix this: give a path below it"
        )
    return absolute


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        raise TopologyError(
            f"{url!r} is on no file system that is mounted here; to fix this: give a local path, or file:/…, that all "
            f"machines share"
        )
    return unquote(parts.path)
