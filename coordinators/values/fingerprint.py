"""What two emissions of one batch are compared by."""

from __future__ import annotations

from attrs import frozen


@frozen
class Fingerprint:
    """The rows of a batch in whatever order: their number, and the sum of a 64-bit hash of each, modulo 2^64.

    A sum, since XOR would let two equal rows cancel out. What reads the rows may hash them in its own way: then it is
    the sum of what it tells.

    Attributes:
        kind: how rows were hashed; sums of different kinds can't be compared. Empty: in one of the ways of the first
            release, nobody knows which.
    """

    rows: int
    sum: int
    kind: str = ""

    def __add__(self, other: Fingerprint) -> Fingerprint:
        """Return the fingerprint of both sets of rows together."""
        return Fingerprint(self.rows + other.rows, (self.sum + other.sum) % 2**64, self.kind or other.kind)

    def agrees(self, other: Fingerprint) -> bool:
        """Tell whether both may be of the same rows; of different kinds, their number is all that tells."""
        return self.rows == other.rows and (self.kind != other.kind or self.sum == other.sum)


NO_ROWS = Fingerprint(0, 0)
