"""The search for files that no batch has, in any order or in the order of their names.

Without an order, each look lists all files and compares them with the names in memory. Both grow with their number.

With ``order="name"``, a look begins after the greatest name. From time to time, a full look finds names that came below
it. It compares two sequences that both rise: the listing, and the inventory. So it is exact, holds one shard in memory,
and isn't misled by deleted files. A count or a sum of hashes would need less, but changes with each file that a
lifecycle rule deletes, and then it doesn't tell whether a file came late. Files that came late are not in their place
in the inventory. They are held in memory, because there are few.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, field, frozen

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.files.inventory import Entries, Inventory
from trident_py.spouts.files.places import Place, WholeFile, changed

LOOK_FILES_MAX = 10_000
"""A look in the order of names ends after so many new files; the next one continues."""

_NANOS = 1_000_000_000


@frozen
class Found:
    """A file that no batch has.

    Attributes:
        is_left_out: whether it isn't read, because it was too old when it was found.
    """

    file: WholeFile
    is_left_out: bool = False

    @property
    def mark(self) -> str:
        """The entry in the inventory."""
        return "" if self.is_left_out else self.file.mark


@define(kw_only=True)
class Search(ABC):
    """Finds the files of a place that no batch has.

    Attributes:
        max_age: in seconds; files that are older at first sight are left out. None: none are.
        pending: complete files for the next batches, in their order.
    """

    place: Place
    max_age: float | None = None
    pending: deque[Found] = field(factory=deque, init=False)

    @abstractmethod
    def open(self, where: str, inventory: Inventory, stored: Mapping[str, Json]) -> None:
        """Continue after the last batch; called again if it fails.

        Args:
            where: names topology and spout in errors.
            inventory: of the spout.
            stored: `stored` after the last batch; empty: there was none.

        Raises:
            SpoutError: it can't continue.
            FailedException: the inventory can't be read now.
        """

    @abstractmethod
    def look(self, now: float, today: float) -> None:
        """Look for files if none is pending.

        Args:
            now: seconds of a monotonic clock.
            today: seconds since 1970.

        Raises:
            SpoutError: a file that was read has changed, or the place can't be read.
            FailedException: the place can't be reached now.
        """

    @abstractmethod
    def define(self, files: Sequence[Found]) -> None:
        """Note that a batch has these files, the first of `pending`."""

    @property
    @abstractmethod
    def stored(self) -> dict[str, Json]:
        """The position after the last batch."""

    @property
    def is_waiting(self) -> bool:
        """Whether a file may be complete soon."""
        return False

    def _found(self, file: WholeFile, seen: float) -> Found:
        """Return a file that was first seen at ``seen``, in seconds since 1970."""
        return Found(file, self.max_age is not None and file.modified < (seen - self.max_age) * _NANOS)


@define(kw_only=True)
class AnyOrder(Search):
    """Lists all files at each look.

    Attributes:
        settled: seconds without a change after which a file is complete.
    """

    settled: float
    _known: dict[str, str] = field(factory=dict, init=False)
    _since: dict[str, tuple[WholeFile, float]] = field(factory=dict, init=False)
    """The files that aren't complete, and the times since which they are the same."""

    def open(self, where: str, inventory: Inventory, stored: Mapping[str, Json]) -> None:
        for entries in inventory.entries():
            self._known |= entries

    def look(self, now: float, today: float) -> None:
        since, found = dict[str, tuple[WholeFile, float]](), list[Found]()
        for file in self.place.find():
            mark = self._known.get(file.path)
            if mark is not None:
                _check_same(file, mark)
                continue
            before, at = self._since.get(file.path, (None, now))
            each = Found(file) if before else self._found(file, today)
            at = at if before == file else now
            if each.is_left_out or now - at >= self.settled:
                found.append(each)
            else:
                since[file.path] = (file, at)
        self._since = since
        self.pending = deque(sorted(found, key=_path))

    def define(self, files: Sequence[Found]) -> None:
        for each in files:
            self.pending.popleft()
            self._known[each.file.path] = each.mark

    @property
    def stored(self) -> dict[str, Json]:
        return {"greatest": None}

    @property
    def is_waiting(self) -> bool:
        return bool(self._since)


@define(kw_only=True)
class NameOrder(Search):
    """Lists the files after the greatest name.

    Attributes:
        relist: seconds between two full looks.
        reads_late: whether files that came below the greatest name are read; otherwise they are an error.
    """

    relist: float
    reads_late: bool
    _where: str = field(default="", init=False)
    _inventory: Inventory = field(init=False)
    _greatest: str = field(default="", init=False)
    _has_late: bool = field(default=False, init=False)
    _relisted: float = field(default=0.0, init=False)
    _began: float | None = field(default=None, init=False)
    """When the look began that hasn't reached the last file. How old its files are doesn't depend on its duration."""

    def open(self, where: str, inventory: Inventory, stored: Mapping[str, Json]) -> None:
        self._where, self._inventory = where, inventory
        match stored.get("greatest", ""), stored.get("late", False), stored.get("relisted", 0.0):
            case str() as greatest, bool() as has_late, int() | float() as relisted:
                self._greatest, self._has_late, self._relisted = greatest, has_late, relisted
            case _:
                raise SpoutError(
                    f"{where}: its files were read in any order, so it isn't known which names were read; to fix "
                    f"this: leave out order='name', or give the spout another tx_id, with a pattern of new names"
                )

    def look(self, now: float, today: float) -> None:
        if not self._greatest:
            self._relisted = today
        elif not 0 <= today - self._relisted < self.relist:
            self._look_at_all(today)
        if not self.pending:
            self._look_at_new(today)

    def _look_at_new(self, today: float) -> None:
        self._began = today if self._began is None else self._began
        for file in self._rising(self.place.find(self._greatest), self._greatest):
            self.pending.append(self._found(file, self._began))
            if len(self.pending) >= LOOK_FILES_MAX:
                return
        self._began = None

    def _look_at_all(self, today: float) -> None:
        marks = _marks(self._inventory, self._has_late)
        for file in self._rising(self.place.find(), ""):
            if file.path > self._greatest:
                break
            mark = marks.find(file.path)
            if mark is not None:
                _check_same(file, mark)
                continue
            self.pending.append(self._late(self._found(file, today)))
            if len(self.pending) >= LOOK_FILES_MAX:
                return
        self._relisted = today

    def _late(self, found: Found) -> Found:
        if self.reads_late or found.is_left_out:
            return found
        raise SpoutError(
            f"{self._where}: {found.file.path!r} came after {self._greatest!r}, which has a greater name, was read; to "
            f"fix this: read such files by late='read', or move it to a greater name"
        )

    def _rising(self, files: Iterable[WholeFile], after: str) -> Iterator[WholeFile]:
        for file in files:
            if file.path <= after:
                raise SpoutError(
                    f"{self._where}: the store lists {file.path!r} after {after!r}, so not in the order of names; to "
                    f"fix this: leave out order='name'"
                )
            after = file.path
            yield file

    def define(self, files: Sequence[Found]) -> None:
        for each in files:
            self.pending.popleft()
            self._has_late = self._has_late or each.file.path <= self._greatest
            self._greatest = max(self._greatest, each.file.path)

    @property
    def stored(self) -> dict[str, Json]:
        return {"greatest": self._greatest, "late": self._has_late, "relisted": self._relisted}


@define
class Marks:
    """The marks in an inventory, for paths that rise.

    Attributes:
        late: the entries that are not in the order of names.
    """

    _entries: Iterator[tuple[str, str]]
    late: Entries
    _next: tuple[str, str] | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._next = next(self._entries, None)

    def find(self, path: str) -> str | None:
        """Return the mark of a path; None: no batch has it."""
        while self._next and self._next[0] < path:
            self._next = next(self._entries, None)
        return self._next[1] if self._next and self._next[0] == path else self.late.get(path)


def _marks(inventory: Inventory, has_late: bool) -> Marks:
    late = {path: mark for path, mark, is_rising in _ordered(inventory) if not is_rising} if has_late else {}
    return Marks(((path, mark) for path, mark, is_rising in _ordered(inventory) if is_rising), late)


def _ordered(inventory: Inventory) -> Iterator[tuple[str, str, bool]]:
    """Yield path and mark of each entry, and whether the path is greater than all before."""
    greatest = ""
    for entries in inventory.entries():
        for path, mark in entries.items():
            yield path, mark, path > greatest
            greatest = max(greatest, path)


def _check_same(file: WholeFile, mark: str) -> None:
    if mark and mark != file.mark:
        raise changed(file.path, mark)


def _path(found: Found) -> str:
    return found.file.path
