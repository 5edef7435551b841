"""The wrapper around one user-written `BatchCoordinator`, run on that spout's own thread."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, evolve, field, frozen

from coordinators.protocol.messages import Defined, DefinitionFailed, NotReady
from coordinators.record.record import Bindings
from coordinators.values.batch_coordinator import BatchCoordinator, CursorCoordinator
from coordinators.values.canonical import Json, canonical_json, json_copy
from coordinators.values.cursors import Cursors
from coordinators.values.errors import About, MetadataError, SpoutError

log = logging.getLogger(__name__)


@frozen
class Ask:
    """A request to define ``txid``.

    Attributes:
        number: counts asks, to distinguish a late answer from the awaited one.
        definite: define it regardless of ``is_ready``: it has been defined before, or another spout has input for it.
        upto: the last transaction to define with it, one by one, as long as the spout has input. So small transactions
            don't wait for a turn each.
        then: ``curr_metadata`` of the transactions right after it that have been defined before, too.
        bindings: converts ``txid``, which is a number as spouts know it, to the transaction's id for messages.
        max_batch: the most rows of a new batch; None: no limit.
        parked: by transaction, the metadata of parked batches of the spout, whose rows are not stored.
    """

    number: int
    txid: int
    prev_metadata: Json
    curr_metadata: Json
    definite: bool
    upto: int
    then: tuple[Json, ...] = ()
    bindings: Bindings = Bindings()  # noqa: RUF009 - frozen
    max_batch: int | None = None
    parked: Mapping[int, Json] = field(factory=dict)


@define
class TridentSpoutCoordinator:
    """Calls one spout's coordinator and converts its answers to messages. Storm's bolt of the same name.

    Attributes:
        topology: named in errors.
        tx_id: the spout's id.
        coordinator: the user's half.
        exact: whether a transaction that was defined must be defined the same for ever.
        lag: the last lag that the user's half returned. Replaced as a whole, so any thread may read it.
        expiring: in the same way, by parked transaction, why its rows may soon be gone.
    """

    topology: str
    tx_id: str
    coordinator: BatchCoordinator[Any]
    exact: bool
    lag: Mapping[str, int] = field(factory=dict, init=False)
    expiring: Mapping[int, str] = field(factory=dict, init=False)
    _max_batch: int | None = field(default=None, init=False)  # the last limit that was passed to the coordinator

    def restore(self, cursors: Cursors) -> None:
        """Pass a `CursorCoordinator` its positions; called once, first."""
        if isinstance(self.coordinator, CursorCoordinator):
            self.coordinator.restore(dict(cursors.items()))

    def answers(self, ask: Ask) -> Iterator[Defined | NotReady | DefinitionFailed]:
        """Yield the user's coordinator's answers; every exception becomes a message. The last one has no ``more``."""
        while True:
            message = self._answer(ask)
            yield message
            if not (isinstance(message, Defined) and message.more):
                return
            ask = evolve(
                ask,
                txid=ask.txid + 1,
                prev_metadata=message.metadata,
                curr_metadata=ask.then[0] if ask.then else None,
                definite=bool(ask.then),
                then=ask.then[1:],
            )

    def _answer(self, ask: Ask) -> Defined | NotReady | DefinitionFailed:
        try:
            if ask.max_batch != self._max_batch:
                self.coordinator.limit_batches(ask.max_batch)
                self._max_batch = ask.max_batch
            is_defined = ask.definite or self.coordinator.is_ready(ask.txid)
            answer = self._define(ask) if is_defined else self._not_ready(ask)
            self.lag = dict(self.coordinator.lag())
            if isinstance(answer, NotReady) or not answer.more:  # once a request is enough
                self._look_at(ask.parked)
            return answer
        except BaseException as error:  # noqa: BLE001 - user code: every exception is reported to the driver
            return DefinitionFailed(self.tx_id, ask.number, ask.txid, error)

    def _look_at(self, parked: Mapping[int, Json]) -> None:
        found = {txid: self.coordinator.expiring(json_copy(metadata)) for txid, metadata in parked.items()}
        expiring = {txid: why for txid, why in found.items() if why}
        for txid in expiring.keys() - self.expiring.keys():
            log.warning(
                "topology %s: the rows of parked transaction %d may soon be gone: %s. To fix this: `trident tx %s rows "
                "%d` stores them",
                *(self.topology, txid, expiring[txid], self.topology, txid),
            )
        self.expiring = expiring

    def _not_ready(self, ask: Ask) -> NotReady:
        return NotReady(self.tx_id, ask.number, ask.txid, self.coordinator.has_pending_input())

    def _define(self, ask: Ask) -> Defined:
        txid = ask.bindings.txid(ask.txid)
        where = f"topology {self.topology!r}, spout {self.tx_id!r}, transaction {txid}"
        about = About(topology=self.topology, spout=self.tx_id, txid=txid)
        metadata = self.coordinator.initialize_transaction(
            ask.txid, json_copy(ask.prev_metadata), json_copy(ask.curr_metadata)
        )
        try:
            text = canonical_json(metadata)
        except MetadataError as error:
            told = f"{where}: initialize_transaction returned {metadata!r}: {error}"
            raise MetadataError(told, **about) from error
        if self.exact and ask.curr_metadata is not None and text != canonical_json(ask.curr_metadata):
            raise SpoutError(
                f"{where}: was defined as {ask.curr_metadata!r} and is now defined as {metadata!r}. To fix this: "
                f"return curr_metadata if it is not None, as Replay.EXACT requires, or declare Replay.OPAQUE",
                **about,
            )
        moved = self.coordinator.moved(metadata) if isinstance(self.coordinator, CursorCoordinator) else {}
        return Defined(
            self.tx_id,
            ask.number,
            ask.txid,
            json_copy(metadata),
            moved,
            more=ask.txid < ask.upto,
            bytes=len(text.encode()),
        )
