"""The number by which spouts know a transaction: dense, as an empty transaction has none.

An empty transaction is one that no spout has a part in: it is there for time to pass, so that windows close without
input.
Until the first of them, a transaction's number is its txid. Spouts are told numbers only; states, sinks, status and
errors go by txids.
"""

from __future__ import annotations

from attrs import evolve, frozen


@frozen
class SpoutNumbers:
    """Which transactions are empty, and so the number of each other one.

    Attributes:
        empty: the txids of empty transactions, ascending.
        forgotten: how many there were before those. No txid up to the last of these has an answer here.
    """

    empty: tuple[int, ...] = ()
    forgotten: int = 0

    def of(self, txid: int) -> int | None:
        """Return the number of ``txid``, or what it will be if no transaction before it turns out to be empty.

        None: empty.
        """
        return None if txid in self.empty else self.upto(txid)

    def upto(self, txid: int) -> int:
        """Return the number of the last transaction up to ``txid`` that has one."""
        return txid - self.forgotten - sum(each <= txid for each in self.empty)

    def txid(self, number: int) -> int:
        """Return the transaction with this number."""
        txid = number + self.forgotten
        for each in self.empty:
            txid += each <= txid
        return txid

    def with_empty(self, txid: int) -> SpoutNumbers:
        """Return the numbers after ``txid``, above all that were tried, is admitted as an empty one."""
        return evolve(self, empty=(*self.empty, txid))

    def kept_from(self, txid: int) -> SpoutNumbers:
        """Return the same numbers, without those of txids below ``txid``."""
        kept = tuple(each for each in self.empty if each >= txid)
        return SpoutNumbers(kept, self.forgotten + len(self.empty) - len(kept))
