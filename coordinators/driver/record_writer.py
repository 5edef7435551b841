"""The writer of the record, and the successes that are still owed.

`RecordWriter` collects the durable state of a leadership and stores all changes of a turn in one write. The class
`OwedSuccesses` remembers the transactions whose success is announced but not delivered.
"""

from __future__ import annotations

from typing import Self

from attrs import define, evolve

from coordinators.batches.admission import Admission
from coordinators.protocol.protocol import StoreRecord
from coordinators.record.record import CommitIntent, CoordinatorRecord
from coordinators.record.store import RecordStore
from coordinators.record.wishes import OUTCOMES_KEPT
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import canonical_json, content_hash


@define
class OwedSuccesses:
    """The successes that were announced, or will be, and are not delivered.

    Attributes:
        attempt_ids: of the committed attempts, by txid.
        upto: the last txid up to which every success is delivered.
    """

    attempt_ids: dict[int, int]
    upto: int

    @classmethod
    def restored(cls, record: CoordinatorRecord) -> Self:
        """Return the successes that earlier leaders have left undelivered."""
        owed = {txid: each for txid, each in record.attempt_ids.items() if txid < record.current_txid}
        return cls(owed, record.success_upto)

    @property
    def attempts(self) -> list[TransactionAttempt]:
        """The attempts with an owed success, lowest first."""
        return [TransactionAttempt(txid, attempt_id) for txid, attempt_id in sorted(self.attempt_ids.items())]

    @property
    def durable(self) -> dict[int, int]:
        """The attempt ids that the record must keep, by txid: a later leader delivers their successes again."""
        return {txid: attempt_id for txid, attempt_id in self.attempt_ids.items() if txid > self.upto}

    def owe(self, attempt: TransactionAttempt) -> None:
        """Add ``attempt``, which is committed and whose success is not delivered."""
        self.attempt_ids[attempt.txid] = attempt.attempt_id

    def deliver(self, txid: int, last_committed: int) -> TransactionAttempt | None:
        """Record that the success of ``txid`` is delivered; return the attempt, or None if it was delivered before.

        Args:
            txid: the transaction.
            last_committed: the last committed txid in the stored record. The machine may have closed another one in
                this turn, whose success is owed only from the next write on.
        """
        attempt_id = self.attempt_ids.pop(txid, None)
        self.upto = min(self.attempt_ids, default=last_committed + 1) - 1
        return None if attempt_id is None else TransactionAttempt(txid, attempt_id)


@define
class RecordWriter:
    """Writes the record of one leadership.

    Attributes:
        store: where it is written.
        record: the durable state as this leadership has last written or read it.
        admission: the bindings, definitions, times and failures to store.
        owed: the successes that a later leader would have to deliver.
    """

    store: RecordStore
    record: CoordinatorRecord
    admission: Admission
    owed: OwedSuccesses

    @property
    def is_due(self) -> bool:
        """Whether a write is due even if the machine wants nothing stored."""
        return self._only_success_is_new or self.admission.failures.waits_are_news(self.record)

    @property
    def _only_success_is_new(self) -> bool:
        # A delivered success is stored with the next write; it gets its own write only if no other is in sight.
        return not self.admission.machine.active and not self.owed.attempt_ids and self.has_new_success

    @property
    def has_new_success(self) -> bool:
        """Whether a success was delivered that is not in the record yet."""
        return self.record.success_upto < self.owed.upto

    def write(self, *stores: StoreRecord) -> None:
        """Write the current durable state. ``stores`` are the machine's requests; the last one counts.

        Raises:
            FencedError: another process leads.
            CoordinationLost: the record can't be reached.
        """
        machine, admission = self.admission.machine, self.admission
        stored = stores[-1] if stores else None
        outcomes = [outcome for each in stores for outcome in each.outcomes]
        current = self.record.current_txid if stored is None else stored.current_txid
        closes = current > self.record.current_txid
        self._forget_before(current)
        definitions = admission.definitions
        live = machine.attempt_ids if stored is None else stored.attempt_ids
        committing = machine.committing if stored is None else stored.committing
        record = evolve(
            self.record,
            epoch=self.store.epoch,
            seq=self.record.seq + 1,
            current_txid=current,
            attempt_ids={**self.owed.durable, **live},
            metadata=definitions.stored_metadata,
            committing=tuple(self._intent(attempt) for attempt in committing),
            committed_as=self.owed.attempt_ids[current - 1] if closes else self.record.committed_as,
            cursors=dict(definitions.cursors),
            success_upto=self.owed.upto,
            fingerprints=definitions.stored_fingerprints,
            failures=admission.failures.durable(current),
            times=admission.times.from_txid(current - 1),
            bindings=admission.bindings,
            standing=machine.standing if stored is None else stored.standing,
            parked=machine.parked if stored is None else stored.parked,
            outcomes=(*self.record.outcomes, *outcomes)[-OUTCOMES_KEPT:],
            bad_rows=admission.bad_rows.durable(committing),
        )
        self.store.write(record)
        self.record = record

    def _forget_before(self, current_txid: int) -> None:
        admission = self.admission
        number = admission.first_number(current_txid)
        admission.definitions.close_before(number)
        admission.definitions.forget_before(number - 1)
        admission.bad_rows.forget_before(current_txid)
        admission.bindings = admission.bindings.kept_from(min(self.owed.upto + 1, current_txid - 1))

    def _intent(self, attempt: TransactionAttempt) -> CommitIntent:
        earlier = next((intent for intent in self.record.committing if intent.attempt == attempt), None)
        metadata = self.admission.metadata(attempt.txid)
        return earlier or CommitIntent(attempt, content_hash(canonical_json(metadata)))
