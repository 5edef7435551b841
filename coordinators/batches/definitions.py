"""Definitions: what is known about every transaction, and whom to ask next, for all spouts of a topology."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import IntEnum

from attrs import define, field

from coordinators.batches.spout_coordinator import Ask
from coordinators.protocol.messages import Defined, DefinitionFailed, Fingerprinted, NotReady, OffsetsResolved
from coordinators.record.record import CoordinatorRecord
from coordinators.values.canonical import Fingerprint, Json
from coordinators.values.cursors import Cursors
from coordinators.values.errors import SpoutError


class Stage(IntEnum):
    """How far a transaction has come. No transaction is further than the one before it."""

    OPEN = 0
    """A spout has to be asked for it, or the one before it is open."""

    DEFINED = 1
    """The parts of all spouts stand: an attempt may start."""

    ATTEMPTED = 2
    """An attempt is live."""

    CLOSED = 3
    """It is committed."""


@define(kw_only=True)
class SpoutPart:
    """What one spout has said about a transaction.

    Attributes:
        metadata: what it consists of.
        bytes: how long ``metadata`` was as JSON when the spout returned it; 0: a record has it.
        moves: the cursors that move when its first attempt starts; None: that has been, so the part is durable.
        stands: the next attempt goes by it. Otherwise the spout is asked again, and is told ``metadata``.
        resolved: the cursors that move when the live attempt is closed.
        fingerprint: what the rows of an attempt were, where the spout has promised the same.
    """

    metadata: Json
    bytes: int = 0
    moves: Mapping[str, Json] | None = None
    stands: bool = False
    resolved: Mapping[str, Json] = field(factory=dict)
    fingerprint: Fingerprint | None = None

    @property
    def was_attempted(self) -> bool:
        """Whether an attempt was ever made with it, by whatever leader."""
        return self.moves is None


@define
class Definition:
    """All that is known about what a transaction consists of; ``parts`` are by spout."""

    parts: dict[str, SpoutPart] = field(factory=dict)
    stage: Stage = Stage.OPEN

    @property
    def is_new(self) -> bool:
        """Whether no attempt was ever made of it, by whatever leader."""
        return self.stage < Stage.ATTEMPTED and not any(part.was_attempted for part in self.parts.values())

    @property
    def metadata(self) -> dict[str, Json]:
        """What each spout's part consists of."""
        return {spout: part.metadata for spout, part in self.parts.items()}

    @property
    def attempted_metadata(self) -> dict[str, Json]:
        """What the parts consist of with which an attempt was made."""
        return {spout: part.metadata for spout, part in self.parts.items() if part.was_attempted}

    @property
    def fingerprints(self) -> dict[str, Fingerprint]:
        """What the rows of an attempt were, of the parts where that is known."""
        return {spout: part.fingerprint for spout, part in self.parts.items() if part.fingerprint is not None}

    @property
    def bytes(self) -> int:
        """How much there is to store of it."""
        return sum(part.bytes for part in self.parts.values())

    def stands_for(self, spouts: Collection[str]) -> bool:
        """Tell whether none of ``spouts`` has to be asked."""
        return all(spout in self.parts and self.parts[spout].stands for spout in spouts)

    def reopen(self, exact: Collection[str]) -> None:
        """Ask for it again, but for what one of the ``exact`` spouts has said and no attempt was made of."""
        self.stage = Stage.OPEN
        for spout, part in self.parts.items():
            part.resolved = {}
            part.stands = spout in exact and not part.was_attempted

    def check(self, spouts: Collection[str], exact: Collection[str]) -> None:
        """Assert what holds between any two transitions."""
        parts = self.parts.items()
        if self.stage in (Stage.DEFINED, Stage.ATTEMPTED):
            assert self.stands_for(spouts), f"a spout has to be asked, and it is {self.stage.name}: {self}"
        if self.stage >= Stage.ATTEMPTED:
            assert all(part.was_attempted for _, part in parts), (
                f"an attempt was made, and cursors haven't moved: {self}"
            )
        if self.stage is not Stage.ATTEMPTED:
            assert not any(part.resolved for _, part in parts), f"no attempt is live, and one has moved cursors: {self}"
        for spout, part in parts:
            if spout in exact and not part.was_attempted:
                assert part.stands, f"spout {spout!r} says a thing once, and would be asked again: {self}"

    def check_behind(self, before: Definition, number: int) -> None:
        """Assert what holds between this transaction, ``number``, and the one before it."""
        assert before.stage >= self.stage, f"{number} is ahead of the one before it: {before}, {self}"
        is_next = before.stage is Stage.CLOSED or not before.is_new or self.is_new
        assert is_next, f"{number} was attempted, and the one before it never: {before}, {self}"


POLL_MIN_SECONDS, POLL_MAX_SECONDS = 0.002, 0.05
"""Until a spout that was not ready is asked again: doubles from the first to the second."""


@define
class SpoutInquiry:
    """Where the asking of one spout for the frontier stands; it has at most one open ask.

    Attributes:
        asked: the open ask; None: there is none.
        refused: the number of the last ask that was answered by `NotReady`; 0: none was, at this frontier.
        ask_again_at: not before this moment.
        wait: seconds until a spout that is not ready now is asked again.
        backing_off: its coordinator raised, and nobody may ask before ``ask_again_at``.
        is_stale: the open ask was put before an earlier transaction had to be defined again.
    """

    asked: Ask | None = None
    refused: int = 0
    ask_again_at: float = 0.0
    wait: float = POLL_MIN_SECONDS
    backing_off: bool = False
    is_stale: bool = False

    def is_due(self, now: float, *, definite: bool) -> bool:
        """Tell whether to ask now; where another spout has something, only an error makes this one wait."""
        is_held = self.ask_again_at > now and (self.backing_off or not definite)
        return self.asked is None and not is_held

    def is_awaited(self, ask: int) -> bool:
        """Tell whether the answer to ``ask`` is the one that is waited for."""
        return self.asked is not None and self.asked.number == ask and not self.is_stale

    def close(self, ask: int) -> bool:
        """End the open ask, if it is ``ask``, and return whether it was."""
        if self.asked is None or self.asked.number != ask:
            return False
        self.asked, self.backing_off, self.is_stale = None, False, False
        return True

    def poll_later(self, answer: NotReady, now: float) -> None:
        """Ask again a little later; each time in a row the wait doubles, up to `POLL_MAX_SECONDS`."""
        if not answer.is_pending:
            self.refused = answer.ask
        self.ask_again_at = now + self.wait
        self.wait = min(POLL_MAX_SECONDS, self.wait * 2)

    def back_off(self, until: float) -> None:
        """Ask again at ``until``, whatever happens meanwhile."""
        self.ask_again_at, self.backing_off = until, True

    def begin(self) -> None:
        """Begin with another frontier. An open ask keeps its number, so that its answer is known when it comes."""
        self.refused, self.wait, self.ask_again_at, self.backing_off = 0, POLL_MIN_SECONDS, 0.0, False


@define
class Inquiries:
    """The inquiries of all spouts.

    Attributes:
        by_spout: one for each spout.
        asked: how many asks there have been.
    """

    by_spout: dict[str, SpoutInquiry]
    asked: int = 0

    @classmethod
    def of(cls, spouts: Iterable[str]) -> Inquiries:
        """Make one for each of ``spouts``; nobody has been asked."""
        return cls({spout: SpoutInquiry() for spout in spouts})

    def next_number(self) -> int:
        """Count one more ask, and return its number."""
        self.asked += 1
        return self.asked

    def due(self, now: float, *, definite: bool) -> Iterator[str]:
        """Give the spouts that may be asked at this moment."""
        for spout, inquiry in self.by_spout.items():
            if inquiry.is_due(now, definite=definite):
                yield spout

    def next_at(self, unanswered: Iterable[str]) -> float | None:
        """Return when the first of ``unanswered`` is due; None if each of them has an open ask."""
        inquiries = [self.by_spout[spout] for spout in unanswered]
        return min((each.ask_again_at for each in inquiries if each.asked is None), default=None)

    @property
    def unready(self) -> tuple[str, ...]:
        """The spouts that have answered at this frontier that they have nothing."""
        return tuple(spout for spout, inquiry in self.by_spout.items() if inquiry.refused)

    def refused_since(self, ask: int) -> bool:
        """Tell whether every spout, asked after ``ask``, was not ready."""
        return all(inquiry.refused > ask for inquiry in self.by_spout.values())

    def ask_now(self) -> None:
        """Don't wait for the next poll: somebody wants to know whether there is anything left."""
        for inquiry in self.by_spout.values():
            if not inquiry.backing_off:
                inquiry.ask_again_at = 0.0

    def begin(self) -> None:
        """Begin with another frontier."""
        for inquiry in self.by_spout.values():
            inquiry.begin()

    def outdate(self, spouts: Iterable[str]) -> None:
        """Have the open asks of ``spouts`` count no more: what they were told is no longer so."""
        for spout in spouts:
            inquiry = self.by_spout[spout]
            inquiry.is_stale = inquiry.asked is not None


ADMITTED_BYTES_MAX = 512 * 1024
"""New definitions admitted in one turn: with the positions that move, about what fits into one write."""


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
        inquiries: where the asking for the frontier stands.
    """

    spouts: tuple[str, ...]
    exact: frozenset[str]
    cursors: dict[str, Cursors]
    frontier: int
    known: dict[int, Definition] = field(factory=dict)
    inquiries: Inquiries = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.inquiries = Inquiries.of(self.spouts)
        self._check_all()

    @classmethod
    def restored(cls, record: CoordinatorRecord, spouts: tuple[str, ...], exact: frozenset[str]) -> Definitions:
        """Make the definitions that ``record`` knows."""
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

    def is_new(self, number: int) -> bool:
        """Tell whether no attempt of ``number`` was ever made."""
        return number not in self.known or self.known[number].is_new

    def is_defined(self, number: int) -> bool:
        """Tell whether an attempt of ``number`` may start now, as far as the spouts are concerned."""
        return number in self.known and self.known[number].stage is Stage.DEFINED

    def metadata(self, number: int) -> dict[str, Json]:
        """Return what ``number`` consists of, by spout."""
        return self.known[number].metadata

    # --- what is durable ----------------------------------------------------------------------------------------------

    @property
    def stored_metadata(self) -> dict[int, dict[str, Json]]:
        """The metadata of all that was attempted, by number, then by spout."""
        return {number: each.attempted_metadata for number, each in self.known.items() if not each.is_new}

    @property
    def stored_fingerprints(self) -> dict[int, dict[str, Fingerprint]]:
        """What the rows of attempts were of transactions that are not closed, by number, then by spout."""
        seen = {number: each.fingerprints for number, each in self.known.items() if each.stage is not Stage.CLOSED}
        return {number: parts for number, parts in seen.items() if parts}

    # --- asking -------------------------------------------------------------------------------------------------------

    def asks(self, now: float, upto: int) -> Iterator[tuple[str, Ask]]:
        """Give whom to ask now, for the frontier and those behind it; each spout has at most one open ask."""
        definite = bool(self._parts(self.frontier))
        for spout in self.inquiries.due(now, definite=definite):
            if spout in self._answered:
                continue
            # Ahead goes only what stands once it is defined.
            ask = self._ask(spout, upto if spout in self.exact else self.frontier, definite=definite)
            self.inquiries.by_spout[spout].asked = ask
            yield spout, ask

    def _ask(self, spout: str, upto: int, *, definite: bool) -> Ask:
        before = self._parts(self.frontier - 1).get(spout)
        said = list(self._to_repeat(spout, upto))
        behind = self.frontier + max(1, len(said))
        goes_on = not any(spout in each.parts for number, each in self.known.items() if number >= behind)
        return Ask(
            self.inquiries.next_number(),
            self.frontier,
            before.metadata if before else None,
            said[0] if said else None,
            definite,
            upto if goes_on else behind - 1,
            tuple(said[1:]),
        )

    def _to_repeat(self, spout: str, upto: int) -> Iterator[Json]:
        """Give what ``spout`` has said of the frontier and those right behind it, and has to say again."""
        for number in range(self.frontier, upto + 1):
            part = self._parts(number).get(spout)
            if part is None or part.stands:
                return
            yield part.metadata

    @property
    def _answered(self) -> set[str]:
        return {spout for spout, part in self._parts(self.frontier).items() if part.stands}

    def next_ask_at(self) -> float | None:
        """Return when a spout that was not ready is due to be asked again; None if all asks are open or answered."""
        return self.inquiries.next_at(set(self.spouts) - self._answered)

    def refused_since(self, ask: int) -> bool:
        """Tell whether every spout, asked after ``ask``, was not ready for the frontier, and none is being asked."""
        return not self._answered.intersection(self.spouts) and self.inquiries.refused_since(ask)

    def take_defined(self, message: Defined) -> None:
        """Take a spout's answer; the transaction is defined when all have answered."""
        inquiry, number, spout = self.inquiries.by_spout[message.spout], message.txid, message.spout
        is_awaited = inquiry.is_awaited(message.ask)
        if not message.more:
            inquiry.close(message.ask)
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
            self._seek(self.frontier + 1)

    def take_not_ready(self, message: NotReady, now: float) -> None:
        """Take note that a spout has nothing yet; it is asked again a little later."""
        inquiry = self.inquiries.by_spout[message.spout]
        if inquiry.close(message.ask) and message.txid == self.frontier:
            inquiry.poll_later(message, now)

    def take_failure(self, message: DefinitionFailed, retry_at: float) -> None:
        """Take note that a spout's coordinator raised; it is asked again at ``retry_at``."""
        inquiry = self.inquiries.by_spout[message.spout]
        if inquiry.close(message.ask) and message.txid == self.frontier:
            inquiry.back_off(retry_at)

    def _seek(self, number: int) -> None:
        self.frontier = number
        self.inquiries.begin()

    def _parts(self, number: int) -> Mapping[str, SpoutPart]:
        return self.known[number].parts if number in self.known else {}

    # --- attempts -----------------------------------------------------------------------------------------------------

    def startable(self, now: float, held_until: Callable[[int], float], *, one_new: bool) -> Iterator[int]:
        """Give what may be admitted now, in order: as many new transactions as fit into one write, at least one.

        Args:
            now: as ``held_until`` has it.
            held_until: the moment before which a transaction is not admitted, nor any after it.
            one_new: at most one that is new.
        """
        admitted, size = 0, 0
        for number in sorted(filter(self.is_defined, self.known)):
            if now < held_until(number):
                return
            if self.is_new(number):
                size += self.known[number].bytes
                if admitted and (one_new or size > ADMITTED_BYTES_MAX):
                    return
                admitted += 1
            yield number

    def admit(self, number: int) -> None:
        """Start an attempt of ``number`` with its definition; the next attempt must be asked for again."""
        definition = self.known[number]
        assert definition.stage is Stage.DEFINED, f"an attempt of {number} starts without a definition: {definition}"
        definition.stage = Stage.ATTEMPTED
        for spout, part in definition.parts.items():
            if part.moves is not None:  # in a replay they have moved before, but for those of a spout that is new since
                self._move_cursors(spout, part.moves)
                part.moves = None
        self._check(number)

    def take_emission(self, topology: str, number: int, message: OffsetsResolved | Fingerprinted) -> None:
        """Take what the emission of the live attempt has shown: what the transaction consists of, or what its rows are.

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
        """Have ``number`` and every later one defined again, with what is known about them.

        What an exact spout defined for a transaction that was never attempted stands as it is.
        """
        for definition in [each for known, each in self.known.items() if known >= number]:
            definition.reopen(self.exact)
        self.inquiries.outdate(set(self.spouts) - self.exact)
        self._seek(min(number, self.frontier))
        self._complete()
        self._check_all()

    def close_before(self, number: int) -> None:
        """Close the transactions below ``number``: what their emission moved has moved for good."""
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
        self.known = {known: each for known, each in self.known.items() if known >= number}

    def _move_cursors(self, spout: str, moved: Mapping[str, Json]) -> None:
        if moved:
            self.cursors[spout] = self.cursors.get(spout, Cursors()).updated(moved)

    # --- invariants ---------------------------------------------------------------------------------------------------

    def _check_all(self) -> None:
        for number in self.known:
            self._check(number)

    def _check(self, number: int) -> None:
        """Assert what holds for ``number`` between any two transitions."""
        definition = self.known[number]
        definition.check(self.spouts, self.exact)
        is_open = definition.stage is Stage.OPEN
        assert is_open == (number >= self.frontier), f"{number} at {self.frontier}: {definition}"
        if (before := self.known.get(number - 1)) is not None:
            definition.check_behind(before, number)


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
