"""What the metadata of a batch says of each file: where its lines begin and end, and which file it is."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.files.identity import Identity

StoredSplit = list[Json]
"""``[path, start, end, seen, identity]``, with ``origin`` where there is one; of old versions ``[path, start, end]``,
with ``seen`` where that is more."""


@frozen
class Split:
    """Lines of one file: the bytes from ``start`` to ``end``; none, where only the file's name has changed.

    Attributes:
        path: the name that its rows have, whatever it is called when they are read.
        seen: its size when this was defined.
        identity: what tells the file, up to ``seen``. None: defined by an old version, which counted the bytes of a
            compressed file as they are on disk.
        origin: the name by which the pattern had found the file, if it was renamed to what the pattern doesn't match
            and a new one has that name.
    """

    path: str
    start: int
    end: int
    seen: int
    identity: Identity | None
    origin: str = ""

    @classmethod
    def parse(cls, stored: Sequence[Json]) -> Split:
        """Read it from a batch's metadata."""
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
        """As it stands in a batch's metadata."""
        return [self.path, self.start, self.end, self.seen, *self._told]

    @property
    def cursor(self) -> Json:
        """Where the file was read to, as it stands in the record; what `FileCursor.restored` takes up again."""
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
        """How many bytes."""
        return self.end - self.start


def parse_origin(rest: Sequence[Json]) -> str | None:
    """Return what is stored behind an identity: an origin or nothing; None: it is neither."""
    match rest:
        case []:
            return ""
        case [str() as origin]:
            return origin
    return None
