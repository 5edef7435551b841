"""When keys of a state go by themselves: after a time without a write, by the times of transactions."""

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
"""Of expired keys, how many a transaction deletes beside two for each that it writes itself: so the state stays as
large as its live keys, and no commit has to delete all that a long pause let expire."""

_MILLISECOND = timedelta(milliseconds=1)


def checked_ttl(ttl: timedelta | None) -> timedelta | None:
    """Return ``ttl`` if it is None, or a length of time of a millisecond at least.

    Raises:
        TopologyError: it isn't.
    """
    if ttl is not None and (not isinstance(ttl, timedelta) or ttl < _MILLISECOND):
        raise TopologyError(
            f"ttl is how long a key stays without a write, as timedelta(days=30), or None: for ever; not {ttl!r}"
        )
    return ttl


def ttl_detail(ttl: timedelta | None) -> dict[str, Json]:
    """Return what a factory with a ``ttl`` says in its `Identified.details`."""
    return {"ttl": str(ttl) if ttl else "none"}


def milliseconds(ttl: timedelta | None) -> int | None:
    """Return ``ttl`` in milliseconds; None stays None."""
    return None if ttl is None else ttl // _MILLISECOND


def portion(written: int) -> int:
    """Return how many expired keys a transaction deletes that has written so many."""
    return PORTION_KEYS + 2 * written


@frozen
class Expiry:
    """Which keys of a state have expired, as of a transaction. All times in milliseconds since 1970.

    Attributes:
        since: the time of the first transaction with a ttl: keys without a time count as written then. None: there
            was none yet.
        upto: keys that were written then or before have expired; it never goes back, so no key comes back to life.
            None: none have.
    """

    since: int | None = None
    upto: int | None = None

    def after(self, time: int, ttl: int | None) -> Expiry:
        """Return it as of a transaction of this time, with this ttl; where there is none now, nothing more expires."""
        if ttl is None or time <= 0:  # 0: a transaction that is only passed over
            return self
        since = time if self.since is None else self.since
        return Expiry(since, time - ttl if self.upto is None else max(self.upto, time - ttl))

    def has_expired(self, written: int | None) -> bool:
        """Tell whether a key that was written then has expired."""
        at = self.since if written is None else written
        return self.upto is not None and at is not None and at <= self.upto


@define
class WriteTimes:
    """Keys by when they were written last; those written first are found without looking at the others."""

    _keys: dict[int, set[str]] = field(factory=dict, init=False)
    _times: list[int] = field(factory=list, init=False)  # a heap of those in `_keys`, and of some that were there

    def move(self, key: str, before: int | None, now: int | None) -> None:
        """Have ``key`` written at ``now`` instead of ``before``; None: it isn't there."""
        if before is not None and before in self._keys:
            self._keys[before].discard(key)
            if not self._keys[before]:
                del self._keys[before]
        if now is not None:
            if now not in self._keys:
                heappush(self._times, now)
            self._keys.setdefault(now, set()).add(key)

    def upto(self, time: int | None) -> Iterator[tuple[int, str]]:
        """Give the keys that were written at ``time`` or before, in the order of times and keys."""
        while self._times and self._times[0] not in self._keys:
            heappop(self._times)
        if time is None or not self._times or self._times[0] > time:
            return
        for at in sorted(at for at in self._keys if at <= time):
            for key in sorted(self._keys[at]):
                yield at, key
