"""The metadata of a batch for each file: the byte range of its lines, and the identity of the file."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.files.identity import Identity

StoredSplit = list[Json]
"""``[path, start, end, seen, identity]``, and ``origin`` if there is one. In old versions ``[path, start, end]``, and
``seen`` if that is greater."""


@frozen
class Split:
    """Lines of one file: the bytes from ``start`` to ``end``; no lines if only the file's name has changed.

    Attributes:
        path: the path in its rows, even if the file has another name when they are read.
        seen: its size when this was defined.
        identity: identifies the file, up to ``seen``. None: defined by an old version, which counted the bytes of a
            compressed file as they are on disk.
        origin: the matched name before a rename to a name that the pattern doesn't match, if a new file has that name.
    """

    path: str
    start: int
    end: int
    seen: int
    identity: Identity | None
    origin: str = ""

    @classmethod
    def parse(cls, stored: Sequence[Json]) -> Split:
        """Return the split with this form in a batch's metadata."""
        match stored:
            case [str() as path, int() as start, int() as end]:
                return cls(path, start, end, end, None)
            case [str() as path, int() as start, int() as end, int() as seen]:
                return cls(path, start, end, seen, None)
            case [str() as path, int() as start, int() as end, int() as seen, identity, *rest]:
                if (parsed := Identity.parse(identity, seen)) and (origin := parse_origin(rest)) is not None:
                    return cls(path, start, end, seen, parsed, origin)
        raise SpoutError(f"a batch of files is defined as {stored!r}, which this version cannot read")

    @property
    def stored(self) -> StoredSplit:
        """The form in a batch's metadata."""
        return [self.path, self.start, self.end, self.seen, *self._told]

    @property
    def cursor(self) -> Json:
        """The position of the file, in the form in which it is stored; `FileCursor.restored` reads it."""
        if self.identity:
            return [self.end, self.seen, *self._told]
        return [self.end, self.seen] if self.seen > self.end else self.end

    @property
    def _told(self) -> list[Json]:
        if self.identity is None:
            return []
        return [self.identity.stored, self.origin] if self.origin else [self.identity.stored]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.start


def parse_origin(rest: Sequence[Json]) -> str | None:
    """Return the origin that is stored after an identity; empty: no origin; None: it is not an origin."""
    match rest:
        case []:
            return ""
        case [str() as origin]:
            return origin
    return None
