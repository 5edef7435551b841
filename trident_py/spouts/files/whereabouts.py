"""The decision where a followed file is now, from the results of a look at its directory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from enum import Enum

from attrs import frozen

from trident_py.errors import SpoutError
from trident_py.spouts.files.content import UNREADABLE, Content, check_reached, open_content
from trident_py.spouts.files.identity import Hint, Identity


def open_same(path: str, identity: Identity | None) -> Content:
    """Return the content of the file that had this path when it was identified, under any name in its directory.

    Raises:
        SpoutError: no file there has the same content.
        OSError: it has no identity, and can't be opened.
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
        f"there when its batch was defined: it was cut, replaced or removed; to fix this: put it back, under this or "
        f"another name of that directory"
    )


def beside(path: str) -> Iterator[os.DirEntry[str]]:
    """Yield the other regular files of the directory, if it can be listed."""
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


class Here(Enum):
    """The file that is at the path now, compared by content."""

    SAME = "same"  # with another device or inode
    OTHER = "other"  # other bytes, or not all that were seen
    CHANGING = "changing"  # it can't be told yet
    NOTHING = "nothing"  # or a file that is followed and was renamed to that


class Likeness(Enum):
    """The comparison of another file with all bytes that were read of this one."""

    EQUAL = "equal"
    BEGINNING = "beginning"  # the same as far as it goes, but it is shorter
    UNKNOWN = "unknown"  # it can't be told yet: it is being packed, or can't be read


@frozen(kw_only=True)
class Other:
    """A file in the same directory that has the same beginning.

    Attributes:
        has_hint: whether it has the device and inode that the followed file had.
        is_followed: whether it is followed as a separate file.
        is_still: whether it has not changed for a while.
        is_evidence: whether the equal bytes are sufficient to identify it if no file is at the path. They are if they
            are the first KiB of both; or all bytes, if it is compressed or has the inode.
    """

    path: str
    likeness: Likeness
    has_hint: bool = False
    is_followed: bool = False
    is_still: bool = True
    is_evidence: bool = True


@frozen(kw_only=True)
class Sighting:
    """The known facts about one followed file that may have moved.

    Attributes:
        is_identified: whether there are hashes to look for; positions of old versions have none before the first look.
        is_unread: whether lines were seen that no batch has.
        is_cut: whether its device and inode have other bytes now, under any name: it was cut, or deleted. If these are
            its first bytes, such as a header, it is true only if a copy has more of them.
        was_missed: whether the previous look did not find it either, so it is not being renamed at this moment.
        others: the files that begin like it, the most likely first.
    """

    here: Here
    is_identified: bool = True
    is_unread: bool = False
    is_cut: bool = False
    was_missed: bool = False
    others: Sequence[Other] = ()


class Whereabouts(Enum):
    """The result for a followed file."""

    HERE = "here"
    MOVED = "moved"  # to the path of the other file
    READ = "read"  # it is gone, and was read completely: the file at its path is a new one
    WAIT = "wait"  # it can't be told yet
    LOST = "lost"  # with lines that no batch has
    DOUBTFUL = "doubtful"  # the other file begins like it and ends before its position
    ALIKE = "alike"  # the other file has all of it, which is too little to tell that it is the same
    TAKEN_TWICE = "taken twice"  # the other file has all of it and was read as a new one
    UNIDENTIFIED = "unidentified"


def find(sighting: Sighting) -> tuple[Whereabouts, Other | None]:
    """Decide where a followed file is, and which other file it is.

    Equal hashes mean the same file with any inode, unless another one has the device and inode as well. In doubt the
    topology stops: after `LOST`, `DOUBTFUL`, `ALIKE`, `TAKEN_TWICE` or `UNIDENTIFIED`, lines would be lost or repeated.
    """
    equal = [other for other in sighting.others if other.likeness is Likeness.EQUAL]
    hinted = min((other for other in equal if other.has_hint), key=lambda other: other.is_followed, default=None)
    if sighting.here is Here.CHANGING:
        return Whereabouts.WAIT, None
    if sighting.here is Here.SAME and (hinted is None or hinted.is_followed):
        return Whereabouts.HERE, None
    if sighting.here is Here.OTHER and not sighting.is_identified:
        return Whereabouts.UNIDENTIFIED, None
    if hinted:
        return (Whereabouts.READ if hinted.is_followed else Whereabouts.MOVED), hinted
    is_replaced = sighting.here is Here.OTHER
    is_sought = is_replaced or sighting.is_unread or sighting.is_cut
    for other in equal:
        if not other.is_followed and (is_sought or other.is_evidence):
            return Whereabouts.MOVED, other
    # Of a file that was read and is gone no copy is in the making any more, unless it is packed: a new log that begins
    # with the same header isn't held back until it pauses.
    may_become = [other for other in sighting.others if is_sought or other.likeness is Likeness.UNKNOWN]
    is_growing = any(not (other.is_followed or other.is_still) for other in may_become)
    if is_growing or not (is_replaced or sighting.was_missed):
        return Whereabouts.WAIT, None
    return _nowhere(sighting) if is_sought else _deleted(equal)


def _deleted(equal: Sequence[Other]) -> tuple[Whereabouts, Other | None]:
    alike = next((other for other in equal if not other.is_followed), None)
    return (Whereabouts.ALIKE if alike else Whereabouts.READ), alike


def _nowhere(sighting: Sighting) -> tuple[Whereabouts, Other | None]:
    copy = next((other for other in sighting.others if other.is_followed), None)
    if copy and sighting.here is Here.OTHER:
        return Whereabouts.TAKEN_TWICE, copy
    if sighting.is_unread:
        return Whereabouts.LOST, None
    unknown = (other for other in sighting.others if not other.is_followed)
    shorter = min(unknown, key=lambda other: (other.has_hint, not other.is_evidence), default=None)
    return (Whereabouts.DOUBTFUL if shorter else Whereabouts.READ), shorter
