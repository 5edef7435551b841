"""The keys that senders have used within a time, so that a repeated record counts once. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from attrs import define, field, frozen

from trident_py.spouts.spool.records import Record


@frozen
class Seen:
    """A record that was received with a key.

    Attributes:
        digest: distinguishes it from another record with the key.
        rows: the number of its rows.
        at: when it was received, in seconds since 1970.
    """

    digest: str
    rows: int
    at: float


@define
class DedupWindow:
    """The keys of the last ``seconds``."""

    seconds: float
    _seen: dict[str, Seen] = field(factory=dict, init=False)  # about in the order of their times

    def find(self, key: str | None, now: float) -> Seen | None:
        """Return the record that was received with ``key`` within the time, if there was one."""
        seen = None if key is None else self._seen.get(key)
        return seen if seen is not None and not self.is_over(seen.at, now) else None

    def add(self, keys: Mapping[str, Seen]) -> None:
        """Remember keys."""
        for key, seen in keys.items():
            self._seen.pop(key, None)
            self._seen[key] = seen

    def expire(self, now: float) -> None:
        """Forget the keys that may be forgotten."""
        while self._seen and self.is_over(next(iter(self._seen.values())).at, now):
            del self._seen[next(iter(self._seen))]

    def is_over(self, at: float, now: float) -> bool:
        """Return whether a key of the moment ``at`` may be forgotten."""
        return at + self.seconds < now


def keys_of(records: Iterable[Record]) -> dict[str, Seen]:
    """Return the keys of records."""
    found = ((each.received, each.at) for each in records)
    return {one.key: Seen(one.digest, one.rows, at) for one, at in found if one.key is not None}


def encode_keys(keys: Mapping[str, Seen]) -> bytes:
    """Return the content of a file with these keys."""
    return json.dumps([[key, seen.digest, seen.rows, seen.at] for key, seen in keys.items()]).encode()


def decode_keys(data: bytes) -> dict[str, Seen]:
    """Return the keys in a file."""
    return {key: Seen(digest, rows, at) for key, digest, rows, at in json.loads(data)}
