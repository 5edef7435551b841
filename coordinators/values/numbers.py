"""The numbers by which spouts know transactions: without gaps, because an empty transaction has none.

An empty transaction is one in which no spout has a part. It lets time pass, so that windows close without input. Before
the first of them, a transaction's number is its txid. Spouts receive only numbers; states, sinks, status and errors use
txids.
"""

from __future__ import annotations

from attrs import evolve, frozen


@frozen
class SpoutNumbers:
    """The empty transactions, and thereby the number of each other one.

    Attributes:
        empty: the txids of empty transactions, ascending.
        forgotten: how many empty transactions there were before those. For txids up to the last of these, no number is
            known.
    """

    empty: tuple[int, ...] = ()
    forgotten: int = 0

    def of(self, txid: int) -> int | None:
        """Return the number of ``txid``, or the one it will have if no transaction before it becomes empty.

        None: the transaction is empty.
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
        """Return the numbers after ``txid``, above all attempted transactions, is admitted as an empty one."""
        return evolve(self, empty=(*self.empty, txid))

    def kept_from(self, txid: int) -> SpoutNumbers:
        """Return the same numbers, without those of txids below ``txid``."""
        kept = tuple(each for each in self.empty if each >= txid)
        return SpoutNumbers(kept, self.forgotten + len(self.empty) - len(kept))
