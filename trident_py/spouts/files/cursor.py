"""The cursor of one file: its position, and the facts by which the file is recognised under another name."""

from __future__ import annotations

from attrs import define

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.files.content import Content, is_compressed
from trident_py.spouts.files.identity import START_BYTES, Identity, Stamp, hint_of, stamp_of
from trident_py.spouts.files.lines import last_line_end, line_end
from trident_py.spouts.files.splits import Split, parse_origin
from trident_py.spouts.files.whereabouts import Here, Likeness

STILL_SECONDS = 2.0
"""How long a file must not change before its last line is read without a line feed, or a compressed file is read."""

LINE_BYTES_MAX = 256 * 1024 * 1024
"""The greatest length of a line, in bytes; a task holds a line in memory several times."""


@define
class Sight:
    """The last seen state of a file, and the time since which it is unchanged, by a monotonic clock."""

    stamp: Stamp
    since: float

    @classmethod
    def again(cls, before: Sight | None, stamp: Stamp, now: float) -> Sight:
        """Return the sight of a file that has ``stamp`` now; it continues ``before`` if the file is unchanged."""
        return before if before and before.stamp == stamp else cls(stamp, now)

    def is_still(self, now: float) -> bool:
        """Return whether the file has not changed for `STILL_SECONDS`."""
        return now - self.since >= STILL_SECONDS


# large: one field for each thing by which a file is known again
@define(eq=False)
class FileCursor:
    """The position of a file: how much of it was put into batches.

    Attributes:
        path: the current path of the file.
        name: the path of its lines and its position: the current path, or the last one that the pattern matched.
        stored_name: the name under which its position is stored, if it is stored.
        origin: the matched name before a rename to a name that the pattern doesn't match. It is set if a new file has
            that name now; then the renamed file has its current name.
        position: the number of bytes that were put into batches.
        seen: the largest size that was seen.
        identity: identifies the file, up to ``seen``. None: an old version stored the position, and the file was not
            read since.
        sight: its last seen state; None: it was not seen since the start.
        searched: there is no line end between the position and this offset.
        resumed: whether the position is known to be at the beginning of a line.
        start: its first bytes, if it was read since the start.
        copy_of: the file with the same beginning that was followed when this file was taken as a new one.
        is_missed: whether the last look did not find it anywhere.
    """

    path: str
    name: str
    position: int = 0
    seen: int = 0
    identity: Identity | None = None
    sight: Sight | None = None
    searched: int = 0
    resumed: bool = True
    start: bytes = b""
    copy_of: FileCursor | None = None
    stored_name: str = ""
    origin: str = ""
    is_missed: bool = False

    @classmethod
    def restored(cls, path: str, cursor: Json) -> FileCursor:
        """Return the cursor for the JSON that `Split.cursor` stored: a position, the seen size, and an identity."""
        match cursor:
            case int():
                return cls(path, path, cursor, cursor, resumed=False)
            case [int() as position, int() as seen]:
                return cls(path, path, position, seen, resumed=False)
            case [int() as position, int() as seen, stored, *rest]:
                if (identity := Identity.parse(stored, seen)) and (origin := parse_origin(rest)) is not None:
                    return cls(path, path, position, seen, identity, resumed=False, origin=origin)
        raise SpoutError(
            f"file {path!r} has the position {cursor!r}, which is not a position; to fix this: `trident reset` the "
            f"topology"
        )

    @property
    def is_outside(self) -> bool:
        """Whether it was renamed to a name that the pattern doesn't match, and its lines still have its old name."""
        return self.name != self.path

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed, and so read only when it is complete."""
        return is_compressed(self.path)

    @property
    def unread(self) -> int:
        """The number of seen bytes that no batch has."""
        return self.seen - self.position

    def here(self, content: Content) -> Here:
        """Return whether ``content`` is this file's, with all bytes that were seen of it."""
        if self.identity:
            return Here.SAME if self.likeness(content) is Likeness.EQUAL else Here.OTHER
        if self.is_compressed:  # an old version's position, in bytes as they are on disk
            return Here.SAME if content.status.st_size == self.seen else Here.OTHER
        return Here.SAME if content.size >= self.seen else Here.OTHER

    def likeness(self, content: Content) -> Likeness | None:
        """Return how ``content`` compares with the known bytes of this file; None: it begins differently."""
        if not self.identity:
            return None
        start = content.read_at(0, len(self.start))
        if not self.start.startswith(start):
            return None
        if self.identity.fits(content):
            return Likeness.EQUAL
        is_shorter = self.identity.begins(content) and content.size < self.identity.length
        return Likeness.BEGINNING if is_shorter else None

    def take(self, content: Content, sight: Sight, now: float) -> bool:
        """Use ``content`` as this file's, and record its state: ``sight``, unless that is outdated.

        Return False if the file was cut at this moment.
        """
        seen, stamp = content.size, stamp_of(content.status)
        start, identity = content.read_at(0, min(START_BYTES, seen)), Identity.of(content, seen)
        if identity is None:
            return False
        # An old version counted the bytes of a compressed file as they are on disk.
        position = seen if self.position and not self.identity and self.is_compressed else self.position
        if self.sight is None or self.sight.stamp != stamp:
            self.sight = sight if sight.stamp == stamp else Sight(stamp, now)
        self.position, self.seen, self.identity, self.start = position, seen, identity, start
        self.is_missed = False
        return True

    def next_split(self, content: Content, budget: int, now: float) -> Split | None:
        """Return whole lines of at most ``budget`` bytes, but at least one line; None: no line is ready.

        Raises:
            SpoutError: the file continues inside a line that was read without a line feed, or has no line ends.
        """
        if self.sight is None or not self.unread or not self._is_read_from(content):
            return None
        is_still = self.sight.is_still(now) and stamp_of(content.status) == self.sight.stamp
        if not self._resume(content):
            return None
        limit = min(self.seen, self.position + budget)
        end = self.seen if self.is_compressed else self._line_end(content, limit, is_still)
        if end == self.position:
            return None
        return Split(self.name, self.position, end, self.seen, self.identity, self.origin)

    def _is_read_from(self, content: Content) -> bool:
        """Return whether this is the file of the last look, with at most added lines.

        If not, the next look identifies it.
        """
        if self.sight is None or self.identity is None:
            return False
        if stamp_of(content.status) == self.sight.stamp:
            return True
        is_there = hint_of(content.status) == self.identity.hint and not self.is_compressed
        return is_there and self.here(content) is Here.SAME

    def advance(self, split: Split) -> None:
        """Move the position to the end of ``split``, whose lines are in a batch now."""
        self.position, self.resumed = split.end, False

    def name_beside(self, other: FileCursor) -> tuple[str, str]:
        """Return the name and the origin that this file has once ``other`` is read.

        If this file left the pattern, a new file takes its name.
        """
        return (self.path, self.name) if self.name == other.name else (self.name, self.origin)

    def split_beside(self, other: FileCursor) -> Split:
        """Return an empty split with the position of this file, under the name that it has once ``other`` is read."""
        name, origin = self.name_beside(other)
        return Split(name, self.position, self.position, self.seen, self.identity, origin)

    def _line_end(self, content: Content, limit: int, is_still: bool) -> int:
        if limit == self.seen and is_still:
            return limit
        if found := last_line_end(content, max(self.position, self.searched), limit):
            return found
        found = line_end(content, max(limit, self.searched), self.seen)
        if (found or self.seen) - self.position > LINE_BYTES_MAX:
            raise self.error(f"has a line of more than {LINE_BYTES_MAX} bytes; to fix this: move it out of the pattern")
        if found:
            return found
        self.searched = self.seen
        return self.seen if is_still else self.position

    def _resume(self, content: Content) -> bool:
        """Return whether the position is at the beginning of a line; skip the line feed of the line before."""
        if not self.resumed and self.position:
            last, more = content.read_at(self.position - 1, 1), content.read_at(self.position, 2)
            if last != b"\n":
                if more == b"\r":
                    return False  # perhaps the first half of a line's end
                if last == b"\r" or not more.startswith((b"\n", b"\r\n")):
                    raise self.error(
                        f"continues inside its last line, which was read when the file had not changed for a while; "
                        f"to fix this: put a line feed at byte {self.position}, so that the rest is another line"
                    )
                self.position += more.index(b"\n") + 1
        self.resumed = True
        return True

    def error(self, what: str) -> SpoutError:
        """Return an error that names the file and the number of bytes that were read."""
        return SpoutError(
            f"file {self.path!r}, of which {self.position} bytes were read and {self.seen} were seen, {what}"
        )
