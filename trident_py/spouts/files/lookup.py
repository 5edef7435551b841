"""Finding a file again by what it contains, wherever in its directory it is now."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

from trident_py.errors import SpoutError
from trident_py.spouts.files.content import UNREADABLE, Content, check_reached, open_content
from trident_py.spouts.files.identity import Hint, Identity


def open_same(path: str, identity: Identity | None) -> Content:
    """Return the content of the file that had this path when it was identified, under whatever name of its directory.

    Raises:
        SpoutError: no file there has what it had.
        OSError: it isn't identified, and can't be opened.
    """
    if identity is None:
        return open_content(path)
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return open_content(path)  # which says why it can't be read
    for name in _names(path, identity.hint):
        if content := _opened_if_same(name, identity):
            return content
    raise SpoutError(
        f"neither file {path!r} nor another one of its directory begins with the {identity.length} bytes that were "
        f"there when its batch was defined: it was cut, replaced or taken away; put it back, under this or "
        f"another name of that directory"
    )


def beside(path: str) -> Iterator[os.DirEntry[str]]:
    """Give the other regular files of the directory, as far as it can be listed."""
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            yield from (entry for entry in entries if entry.path != path and entry.is_file())
    except OSError as error:
        check_reached(path, error)  # else there is no directory any more, or it can't be listed


def _names(path: str, hint: Hint) -> Iterator[str]:
    yield path
    for entry in sorted(beside(path), key=lambda entry: (entry.inode() != hint[1], entry.name)):
        yield entry.path


def _opened_if_same(path: str, identity: Identity) -> Content | None:
    with ExitStack() as closing:
        try:
            content = closing.enter_context(open_content(path))
            if identity.fits(content):
                closing.pop_all()
                return content
        except UNREADABLE as error:
            check_reached(path, error)
    return None
