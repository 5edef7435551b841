"""A hash of what tasks read of files, the same however a batch is cut into tasks and blocks.

It is the sum of all bytes, each multiplied by a number of its own, which follows from where the byte is: so the sums of
parts add up to that of the whole, and a byte that is another one, or elsewhere, makes another sum. Done for eight bytes
at once, two multiplications of NumPy's: a hundredth of the time that reading lines takes. (A hash of each row by Spark
took a tenth, and needs rows that Spark sees.)
"""

from __future__ import annotations

import hashlib

import numpy as np

_WORD = 8
_PAGE_WORDS = 1 << 16
_BITS = 64
_MASK = (1 << _BITS) - 1


def _scattered(first: int, count: int) -> np.ndarray:
    """Return the numbers that SplitMix64 gives for ``first`` and the ``count - 1`` after it."""
    mixed = (np.arange(count, dtype=np.uint64) + np.uint64(first & _MASK)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


# Odd, as a product with an even number loses bits. The upper four bytes of a word have weights of their own: in one
# product with the whole word, those of its last byte would be eight bits wide.
_WEIGHTS, _UPPER_WEIGHTS = _scattered(1, 2 * _PAGE_WORDS).reshape(2, _PAGE_WORDS) | np.uint64(1)


def seed_of(*names: str) -> int:
    """Derive a seed from ``names``, so that equal bytes of different files have different hashes."""
    return int.from_bytes(hashlib.blake2b("\0".join(names).encode(errors="surrogatepass"), digest_size=8).digest())


def hash_bytes(seed: int, position: int, block: bytes) -> int:
    """Return the part of the hash that is made of ``block``, which is at ``position`` of what ``seed`` names."""
    skipped = position % _WORD
    words = np.zeros(-(-(skipped + len(block)) // _WORD), "<u8")
    words.view(np.uint8)[skipped : skipped + len(block)] = np.frombuffer(block, np.uint8)
    at, end, total = position // _WORD, position // _WORD + len(words), 0
    while at < end:
        page, within = divmod(at, _PAGE_WORDS)
        part, words = np.split(words, [_PAGE_WORDS - within])
        places = slice(within, within + len(part))
        lower, upper = np.dot(part, _WEIGHTS[places]), np.dot(part >> np.uint64(32), _UPPER_WEIGHTS[places])
        total += (int(lower) + int(upper)) * (int(_scattered(seed + page, 1)[0]) | 1)
        at += len(part)
    return total & _MASK
