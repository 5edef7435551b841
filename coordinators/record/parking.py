"""Parked transactions: batches that are left out for now, each of which a release counts once, later. Pure values.

A transaction is parked in three durable steps. The write that decides it stores a `Parking`: from then on each
attempt of the transaction is empty, under this leader and later ones. The write that closes the transaction moves the
entry to the list of parked ones. A release binds an entry to a new transaction, and the write that closes that one
removes the entry.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from attrs import asdict, evolve, field, frozen

from coordinators.values.canonical import Fingerprint, Json

ERROR_CHARS_MAX = 4 * 1024
"""The length of a stored error; a longer one is cut."""


@frozen(kw_only=True)
class StoredRows:
    """The rows that a spout emitted for a parked transaction, in a file, because it can't emit them again later.

    Attributes:
        file: the name of the file, in the topology's directory for parked rows.
        host: the machine that wrote it; shown if another one doesn't find it.
        bytes: the length of the file.
        hash: of its content.
        rows: how many rows it has.
    """

    file: str
    host: str
    bytes: int
    hash: str
    rows: int


@frozen(kw_only=True)
class Parked:
    """A transaction that was left out.

    Attributes:
        txid: its id, for ever, even if it is released and parked again.
        number: by which spouts know it.
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
            "stored": {spout: asdict(each) for spout, each in self.stored.items()},
            "attempts": self.attempts,
            "error": self.error,
            "since": self.since,
            "by": self.by,
            "reason": self.reason,
            "is_wanted": self.is_wanted,
            "released_as": self.released_as,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Parked:
        """Return the object that was stored as ``body``.

        Raises:
            KeyError, TypeError, ValueError: ``body`` is not its stored form.
        """
        seen = {spout: Fingerprint(*each) for spout, each in body["fingerprints"].items()}
        stored = {spout: StoredRows(**each) for spout, each in body["stored"].items()}
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
class ParkedList:
    """The transaction that is being parked, if any, and the parked ones, lowest first."""

    parking: Parking | None = None
    entries: tuple[Parked, ...] = ()

    def is_parking(self, txid: int) -> bool:
        """Return true if ``txid`` commits only empty."""
        return self.parking is not None and self.parking.txid == txid

    def entry(self, txid: int) -> Parked | None:
        """Return the parked transaction ``txid``; None: it is not on the list."""
        return next((each for each in self.entries if each.txid == txid), None)

    def released_in(self, txid: int) -> Parked | None:
        """Return the entry that ``txid`` releases; None: it releases none."""
        return next((each for each in self.entries if each.released_as == txid), None)

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
        return self if first is None else self._with(evolve(first, released_as=txid))

    def park(self, parking: Parking) -> ParkedList:
        """Return the list after it was decided to park; the entry stays where it is until the transaction closes."""
        return evolve(self, parking=parking)

    def close(self, txid: int) -> ParkedList:
        """Return the list after ``txid`` was closed: it is on the list if it was parked, and off it if it released."""
        if self.parking is not None and self.parking.txid == txid:
            return evolve(self._with(self.parking.entry), parking=None)
        released = self.released_in(txid)
        return self if released is None else self.drop([released.txid])

    def _with(self, entry: Parked) -> ParkedList:
        others = [each for each in self.entries if each.txid != entry.txid]
        return evolve(self, entries=tuple(sorted([*others, entry], key=lambda each: each.txid)))


NOTHING_PARKED = ParkedList()
