"""Definitions: what is known about every transaction, and whom to ask next, for all spouts of a topology."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import define, field

from coordinators.canonical import Json
from coordinators.cursors import Cursors
from coordinators.definition import Definition, SpoutPart, Stage
from coordinators.errors import SpoutError
from coordinators.fingerprint import Fingerprint
from coordinators.messages import Defined, DefinitionFailed, Fingerprinted, NotReady, OffsetsResolved
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
    refused: int = 0  # number of the last ask answered by NotReady
    ask_again_at: float = 0.0
    wait: float = POLL_MIN
    backing_off: bool = False
    is_stale: bool = False  # the open ask was put before an earlier transaction had to be defined again


@define
class Definitions:
    """What is known about every transaction, and whom to ask next. Pure: time is an argument.

    A transaction is ready when any spout is; then the others define it too, perhaps as nothing. All of it goes by the
    numbers of transactions, as spouts do, who call them txids.

    Attributes:
        exact: the spouts whose definitions stand; those of others depend on the one before, and are asked for again.
        cursors: by spout, the positions from which it goes on. A spout that defines its batches moves them with each
            transaction that is admitted; one that finds out by emitting moves them with each that is closed.
        frontier: the transaction that is asked for: the lowest that is open.
        known: definitions by number, from the one before the lowest that is not committed.
    """

    spouts: tuple[str, ...]
    exact: frozenset[str]
    cursors: dict[str, Cursors]
    frontier: int
    known: dict[int, Definition] = field(factory=dict)
    _inquiries: dict[str, SpoutInquiry] = field(init=False)
    _asked: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """Nothing is asked yet."""
        self._inquiries = {spout: SpoutInquiry() for spout in self.spouts}
        self._check_all()

    @classmethod
    def restored(cls, record: CoordinatorRecord, spouts: tuple[str, ...], exact: frozenset[str]) -> Definitions:
        """What ``record`` knows."""
        frontier = record.numbers.upto(record.current_txid - 1) + 1
        return cls(
            spouts,
            exact,
            dict(record.cursors),
            frontier,
            {
                number: _restored(metadata, record.fingerprints.get(number, {}), is_closed=number < frontier)
                for number, metadata in record.metadata.items()
            },
        )

    @property
    def asked(self) -> int:
        """How many asks there have been."""
        return self._asked

    def is_new(self, number: int) -> bool:
        """Whether no attempt of ``number`` was ever made."""
        return number not in self.known or self.known[number].is_new

    def is_defined(self, number: int) -> bool:
        """Whether an attempt of ``number`` may start now, as far as the spouts are concerned."""
        return number in self.known and self.known[number].stage is Stage.DEFINED

    def metadata(self, number: int) -> dict[str, Json]:
        """What ``number`` consists of, by spout."""
        return self.known[number].metadata

    # --- what is durable ----------------------------------------------------------------------------------------------

    @property
    def stored_metadata(self) -> dict[int, dict[str, Json]]:
        """The metadata of all that was attempted, by number, then by spout."""
        return {
            number: {spout: part.metadata for spout, part in each.parts.items() if part.was_attempted}
            for number, each in self.known.items()
            if not each.is_new
        }

    @property
    def stored_fingerprints(self) -> dict[int, dict[str, Fingerprint]]:
        """What the rows of attempts were of transactions that are not closed, by number, then by spout."""
        seen = {
            number: {spout: part.fingerprint for spout, part in each.parts.items() if part.fingerprint is not None}
            for number, each in self.known.items()
            if each.stage is not Stage.CLOSED
        }
        return {number: parts for number, parts in seen.items() if parts}

    # --- asking -------------------------------------------------------------------------------------------------------

    def asks(self, now: float, upto: int) -> Iterator[tuple[str, Ask]]:
        """Whom to ask at this moment, for the frontier and those behind it; each spout has at most one open ask."""
        definite = bool(self._parts(self.frontier))
        for spout, inquiry in self._inquiries.items():
            held = inquiry.ask_again_at > now and (inquiry.backing_off or not definite)
            if inquiry.asked or self._has_answered(spout) or held:
                continue
            # Ahead goes only what stands once it is defined.
            inquiry.asked = self._ask(spout, upto if spout in self.exact else self.frontier, definite=definite)
            yield spout, inquiry.asked

    def _ask(self, spout: str, upto: int, *, definite: bool) -> Ask:
        self._asked += 1
        before = self._parts(self.frontier - 1).get(spout)
        said = list(self._to_repeat(spout, upto))
        behind = self.frontier + max(1, len(said))
        goes_on = not any(spout in each.parts for number, each in self.known.items() if number >= behind)
        return Ask(
            self._asked,
            self.frontier,
            before.metadata if before else None,
            said[0] if said else None,
            definite,
            upto if goes_on else behind - 1,
            tuple(said[1:]),
        )

    def _to_repeat(self, spout: str, upto: int) -> Iterator[Json]:
        """What ``spout`` has said of the frontier and those right behind it, and has to say again."""
        for number in range(self.frontier, upto + 1):
            part = self._parts(number).get(spout)
            if part is None or part.stands:
                return
            yield part.metadata

    def _has_answered(self, spout: str) -> bool:
        part = self._parts(self.frontier).get(spout)
        return part is not None and part.stands

    def next_ask_at(self) -> float | None:
        """When a spout that was not ready is due to be asked again; None if all asks are open or answered."""
        inquiries = self._inquiries.items()
        waiting = [each.ask_again_at for spout, each in inquiries if not (each.asked or self._has_answered(spout))]
        return min(waiting, default=None)

    def refused_since(self, number: int) -> bool:
        """Whether every spout, asked after ask ``number``, was not ready for the frontier, and none is being asked."""
        return all(entry.refused > number and not self._has_answered(spout) for spout, entry in self._inquiries.items())

    def ask_now(self) -> None:
        """Don't wait for the next poll: somebody wants to know whether there is anything left."""
        for entry in self._inquiries.values():
            if not entry.backing_off:
                entry.ask_again_at = 0.0

    def take_defined(self, message: Defined) -> None:
        """A spout has answered; the transaction is defined when all have."""
        inquiry, number, spout = self._inquiries[message.spout], message.txid, message.spout
        is_awaited = inquiry.asked is not None and inquiry.asked.number == message.ask and not inquiry.is_stale
        if not message.more:
            self._close(inquiry, message.ask)
        parts = self.known.setdefault(number, Definition()).parts
        before = parts.get(spout)
        is_answer = is_awaited and number == self.frontier
        if is_answer or before is None:  # where nobody waits for it, the spout has used input up for it all the same
            parts[spout] = SpoutPart(
                metadata=message.metadata,
                bytes=message.bytes,
                moves=None if before and before.was_attempted else message.moved,
                stands=is_answer or spout in self.exact,
                fingerprint=before.fingerprint if before else None,
            )
        self._complete()
        self._check(number)

    def _complete(self) -> None:
        while self.frontier in self.known and self.known[self.frontier].stands_for(self.spouts):
            self.known[self.frontier].stage = Stage.DEFINED
            self._turn_to(self.frontier + 1)

    def take_not_ready(self, message: NotReady, now: float) -> None:
        """A spout has nothing yet; it is asked again a little later."""
        inquiry = self._inquiries[message.spout]
        if self._close(inquiry, message.ask) and message.txid == self.frontier:
            if not message.is_pending:
                inquiry.refused = message.ask
            inquiry.ask_again_at = now + inquiry.wait
            inquiry.wait = min(POLL_MAX, inquiry.wait * 2)

    def take_failure(self, message: DefinitionFailed, retry_at: float) -> None:
        """A spout's coordinator raised; it is asked again at ``retry_at``."""
        inquiry = self._inquiries[message.spout]
        if self._close(inquiry, message.ask) and message.txid == self.frontier:
            inquiry.ask_again_at = retry_at
            inquiry.backing_off = True

    def _close(self, inquiry: SpoutInquiry, number: int) -> bool:
        if inquiry.asked is None or inquiry.asked.number != number:
            return False
        inquiry.asked, inquiry.backing_off, inquiry.is_stale = None, False, False
        return True

    def _turn_to(self, number: int) -> None:
        self.frontier = number
        for entry in self._inquiries.values():
            # An ask that is still open keeps its number, so that its answer is recognised when it comes.
            entry.refused, entry.wait, entry.ask_again_at, entry.backing_off = 0, POLL_MIN, 0.0, False

    def _parts(self, number: int) -> Mapping[str, SpoutPart]:
        return self.known[number].parts if number in self.known else {}

    # --- attempts -----------------------------------------------------------------------------------------------------

    def startable(self, now: float, held_until: Callable[[int], float], *, one_new: bool) -> Iterator[int]:
        """The transactions that may be admitted now, in order: as many new ones as fit into one write, at least one.

        Args:
            now: as ``held_until`` has it.
            held_until: the moment before which a transaction is not admitted, nor any after it.
            one_new: at most one that is new.
        """
        admitted, size = 0, 0
        for number in sorted(number for number, each in self.known.items() if each.stage is Stage.DEFINED):
            if now < held_until(number):
                return
            if self.is_new(number):
                size += self.known[number].bytes
                if admitted and (one_new or size > ADMITTED_BYTES_MAX):
                    return
                admitted += 1
            yield number

    def admit(self, number: int) -> None:
        """An attempt of ``number`` starts with its definition; the next attempt must be asked for again."""
        definition = self.known[number]
        assert definition.stage is Stage.DEFINED, f"an attempt of {number} starts without a definition: {definition}"
        definition.stage = Stage.ATTEMPTED
        for spout, part in definition.parts.items():
            if part.moves is not None:  # in a replay they have moved before, but for those of a spout that is new since
                self._move_cursors(spout, part.moves)
                part.moves = None
        self._check(number)

    def take_emission(self, topology: str, number: int, message: OffsetsResolved | Fingerprinted) -> None:
        """The live attempt of a transaction was emitted: now it is known what it consists of, or what its rows are.

        Raises:
            SpoutError: the rows are others than before, and the spout has promised the same.
        """
        spout = message.spout
        part = self.known[number].parts[spout]
        if isinstance(message, OffsetsResolved):
            part.metadata, part.resolved = message.metadata, message.moved
        elif spout in self.exact:
            _check_same(topology, message, part.fingerprint or message.fingerprint)
            part.fingerprint = message.fingerprint
        self._check(number)

    def go_back(self, number: int) -> None:
        """``number`` and every later one must be defined again, with what is known about them.

        What an exact spout defined for a transaction that was never attempted stands as it is.
        """
        for known, definition in self.known.items():
            if known >= number:
                definition.reopen(self.exact)
        for spout, entry in self._inquiries.items():
            entry.is_stale = entry.asked is not None and spout not in self.exact
        self._turn_to(min(number, self.frontier))
        self._complete()
        self._check_all()

    def close_before(self, number: int) -> None:
        """The transactions below ``number`` are committed: what their emission moved has moved for good."""
        for closed in sorted(known for known in self.known if known < number):
            definition = self.known[closed]
            assert definition.stage >= Stage.ATTEMPTED, f"{closed} is closed without an attempt: {definition}"
            for spout, part in definition.parts.items():
                self._move_cursors(spout, part.resolved)
                part.resolved = {}
            definition.stage = Stage.CLOSED
            self._check(closed)

    def forget_before(self, number: int) -> None:
        """Drop what is known about transactions below ``number``."""
        for known in [known for known in self.known if known < number]:
            del self.known[known]

    def _move_cursors(self, spout: str, moved: Mapping[str, Json]) -> None:
        if moved:
            self.cursors[spout] = self.cursors.get(spout, Cursors()).updated(moved)

    # --- invariants ---------------------------------------------------------------------------------------------------

    def _check_all(self) -> None:
        for number in self.known:
            self._check(number)

    def _check(self, number: int) -> None:
        """Assert what holds for ``number`` between any two transitions."""
        definition, before = self.known[number], self.known.get(number - 1)
        definition.check(self.spouts, self.exact)
        assert (definition.stage is Stage.OPEN) == (number >= self.frontier), (
            f"{number} at {self.frontier}: {definition}"
        )
        if before is not None:
            assert before.stage >= definition.stage, f"{number} is ahead of the one before it: {before}, {definition}"
            is_next = before.stage is Stage.CLOSED or not before.is_new or definition.is_new
            assert is_next, f"{number} was attempted, and the one before it never: {before}, {definition}"


def _restored(metadata: Mapping[str, Json], seen: Mapping[str, Fingerprint], *, is_closed: bool) -> Definition:
    parts = {spout: SpoutPart(metadata=each, fingerprint=seen.get(spout)) for spout, each in metadata.items()}
    return Definition(parts, Stage.CLOSED if is_closed else Stage.OPEN)


def _check_same(topology: str, message: Fingerprinted, before: Fingerprint) -> None:
    now = message.fingerprint
    if now.agrees(before):
        return
    what = f"{now.rows} rows" if now.rows != before.rows else "other rows, as many,"
    raise SpoutError(
        f"topology {topology!r}, spout {message.spout!r}, transaction {message.attempt.txid}: attempt "
        f"{message.attempt} read {what} where an earlier one read {before.rows} rows, from the same metadata. "
        f"Nothing of this attempt is committed. A spout with Replay.EXACT must give the same rows again, others "
        f"declare Replay.OPAQUE; mend the spout, or restore what it reads, and start the topology again",
        topology=topology,
        attempt=message.attempt,
        spout=message.spout,
    )
