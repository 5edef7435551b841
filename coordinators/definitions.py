"""Definitions: what is known about every transaction, and whom to ask next, for all spouts of a topology."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import define, field

from coordinators.canonical import Json
from coordinators.cursors import Cursors
from coordinators.errors import SpoutError
from coordinators.fingerprint import Fingerprint
from coordinators.notices import Defined, DefinitionFailed, ExtentsLearned, Fingerprinted, NotReady
from coordinators.record import CoordinatorRecord
from coordinators.spout_coordinator import Ask

POLL_MIN, POLL_MAX = 0.002, 0.05
"""Seconds until a spout that was not ready is asked again: doubles from the first to the second."""


ADMITTED_BYTES_MAX = 512 * 1024
"""New definitions admitted in one turn: with the positions that move, about what fits into one write."""


@define
class SpoutInquiry:
    """Where the asking of one spout for the frontier stands."""

    asked: Ask | None = None
    answer: Defined | None = None
    refused: int = 0  # number of the last ask answered by NotReady
    ask_again_at: float = 0.0
    wait: float = POLL_MIN
    backing_off: bool = False
    is_stale: bool = False  # the open ask was put before an earlier transaction had to be defined again


@define
class Definitions:
    """What is known about every transaction, and whom to ask next. Pure: time is an argument.

    The txid being asked for is the frontier; everything below it, from the window's start on, is defined or active. A
    transaction is ready when any spout is; then the others define it too, perhaps as nothing.

    Attributes:
        known: metadata by txid, then by spout: stored, or just defined.
        cursors: positions by spout: of those that define what a batch consists of, after the last admitted transaction;
            of those that learn it by emitting, after the last closed one.
        fingerprints: by txid, then by spout, what the rows of an attempt were.
        moved_upto: the last admitted transaction.
        exact: the spouts whose definitions stand; those of others depend on the one before, and are asked for again.
    """

    spouts: tuple[str, ...]
    exact: frozenset[str]
    known: dict[int, dict[str, Json]]
    cursors: dict[str, Cursors]
    frontier: int
    fingerprints: dict[int, dict[str, Fingerprint]] = field(factory=dict)
    moved_upto: int = field(init=False)
    _defined: dict[int, dict[str, Defined]] = field(factory=dict, init=False)
    _ahead: dict[int, dict[str, Defined]] = field(factory=dict, init=False)  # exact ones, not attempted yet
    _learned: dict[int, dict[str, ExtentsLearned]] = field(factory=dict, init=False)
    _inquiries: dict[str, SpoutInquiry] = field(init=False)
    _moved: dict[str, int] = field(init=False)  # the last admitted transaction that a spout had a part in
    _numbers: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """Nothing is asked yet; what is known at the start was stored, so its cursors have moved."""
        self.moved_upto = max([*self.known, self.frontier - 1])
        self._inquiries = {spout: SpoutInquiry() for spout in self.spouts}
        self._moved = {
            spout: max([txid for txid, known in self.known.items() if spout in known], default=self.frontier - 1)
            for spout in self.spouts
        }

    @classmethod
    def restored(cls, record: CoordinatorRecord, spouts: tuple[str, ...], exact: frozenset[str]) -> Definitions:
        """What ``record`` knows."""
        return cls(
            spouts,
            exact,
            {txid: dict(metadata) for txid, metadata in record.metadata.items()},
            dict(record.cursors),
            record.current_txid,
            {txid: dict(seen) for txid, seen in record.fingerprints.items()},
        )

    @property
    def admitted(self) -> dict[int, dict[str, Json]]:
        """The metadata of the transactions that were attempted: what has to be durable."""
        return {
            txid: {spout: definition for spout, definition in known.items() if txid <= self._moved.get(spout, txid)}
            for txid, known in self.known.items()
            if txid <= self.moved_upto
        }

    @property
    def defined(self) -> frozenset[int]:
        """The txids that may be emitted now, as far as the spouts are concerned."""
        return frozenset(self._defined)

    @property
    def asked(self) -> int:
        """How many asks there have been."""
        return self._numbers

    def is_fresh(self, txid: int) -> bool:
        """Whether no spout has ever defined ``txid``."""
        return not self.known.get(txid)

    def asks(self, now: float, upto: int) -> Iterator[tuple[str, Ask]]:
        """Whom to ask at this moment, for the frontier, and new ones behind it; each spout has at most one open ask."""
        is_fresh = self.is_fresh(self.frontier)
        definite = not is_fresh or any(entry.answer for entry in self._inquiries.values())
        for spout, inquiry in self._inquiries.items():
            held = inquiry.ask_again_at > now and (inquiry.backing_off or not definite)
            if inquiry.asked or inquiry.answer or held:
                continue
            self._numbers += 1
            inquiry.asked = Ask(
                self._numbers,
                self.frontier,
                self.known.get(self.frontier - 1, {}).get(spout),
                self.known.get(self.frontier, {}).get(spout),
                definite,
                # Only what stands once it is defined, and only where nothing was before.
                upto if is_fresh and spout in self.exact else self.frontier,
            )
            yield spout, inquiry.asked

    def next_ask_at(self) -> float | None:
        """When a spout that was not ready is due to be asked again; None if all asks are open or answered."""
        waiting = [entry.ask_again_at for entry in self._inquiries.values() if not (entry.asked or entry.answer)]
        return min(waiting, default=None)

    def take_defined(self, notice: Defined) -> None:
        """A spout has answered; the transaction is defined when all have."""
        inquiry = self._inquiries[notice.spout]
        is_stale = inquiry.is_stale
        awaited = inquiry.asked is not None and inquiry.asked.number == notice.ask
        if not notice.more:
            self._close(inquiry, notice.ask)
        if awaited and notice.txid == self.frontier and not is_stale:
            inquiry.answer = notice
            self._complete()
        else:
            self._keep_ahead(notice)

    def _complete(self) -> None:
        answers = self._answers()
        while len(answers) == len(self.spouts):
            self._defined[self.frontier] = answers
            self.known[self.frontier] = {spout: answer.metadata for spout, answer in answers.items()}
            self._turn_to(self.frontier + 1)
            answers = self._answers()

    def _answers(self) -> dict[str, Defined]:
        return {spout: entry.answer for spout, entry in self._inquiries.items() if entry.answer}

    def _keep_ahead(self, answer: Defined) -> None:
        # The spout has used input up for it, so it is never forgotten, although it isn't asked for now.
        self.known.setdefault(answer.txid, {}).setdefault(answer.spout, answer.metadata)
        if answer.spout in self.exact and answer.txid > self.moved_upto:
            self._ahead.setdefault(answer.txid, {})[answer.spout] = answer

    def take_not_ready(self, notice: NotReady, now: float) -> None:
        """A spout has nothing yet; it is asked again a little later."""
        inquiry = self._inquiries[notice.spout]
        if self._close(inquiry, notice.ask) and notice.txid == self.frontier:
            if not notice.is_pending:
                inquiry.refused = notice.ask
            inquiry.ask_again_at = now + inquiry.wait
            inquiry.wait = min(POLL_MAX, inquiry.wait * 2)

    def take_failure(self, notice: DefinitionFailed, retry_at: float) -> None:
        """A spout's coordinator raised; it is asked again at ``retry_at``."""
        inquiry = self._inquiries[notice.spout]
        if self._close(inquiry, notice.ask) and notice.txid == self.frontier:
            inquiry.ask_again_at = retry_at
            inquiry.backing_off = True

    def startable(self, now: float, held_until: Callable[[int], float], *, one_new: bool) -> Iterator[int]:
        """The transactions that may be admitted now, in order: as many new ones as fit into one write, at least one.

        Args:
            now: as ``held_until`` has it.
            held_until: the moment before which a transaction is not admitted, nor any after it.
            one_new: at most one that is new.
        """
        admitted, size = 0, 0
        for txid in sorted(self._defined):
            if now < held_until(txid):
                return
            if txid > self.moved_upto:
                size += sum(answer.bytes for answer in self._defined[txid].values())
                if admitted and (one_new or size > ADMITTED_BYTES_MAX):
                    return
                admitted += 1
            yield txid

    def admit(self, txid: int) -> None:
        """An attempt of ``txid`` starts with its definition; the next attempt must be asked for again."""
        self.moved_upto = max(self.moved_upto, txid)
        for spout, answer in self._defined.pop(txid).items():
            # In a replay cursors have moved before, but for those of a spout that is new since.
            if txid > self._moved[spout]:
                self._moved[spout] = txid
                self._move_cursors(spout, answer.moved)

    def take_emission(self, topology: str, notice: ExtentsLearned | Fingerprinted) -> None:
        """The live attempt of a transaction was emitted: now it is known what it consists of, or what its rows are.

        Raises:
            SpoutError: the rows are others than before, and the spout has promised the same.
        """
        txid, spout = notice.attempt.txid, notice.spout
        if isinstance(notice, ExtentsLearned):
            self.known[txid][spout] = notice.metadata
            self._learned.setdefault(txid, {})[spout] = notice
        elif spout in self.exact:
            seen = self.fingerprints.setdefault(txid, {})
            _check_same(topology, notice, seen.get(spout, notice.fingerprint))
            seen[spout] = notice.fingerprint

    def close_before(self, txid: int) -> None:
        """The transactions below ``txid`` are committed: what their emission moved has moved for good."""
        for closed in sorted(learned for learned in self._learned if learned < txid):
            for spout, notice in self._learned.pop(closed).items():
                self._move_cursors(spout, notice.moved)

    def go_back(self, txid: int) -> None:
        """``txid`` and every later one must be defined again, with what is known about them.

        What an exact spout defined for a transaction that was never attempted stands as it is.
        """
        later = [answers for known, answers in self._defined.items() if known >= txid]
        for answers in [*later, self._answers()]:
            for answer in answers.values():
                self._keep_ahead(answer)
        self._defined = {known: answers for known, answers in self._defined.items() if known < txid}
        self._learned = {known: notices for known, notices in self._learned.items() if known < txid}
        for spout, entry in self._inquiries.items():
            entry.is_stale = entry.asked is not None and spout not in self.exact
        self._turn_to(min(txid, self.frontier))
        self._complete()

    def forget_before(self, txid: int) -> None:
        """Drop what is known about transactions below ``txid``."""
        for known in [known for known in self.known if known < txid]:
            del self.known[known]
            self.fingerprints.pop(known, None)

    def refused_since(self, number: int) -> bool:
        """Whether every spout, asked after ask ``number``, was not ready for the frontier, and none is being asked."""
        return all(entry.refused > number and not entry.answer for entry in self._inquiries.values())

    def ask_now(self) -> None:
        """Don't wait for the next poll: somebody wants to know whether there is anything left."""
        for entry in self._inquiries.values():
            if not entry.backing_off:
                entry.ask_again_at = 0.0

    def _move_cursors(self, spout: str, moved: Mapping[str, Json]) -> None:
        if moved:
            self.cursors[spout] = self.cursors.get(spout, Cursors()).updated(moved)

    def _close(self, inquiry: SpoutInquiry, number: int) -> bool:
        if inquiry.asked is None or inquiry.asked.number != number:
            return False
        inquiry.asked, inquiry.backing_off, inquiry.is_stale = None, False, False
        return True

    def _turn_to(self, txid: int) -> None:
        self.frontier = txid
        ahead = self._ahead.pop(txid, {})
        for spout, entry in self._inquiries.items():
            # An ask that is still open keeps its number, so that its answer is recognised when it comes.
            entry.answer, entry.refused, entry.wait = ahead.get(spout), 0, POLL_MIN
            entry.ask_again_at, entry.backing_off = 0.0, False


def _check_same(topology: str, notice: Fingerprinted, before: Fingerprint) -> None:
    now = notice.fingerprint
    if now.agrees(before):
        return
    what = f"{now.rows} rows" if now.rows != before.rows else "other rows, as many,"
    raise SpoutError(
        f"topology {topology!r}, spout {notice.spout!r}, transaction {notice.attempt.txid}: attempt {notice.attempt} "
        f"read {what} where an earlier one read {before.rows} rows, from the same metadata. Nothing of this attempt is "
        f"committed. A spout with Replay.EXACT must give the same rows again, others declare Replay.OPAQUE; mend the "
        f"spout, or restore what it reads, and start the topology again"
    )
