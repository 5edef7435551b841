"""The files that a pattern matches, searched again at each call."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from pathlib import Path

from attrs import frozen

from trident_py.errors import SpoutError, TopologyError
from trident_py.rows.schema import shown
from trident_py.spouts.files.content import check_reached

_MAGIC = re.compile(r"[*?[]")
_ANY_DEPTH = "**"


@frozen
class PathPattern:
    """An absolute path with wildcards: ``*``, ``?`` and ``[…]`` within a name, ``**`` for directories of any depth.

    As in `glob`, names that begin with a dot match only a pattern that does. Unlike in `glob`, ``**`` doesn't follow
    symbolic links, so that the search ends, and a directory that can't be read is an error.

    Attributes:
        text: its text in messages.
        base: the directory before the first wildcard.
        parts: the names and patterns below it.
    """

    text: str
    base: Path
    parts: tuple[str, ...]

    @classmethod
    def of(cls, pattern: str | os.PathLike[str]) -> PathPattern:
        """Return the pattern, relative to the current directory.

        Raises:
            TopologyError: it is not a pattern of a local path.
        """
        text = os.fspath(pattern) if isinstance(pattern, str | os.PathLike) else ""
        if not text or "\0" in text or "://" in text:
            raise TopologyError(f"{shown(pattern)} is not a pattern of local files, such as 'logs/*.txt'")
        absolute = Path(os.path.abspath(text))
        names = absolute.parts[1:]
        literal = next((number for number, name in enumerate(names) if has_magic(name)), len(names) - 1)
        parts = [name for number, name in enumerate(names) if number >= literal]
        if parts[-1:] == [_ANY_DEPTH]:
            parts.append("*")
        return cls(str(absolute), Path(absolute.anchor, *names[:literal]), tuple(parts))

    def check(self) -> None:
        """Check that the directory of the pattern exists.

        Raises:
            SpoutError: the directory before the first wildcard doesn't exist, or the pattern is a directory.
        """
        if not self.base.is_dir():
            raise SpoutError(
                f"there is no directory {str(self.base)!r}, where {self.text!r} is searched; to fix this: make it"
            )
        if os.path.isdir(self.text):
            raise SpoutError(
                f"{self.text!r} is a directory; to fix this: for the files in it write {os.path.join(self.text, '*')!r}"
            )

    def matches(self, path: str) -> bool:
        """Return whether `find` would find an existing file with this path."""
        below = Path(path)
        return below.is_relative_to(self.base) and fits(below.relative_to(self.base).parts, self.parts)

    def find(self) -> dict[str, os.stat_result]:
        """Return every regular file, with its status; links to files are files.

        Raises:
            SpoutError: a directory can't be read, or a name is not UTF-8.
        """
        found: dict[str, os.stat_result] = {}
        for path in _walk(str(self.base), self.parts):
            if not path.isascii():
                _check_name(path)
            status = status_of(path)
            if status and stat.S_ISREG(status.st_mode):
                found[path] = status
        return found


def has_magic(name: str) -> bool:
    """Return whether a name has wildcards."""
    return _MAGIC.search(name) is not None


def _walk(directory: str, parts: Sequence[str]) -> Iterator[str]:
    if not parts:
        return
    head, rest = parts[0], parts[1:]
    if head == _ANY_DEPTH:
        below = (e.path for e in _entries(directory) if e.name[0] != "." and e.is_dir(follow_symlinks=False))
        yield from _walk(directory, rest)
        for path in below:
            yield from _walk(path, parts)
        return
    paths = _matching(directory, head) if has_magic(head) else [os.path.join(directory, head)]
    if not rest:
        yield from paths
        return
    for path in paths:
        yield from _walk(path, rest)


def fits(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether the names of a path match the names and patterns of a `PathPattern`."""
    if not (names and parts):
        return not (names or parts)
    if parts[0] == _ANY_DEPTH:
        return fits(names, parts[1:]) or (names[0][0] != "." and fits(names[1:], parts))
    return _name_matcher(parts[0])(names[0]) and fits(names[1:], parts[1:])


def _matching(directory: str, pattern: str) -> Sequence[str]:
    matches = _name_matcher(pattern)
    return [e.path for e in _entries(directory) if matches(e.name)]


def _name_matcher(pattern: str) -> Callable[[str], bool]:
    match = re.compile(translate(pattern)).match
    hidden_too = pattern.startswith(".")
    # A name that stands there as it is written, brackets and all, is meant as well.
    return lambda name: name == pattern or (match(name) is not None and (hidden_too or name[0] != "."))


def _entries(directory: str) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        check_reached(directory, error)
        raise SpoutError(
            f"directory {directory!r} cannot be read: {error.strerror}; to fix this: make it readable"
        ) from error


def status_of(path: str) -> os.stat_result | None:
    """Return the status of a file, with size and times; None: it does not exist.

    Raises:
        SpoutError: its status can't be read.
    """
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # gone since, or a link that leads nowhere
            return None
        check_reached(path, error)
        raise SpoutError(
            f"file {path!r} has no readable status: {error.strerror}; to fix this: make it readable"
        ) from error


def _check_name(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise SpoutError(f"the name of file {os.fsencode(path)!r} is not UTF-8; to fix this: rename it") from error
