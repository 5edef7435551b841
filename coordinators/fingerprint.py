"""What two emissions of one batch are compared by."""

from __future__ import annotations

from attrs import frozen


@frozen
class Fingerprint:
    """The rows of a batch in whatever order: their number, and the sum of a 64-bit hash of each.

    A sum, since XOR would let two equal rows cancel out; a whole number of Python's, since theirs overflows. Where
    tasks hash what they read themselves, the sum is that of the tasks' hashes, modulo 2^64.
    """

    rows: int
    sum: int

    def __add__(self, other: Fingerprint) -> Fingerprint:
        """That of both sets of rows together."""
        return Fingerprint(self.rows + other.rows, self.sum + other.sum)


NO_ROWS = Fingerprint(0, 0)
