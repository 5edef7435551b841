"""JSON as this project stores it, and the hashes of texts and rows.

`canonical_json` writes exactly one text for each value. It refuses values that would be read back different.
`content_hash` and `content_digest` are hashes of texts. `Fingerprint` is a hash of the rows of a batch.
"""

from __future__ import annotations

import json
import math
from hashlib import sha256
from typing import TypeAlias
from zlib import crc32

from attrs import frozen

from coordinators.values.errors import MetadataError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def canonical_json(value: object) -> str:
    """Return the canonical JSON text of ``value``: sorted keys, no spaces.

    Raises:
        MetadataError: JSON can't represent it, or would return another value, as for a tuple, a key that isn't a
            string, or NaN. The error names the place inside the value.
    """
    try:
        if not _is_plain(value):
            _check(value, "")
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (RecursionError, ValueError) as error:  # Python's limits on depth and on the digits of a number
        raise MetadataError(f"metadata cannot be written as JSON: {error}") from error


def json_copy(value: Json) -> Json:
    """Return a copy of ``value`` through JSON, which its receiver may change."""
    copied: Json = json.loads(json.dumps(value))
    return copied


def content_hash(text: str | bytes) -> str:
    """Return 8 hex digits that distinguish texts and detect damage; no protection against forgery."""
    raw = text.encode() if isinstance(text, str) else text
    return f"{crc32(raw):08x}"


def content_digest(text: str) -> str:
    """Return a unique name for ``text``, for use in a store: 80 bits of its SHA-256, in hexadecimal."""
    return sha256(text.encode()).hexdigest()[:20]


def _is_plain(value: object) -> bool:
    """Return true if the types alone prove that JSON returns ``value`` unchanged. Fast, for every write."""
    if type(value) is str:
        return value.isascii()
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain_key, value)) and all(map(_is_plain, value.values()))
    return value is None or type(value) is int or type(value) is bool


def _is_plain_key(key: object) -> bool:
    return type(key) is str and key.isascii()


def _check(value: object, place: str) -> None:
    match value:
        case None | bool() | int():
            return
        case str():
            _check_text(value, place)
        case float() if math.isfinite(value):
            return
        case list():
            for index, item in enumerate(value):
                _check(item, f"{place}[{index}]")
        case dict():
            for key, item in value.items():
                _check_key(key, place)
                _check(item, f"{place}[{key!r}]")
        case _:
            raise MetadataError(
                f"metadata{place} is {value!r} ({type(value).__name__}), which would not come back equal from JSON; "
                f"use None, booleans, finite numbers, strings, lists and dicts with string keys"
            )


def _check_key(key: object, place: str) -> None:
    if type(key) is not str:
        raise MetadataError(
            f"metadata{place} has the key {key!r} ({type(key).__name__}), which would come back as a string; "
            f"use string keys"
        )
    _check_text(key, place)


def _check_text(text: str, place: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MetadataError(f"metadata{place} has a string that is not Unicode text: {text!r}") from error


@frozen
class Fingerprint:
    """The rows of a batch in any order: their number, and the sum of a 64-bit hash of each, modulo 2^64.

    A sum, since with XOR two equal rows would cancel out. Each reader may hash the rows in its own way, and then
    reports their sum.

    Attributes:
        kind: how rows were hashed; sums of different kinds can't be compared. Empty: in one of the ways of the first
            release; it is unknown which.
    """

    rows: int
    sum: int
    kind: str = ""

    def __add__(self, other: Fingerprint) -> Fingerprint:
        """Return the fingerprint of both sets of rows together."""
        return Fingerprint(self.rows + other.rows, (self.sum + other.sum) % 2**64, self.kind or other.kind)

    def agrees(self, other: Fingerprint) -> bool:
        """Return true if both may be of the same rows. If their kinds differ, only the number of rows is compared."""
        return self.rows == other.rows and (self.kind != other.kind or self.sum == other.sum)


NO_ROWS = Fingerprint(0, 0)


def other_version(found: object, known: int) -> str:
    """Return why this release, which knows only the format ``known``, refuses data in the format ``found``."""
    is_older = isinstance(found, int) and found < known
    wrote = "a version before the first release wrote it" if is_older else "another release wrote it, run that one"
    return f"it has format version {found!r}, and this release reads version {known} only; {wrote}"
