"""Parked transactions: batches that are left out for now, each of which a release counts once, later. Pure values.

A transaction is parked in three durable steps. The write that decides it stores a `Parking`: from then on each
attempt of the transaction is empty, under this leader and later ones. The write that closes the transaction moves the
entry to the list of parked ones. A release binds an entry to a new transaction, and the write that closes that one
removes the entry. Once it is known which rows fail, one write splits an entry in two: these rows stay parked, and the
others wait for their release.

Dead letters that are to be processed are an entry, too: the rows that one branch has left out of transactions. Its
release has a part in this branch only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from itertools import pairwise
from typing import Any, TypeAlias

from attrs import asdict, evolve, field, frozen

from coordinators.values.canonical import Fingerprint, Json
from coordinators.values.errors import our_bug

ERROR_CHARS_MAX = 4 * 1024
"""The length of a stored error; a longer one is cut."""

FOUND_MAX = 100
"""How many rows of a spout an outcome names."""

Runs: TypeAlias = tuple[tuple[int, int], ...]
"""Rows, rising: each run is the position of its first row, and the one after its last row."""


@frozen(kw_only=True)
class StoredRows:
    """The rows that a spout emitted for a parked transaction, in a file, because it can't emit them again later.

    Attributes:
        file: the name of the file, in the topology's directory for parked rows.
        host: the machine that wrote it; shown if another one doesn't find it.
        bytes: the length of the file.
        hash: of its content.
        rows: how many rows it has.
        kept: the rows that belong to the entry, if others were split off; None: all do.
    """

    file: str
    host: str
    bytes: int
    hash: str
    rows: int
    kept: Runs | None = None

    @property
    def runs(self) -> Runs:
        """The rows that belong to the entry."""
        return ((0, self.rows),) if self.kept is None else self.kept

    @property
    def count(self) -> int:
        """How many rows belong to the entry."""
        return size_of(self.runs)

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of the rows that belong to the entry."""
        return tuple(each for first, stop in self.runs for each in range(first, stop))

    def keeping(self, runs: Runs) -> StoredRows:
        """Return it with these rows of the file only."""
        return evolve(self, kept=runs)

    def to_json(self) -> dict[str, Json]:
        """Return the stored form."""
        return {**asdict(self), "kept": None if self.kept is None else [list(run) for run in self.kept]}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> StoredRows:
        """Return the object that was stored as ``body``.

        Raises:
            KeyError, TypeError, ValueError: ``body`` is not its stored form.
        """
        kept = body["kept"]
        return cls(**{**body, "kept": None if kept is None else tuple((first, stop) for first, stop in kept)})


def runs_of(positions: Iterable[int]) -> Runs:
    """Return rising positions as runs."""
    return joined((each, each + 1) for each in positions)


def joined(runs: Iterable[tuple[int, int]]) -> Runs:
    """Return rising runs as few as possible; runs without rows go."""
    found: list[tuple[int, int]] = []
    for first, stop in runs:
        if first >= stop:
            continue
        if found and found[-1][1] == first:
            found[-1] = found[-1][0], stop
        else:
            found.append((first, stop))
    return tuple(found)


def size_of(runs: Runs) -> int:
    """Return how many rows these are."""
    return sum(stop - first for first, stop in runs)


def beginning(runs: Runs, count: int) -> Runs:
    """Return the first ``count`` rows."""
    return selected(runs, ((0, count),))


def selected(runs: Runs, numbers: Runs) -> Runs:
    """Return the rows with these numbers, from 0 on, among ``runs``."""
    found, before = list[tuple[int, int]](), 0
    for first, stop in runs:
        size = stop - first
        for begin, end in numbers:
            found.append((first + max(0, begin - before), first + min(size, end - before)))
        before += size
    return joined(found)


def without(runs: Runs, positions: Iterable[int]) -> Runs:
    """Return the rows that are not at one of these rising positions."""
    gone = [*positions]
    found = list[tuple[int, int]]()
    for first, stop in runs:
        begin = first
        for each in gone[bisect_left(gone, first) : bisect_left(gone, stop)]:
            found.append((begin, each))
            begin = each + 1
        found.append((begin, stop))
    return joined(found)


# large: one field for each fact that is stored about it
@frozen(kw_only=True)
class Parked:
    """A transaction that was left out.

    Attributes:
        txid: its id, for ever, even if it is released and parked again.
        part: 0: all of its rows, or those that fail; from 1 on: the others, which were split off, and dead letters.
        number: by which spouts know it; 0 for dead letters, about which spouts are not asked.
        definition: the metadata of its batch, by spout.
        fingerprints: of the rows of its attempts, by spout, where an attempt has read all of them.
        stored: the stored rows of its batch, by spout, of spouts that can't emit them again later.
        attempts: how many attempts have failed.
        error: the last failure, as text; empty: none is known.
        since: when it was parked, seconds since 1970; shown, never compared.
        by: who parked it.
        reason: why.
        is_wanted: whether it waits to be released.
        released_as: the transaction in which it is released; 0: none.
        letters_of: the branch that has left out its rows, which are dead letters; empty: it was parked. All rows are
            stored, and its id is the first transaction of one.
    """

    txid: int
    number: int
    definition: Mapping[str, Json] = field(hash=False)
    fingerprints: Mapping[str, Fingerprint] = field(factory=dict, hash=False)
    stored: Mapping[str, StoredRows] = field(factory=dict, hash=False)
    attempts: int = 0
    error: str = ""
    since: float = 0.0
    by: str = ""
    reason: str = ""
    is_wanted: bool = False
    released_as: int = 0
    part: int = 0
    letters_of: str = ""

    @property
    def rows(self) -> int:
        """How many stored rows belong to it."""
        return sum(each.count for each in self.stored.values())

    @property
    def unstored(self) -> dict[str, Json]:
        """The metadata of its batch, by spout, where only the source has the rows."""
        return {spout: metadata for spout, metadata in self.definition.items() if spout not in self.stored}

    @property
    def waits(self) -> bool:
        """Whether the next new transaction is its release."""
        return self.is_wanted and not self.released_as

    def to_json(self) -> dict[str, Json]:
        """Return the stored form."""
        return {
            "txid": self.txid,
            "number": self.number,
            "definition": dict(self.definition),
            "fingerprints": {spout: [each.rows, each.sum, each.kind] for spout, each in self.fingerprints.items()},
            "stored": {spout: each.to_json() for spout, each in self.stored.items()},
            "attempts": self.attempts,
            "error": self.error,
            "since": self.since,
            "by": self.by,
            "reason": self.reason,
            "is_wanted": self.is_wanted,
            "released_as": self.released_as,
            "part": self.part,
            **({"letters_of": self.letters_of} if self.letters_of else {}),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Parked:
        """Return the object that was stored as ``body``.

        Raises:
            KeyError, TypeError, ValueError: ``body`` is not its stored form.
        """
        seen = {spout: Fingerprint(*each) for spout, each in body["fingerprints"].items()}
        stored = {spout: StoredRows.from_json(each) for spout, each in body["stored"].items()}
        return cls(**{**body, "fingerprints": seen, "stored": stored})


@frozen
class Parking:
    """A transaction that is being parked: each attempt of it from ``first_attempt_id`` on is empty."""

    txid: int
    first_attempt_id: int
    entry: Parked

    def to_json(self) -> dict[str, Json]:
        """Return the stored form."""
        return {"txid": self.txid, "first_attempt_id": self.first_attempt_id, "entry": self.entry.to_json()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Parking:
        """Return the object that was stored as ``body``.

        Raises:
            KeyError, TypeError, ValueError: ``body`` is not its stored form.
        """
        return cls(body["txid"], body["first_attempt_id"], Parked.from_json(body["entry"]))


@frozen
class Split:
    """The rows of a parked transaction that fail: two entries take the place of one, with these rows and the others.

    Attributes:
        whole: the entry, all rows of which are stored.
        positions: by spout, the rows that fail, as positions in its file, rising.
    """

    whole: Parked
    positions: Mapping[str, tuple[int, ...]] = field(hash=False)

    @property
    def failing(self) -> Parked:
        """The entry of the rows that fail; it stays parked."""
        return self._with({spout: each.keeping(runs_of(self._of(spout))) for spout, each in self.whole.stored.items()})

    @property
    def found(self) -> dict[str, tuple[int, ...]]:
        """The first rows that fail, by spout."""
        return {spout: found[:FOUND_MAX] for spout, found in self.positions.items()}

    def rest(self, part: int) -> Parked | None:
        """Return the entry of all other rows, which waits for its release; None: there are no others.

        ``part`` is a number that no other part of the transaction has.
        """
        rest = self._with(
            {spout: each.keeping(without(each.runs, self._of(spout))) for spout, each in self.whole.stored.items()}
        )
        return evolve(rest, part=part, is_wanted=True, error="") if rest.rows else None

    def _of(self, spout: str) -> tuple[int, ...]:
        return self.positions.get(spout, ())

    def _with(self, stored: Mapping[str, StoredRows]) -> Parked:
        return evolve(self.whole, stored=stored, fingerprints={})  # those were of all rows

    def ensure_whole(self, parts: Iterable[Parked]) -> None:
        """Assert that each row is in exactly one of ``parts``."""
        for spout, stored in self.whole.stored.items():
            runs = sorted(run for part in parts for run in part.stored[spout].runs)
            is_apart = all(before[1] <= after[0] for before, after in pairwise(runs))
            is_whole = is_apart and size_of(tuple(runs)) == stored.count
            assert is_whole, our_bug(f"{self.whole} is split into {parts}")


@frozen
class ParkedList:
    """The transaction that is being parked, if any, and the parked ones, lowest first."""

    parking: Parking | None = None
    entries: tuple[Parked, ...] = ()

    def is_parking(self, txid: int) -> bool:
        """Return true if ``txid`` commits only empty."""
        return self.parking is not None and self.parking.txid == txid

    def parts(self, txid: int) -> tuple[Parked, ...]:
        """Return the parts of the parked transaction ``txid``, without dead letters; none: it is not on the list."""
        return tuple(each for each in self.entries if each.txid == txid and not each.letters_of)

    def entry(self, txid: int) -> Parked | None:
        """Return the first part of the parked transaction ``txid``; None: it is not on the list."""
        return next(iter(self.parts(txid)), None)

    def released_in(self, txid: int) -> Parked | None:
        """Return the entry that ``txid`` releases; None: it releases none."""
        if not self.entries:
            return None
        return next((each for each in self.entries if each.released_as == txid), None)

    def only_in(self, spout: str) -> dict[int, Json]:
        """Return, by transaction, the metadata of parked batches whose rows only the source of ``spout`` has."""
        return {each.txid: each.unstored[spout] for each in self.entries if spout in each.unstored}

    @property
    def files(self) -> frozenset[str]:
        """The names of all files with rows of parked transactions."""
        entries = [*self.entries, *([self.parking.entry] if self.parking else [])]
        return frozenset(each.file for entry in entries for each in entry.stored.values())

    @property
    def parking_txid(self) -> int | None:
        """The transaction that is being parked; None: none is."""
        return None if self.parking is None else self.parking.txid

    @property
    def waiting(self) -> Parked | None:
        """The entry that the next new transaction releases."""
        return next((each for each in self.entries if each.waits), None)

    def want(self, txids: Collection[int]) -> ParkedList:
        """Return the list after an operator wants these released; no ids: all of them."""
        wanted = txids or [each.txid for each in self.entries]
        return evolve(self, entries=tuple(evolve(e, is_wanted=e.is_wanted or e.txid in wanted) for e in self.entries))

    def drop(self, txids: Collection[int]) -> ParkedList:
        """Return the list without these."""
        return evolve(self, entries=tuple(each for each in self.entries if each.txid not in txids))

    def bind(self, txid: int) -> ParkedList:
        """Return the list after the new transaction ``txid`` has begun: it releases the first that waits, if any."""
        first = self.waiting
        return self if first is None else self.replaced(evolve(first, released_as=txid))

    def with_letters(self, letters: Iterable[Parked]) -> ParkedList:
        """Return the list with dead letters, each entry with a number that no other part of its transaction has."""
        made = self
        for each in letters:
            made = made.replaced(evolve(each, part=made.next_part(each.txid)))
        return made

    def split(self, split: Split) -> ParkedList:
        """Return the list with the parts of a transaction in the place of its entry."""
        rest = split.rest(self.next_part(split.whole.txid))
        parts = [each for each in (split.failing, rest) if each is not None]
        split.ensure_whole(parts)
        return reduce(ParkedList.replaced, parts, self)

    def next_part(self, txid: int) -> int:
        """Return the number of a part of ``txid`` that no other one has."""
        return 1 + max((each.part for each in self.entries if each.txid == txid), default=0)

    def park(self, parking: Parking) -> ParkedList:
        """Return the list after it was decided to park; the entry stays where it is until the transaction closes."""
        return evolve(self, parking=parking)

    def close(self, txid: int) -> ParkedList:
        """Return the list after ``txid`` was closed: it is on the list if it was parked, and off it if it released."""
        if self.parking is not None and self.parking.txid == txid:
            return evolve(self.replaced(self.parking.entry), parking=None)
        released = self.released_in(txid)
        if released is None:
            return self
        return evolve(self, entries=tuple(each for each in self.entries if _place(each) != _place(released)))

    def replaced(self, entry: Parked) -> ParkedList:
        """Return the list with ``entry`` in the place of this part of its transaction, if any."""
        others = [each for each in self.entries if _place(each) != _place(entry)]
        return evolve(self, entries=tuple(sorted([*others, entry], key=_place)))


def _place(entry: Parked) -> tuple[int, int]:
    return entry.txid, entry.part


NOTHING_PARKED = ParkedList()
