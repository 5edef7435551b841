"""Expiry of a state's keys: a key expires after a time without a write, by the times of transactions."""

from __future__ import annotations

from datetime import timedelta
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from coordinators.values.canonical import Json
from trident_py.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Iterator

PORTION_KEYS = 1_000
"""The number of expired keys that a transaction deletes, in addition to two for each key that it writes. So the state
stays as large as its live keys. And no commit has to delete every key that expired during a long pause."""

_MILLISECOND = timedelta(milliseconds=1)


def checked_ttl(ttl: timedelta | None) -> timedelta | None:
    """Return ``ttl``, which is at least one millisecond, or None.

    Raises:
        TopologyError: it is neither.
    """
    if ttl is not None and (not isinstance(ttl, timedelta) or ttl < _MILLISECOND):
        raise TopologyError(
            f"ttl is how long a key stays without a write, as timedelta(days=30), or None: forever; not {ttl!r}"
        )
    return ttl


def ttl_detail(ttl: timedelta | None) -> dict[str, Json]:
    """Return the entry for ``ttl`` in a factory's `Identified.details`."""
    return {"ttl": str(ttl) if ttl else "none"}


def milliseconds(ttl: timedelta | None) -> int | None:
    """Return ``ttl`` in milliseconds; None stays None."""
    return None if ttl is None else ttl // _MILLISECOND


def portion(written: int) -> int:
    """Return the number of expired keys to delete in a transaction that has written ``written`` keys."""
    return PORTION_KEYS + 2 * written


@frozen
class Expiry:
    """The expired keys of a state as of one transaction. All times are in milliseconds since 1970.

    Attributes:
        since: the time of the first transaction with a ttl, which is also the write time of keys without one. None: no
            transaction had a ttl yet.
        upto: every key written at this time or earlier has expired. It never decreases, so an expired key never
            returns. None: no key has expired.
    """

    since: int | None = None
    upto: int | None = None

    def after(self, time: int, ttl: int | None) -> Expiry:
        """Return the expiry as of a transaction of this time with this ttl; without a ttl, no more keys expire."""
        if ttl is None or time <= 0:  # 0: a transaction that is only passed over
            return self
        since = time if self.since is None else self.since
        return Expiry(since, time - ttl if self.upto is None else max(self.upto, time - ttl))

    def has_expired(self, written: int | None) -> bool:
        """Return whether a key that was written at ``written`` has expired."""
        at = self.since if written is None else written
        return self.upto is not None and at is not None and at <= self.upto


@define
class WriteTimes:
    """An index of keys by the time of their last write; the oldest keys are found without reading the others."""

    _keys: dict[int, set[str]] = field(factory=dict, init=False)
    _times: list[int] = field(factory=list, init=False)  # a heap of those in `_keys`, and of some that were there

    def move(self, key: str, before: int | None, now: int | None) -> None:
        """Move ``key`` from write time ``before`` to ``now``; None: the key is missing before, or removed now."""
        if before is not None and before in self._keys:
            self._keys[before].discard(key)
            if not self._keys[before]:
                del self._keys[before]
        if now is not None:
            if now not in self._keys:
                heappush(self._times, now)
            self._keys.setdefault(now, set()).add(key)

    def upto(self, time: int | None) -> Iterator[tuple[int, str]]:
        """Yield the keys written at ``time`` or earlier, with their times, in the order of times and keys."""
        while self._times and self._times[0] not in self._keys:
            heappop(self._times)
        if time is None or not self._times or self._times[0] > time:
            return
        for at in sorted(at for at in self._keys if at <= time):
            for key in sorted(self._keys[at]):
                yield at, key
