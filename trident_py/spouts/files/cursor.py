"""One file that is read from its beginning to wherever its writer is, and how it is known again."""

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
"""How long a file must not change until its last line is taken without a line feed, or it is taken as compressed."""

LINE_BYTES_MAX = 256 * 1024 * 1024
"""Longer lines are taken for a mistake: a task holds a line in memory several times."""


@define
class Sight:
    """How a file was seen last, and since when it has been so, by a monotonic clock."""

    stamp: Stamp
    since: float

    @classmethod
    def again(cls, before: Sight | None, stamp: Stamp, now: float) -> Sight:
        """Return how a file looks that has ``stamp`` now and looked like ``before``, if it was seen."""
        return before if before and before.stamp == stamp else cls(stamp, now)

    def is_still(self, now: float) -> bool:
        """Tell whether nobody wrote to it for a while."""
        return now - self.since >= STILL_SECONDS


# large: one field for each thing by which a file is known again
@define(eq=False)
class FileCursor:
    """How far a file was given to batches.

    Attributes:
        path: where it is.
        name: what its lines and its position have for a path: where it is, or was when the pattern still matched that.
        stored_name: the name that its position is stored under, if it is.
        origin: the name by which the pattern had found it, if it was renamed to what the pattern doesn't match and a
            new file was begun under that name: from then on it has the name that it is found under.
        position: every byte before it was given.
        seen: the largest size that was seen.
        identity: what tells it, up to ``seen``. None: an old version stored the position, and the file wasn't looked at
            since.
        sight: how it was seen last; None: not since the start.
        searched: no line ends between the position and here.
        resumed: whether the position is known to be at the beginning of a line.
        start: its first bytes, if it was looked at since the start.
        copy_of: what it began like, when it was taken as a file of its own.
        is_missed: it was nowhere at the last look.
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
        """Make it of what `Split.cursor` stored: a position, the size that was seen, and an identity."""
        match cursor:
            case int():
                return cls(path, path, cursor, cursor, resumed=False)
            case [int() as position, int() as seen]:
                return cls(path, path, position, seen, resumed=False)
            case [int() as position, int() as seen, stored, *rest]:
                if (identity := Identity.parse(stored, seen)) and (origin := parse_origin(rest)) is not None:
                    return cls(path, path, position, seen, identity, resumed=False, origin=origin)
        raise SpoutError(f"file {path!r} has the position {cursor!r}, which is none; reset the topology")

    @property
    def is_outside(self) -> bool:
        """Whether it was renamed to what the pattern doesn't match, and its lines still have its old name."""
        return self.name != self.path

    @property
    def is_compressed(self) -> bool:
        """Whether it is read once it is complete."""
        return is_compressed(self.path)

    @property
    def unread(self) -> int:
        """How many bytes were seen and not given."""
        return self.seen - self.position

    def here(self, content: Content) -> Here:
        """Tell whether ``content`` is this file's, with all that was seen of it."""
        if self.identity:
            return Here.SAME if self.likeness(content) is Likeness.EQUAL else Here.OTHER
        if self.is_compressed:  # an old version's position, in bytes as they are on disk
            return Here.SAME if content.status.st_size == self.seen else Here.OTHER
        return Here.SAME if content.size >= self.seen else Here.OTHER

    def likeness(self, content: Content) -> Likeness | None:
        """Return how ``content`` compares with what is known of this file; None: it begins in another way."""
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
        """Take ``content`` for this file's, as ``sight`` has it unless that is outdated, and note how it is.

        False: it was cut at this moment.
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
        """Take as many whole lines as fit into ``budget`` bytes, at least one; None if none is left for now.

        Raises:
            SpoutError: the file goes on inside a line that was taken without a line feed, or has no line ends.
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
        """Tell whether this is what the last look saw, but for lines that were added.

        Else the next look tells what is.
        """
        if self.sight is None or self.identity is None:
            return False
        if stamp_of(content.status) == self.sight.stamp:
            return True
        is_there = hint_of(content.status) == self.identity.hint and not self.is_compressed
        return is_there and self.here(content) is Here.SAME

    def advance(self, split: Split) -> None:
        """Go on behind the lines of ``split``, which are given now."""
        self.position, self.resumed = split.end, False

    def name_beside(self, other: FileCursor) -> tuple[str, str]:
        """Return its name and its origin once ``other`` is read.

        What left the pattern gives its name up to a new file.
        """
        return (self.path, self.name) if self.name == other.name else (self.name, self.origin)

    def split_beside(self, other: FileCursor) -> Split:
        """Return no lines, but where the file stands, under the name that it has once ``other`` is read."""
        name, origin = self.name_beside(other)
        return Split(name, self.position, self.position, self.seen, self.identity, origin)

    def _line_end(self, content: Content, limit: int, is_still: bool) -> int:
        if limit == self.seen and is_still:
            return limit
        if found := last_line_end(content, max(self.position, self.searched), limit):
            return found
        found = line_end(content, max(limit, self.searched), self.seen)
        if (found or self.seen) - self.position > LINE_BYTES_MAX:
            raise self.error(f"has a line of more than {LINE_BYTES_MAX} bytes; move it out of the pattern")
        if found:
            return found
        self.searched = self.seen
        return self.seen if is_still else self.position

    def _resume(self, content: Content) -> bool:
        """Tell whether the position is at the beginning of a line, after skipping what ends the one before."""
        if not self.resumed and self.position:
            last, more = content.read_at(self.position - 1, 1), content.read_at(self.position, 2)
            if last != b"\n":
                if more == b"\r":
                    return False  # perhaps the first half of a line's end
                if last == b"\r" or not more.startswith((b"\n", b"\r\n")):
                    raise self.error(
                        f"goes on inside its last line, which was taken when it had not changed for a while; "
                        f"put a line feed at byte {self.position}, and what follows is a line of its own"
                    )
                self.position += more.index(b"\n") + 1
        self.resumed = True
        return True

    def error(self, what: str) -> SpoutError:
        """Make an error that says how far the file was read."""
        return SpoutError(
            f"file {self.path!r}, of which {self.position} bytes were read and {self.seen} were seen, {what}"
        )
