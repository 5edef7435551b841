"""The history of one topology: of its last life, which is the one that people ask about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import evolve, frozen

from coordinators.record.store import TopologyIdentity
from coordinators.record.wishes import Action
from coordinators.values.secret import Secret
from trident_py.history.database import HistoryDatabase, NoHistoryError, existing_history
from trident_py.history.entries import LeadershipEntry, WishEntry
from trident_py.history.transactions import TransactionHistory, transactions

TXID_MAX = (1 << 63) - 1


@frozen
class TopologyHistory:
    """The history of one topology.

    Attributes:
        leaderships: the leaderships of its last life, oldest first; there is at least one.
    """

    database: HistoryDatabase
    leaderships: tuple[LeadershipEntry, ...]

    @classmethod
    def of(cls, topology: str, place: Path | Secret | None) -> TopologyHistory:
        """Find it at ``place``, as in ``TridentConfig.history_place``.

        Raises:
            NoHistoryError: there is no history of the topology.
            HistoryError: it can't be read.
        """
        database = existing_history(place)
        leaderships = _last_life(database.leaderships(topology))
        if not leaderships:
            known = ", ".join(database.topologies()) or "none"
            database.close()
            raise NoHistoryError(f"the history in {database.shown} has no topology {topology!r}, it knows {known}")
        return cls(database, leaderships)

    @property
    def life(self) -> TopologyIdentity:
        """The topology's last life."""
        return self.leaderships[-1].life

    def last(self, transactions_max: int, *, failed: bool = False) -> list[TransactionHistory]:
        """Return the last transactions, lowest first; with ``failed`` only those with a failed attempt."""
        txids = self.database.last_txids(self.life, transactions_max, failed=failed)
        found = self.since(txids[-1]) if txids else []
        return [each for each in found if each.txid in txids]

    def since(self, txid: int) -> list[TransactionHistory]:
        """Return transaction ``txid`` and all later ones, lowest first."""
        return transactions(self.leaderships, self.database.attempts(self.life, txid, TXID_MAX), self._parked())

    def transaction(self, txid: int) -> TransactionHistory:
        """Return one transaction.

        Raises:
            NoHistoryError: it is unknown.
        """
        found = transactions(self.leaderships, self.database.attempts(self.life, txid, txid), self._parked())
        if not found:
            raise NoHistoryError(
                f"the history in {self.database.shown} knows nothing of transaction {txid} of topology "
                f"{self.life.name!r}: it was never tried, or has been forgotten; `trident tx "
                f"{self.life.name} list` shows the last ones"
            )
        return found[0]

    def wishes(self, txid: int | None = None) -> list[WishEntry]:
        """Return the commands of operators and of the policy, oldest first; with ``txid`` those that name it."""
        return [each for each in self.database.wishes(self.life) if txid is None or txid in each.event.txids]

    def _parked(self) -> set[int]:
        decided = (each.event for each in self.database.wishes(self.life))
        return {txid for each in decided if each.action == Action.PARK and not each.refused for txid in each.txids}

    def refreshed(self) -> TopologyHistory:
        """Return the same history with its present leaderships."""
        return evolve(self, leaderships=_last_life(self.database.leaderships(self.life.name)) or self.leaderships)

    def close(self) -> None:
        """Close the database."""
        self.database.close()


def _last_life(leaderships: Sequence[LeadershipEntry]) -> tuple[LeadershipEntry, ...]:
    return tuple(each for each in leaderships if each.life == leaderships[-1].life)
