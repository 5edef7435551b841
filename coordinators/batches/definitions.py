"""Definitions of transactions, and the questions to spouts that lead to them.

`Definitions` stores the metadata of every transaction by spout (`Definition`, `SpoutPart`), and decides which spout to
ask next. The classes `SpoutInquiry` and `Inquiries` track the open question to each spout and its polling interval.
"""

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
    """A spout must be asked for it, or the transaction before it is open."""

    DEFINED = 1
    """The parts of all spouts are defined: an attempt may start."""

    ATTEMPTED = 2
    """An attempt is live."""

    CLOSED = 3
    """The transaction is committed."""


@define(kw_only=True)
class SpoutPart:
    """A spout's part of a transaction.

    Attributes:
        metadata: the definition that the spout returned.
        bytes: the length of ``metadata`` as JSON when the spout returned it; 0: it was read from a record.
        moves: the cursors that move when the first attempt starts; None: they have moved, so the part is durable.
        stands: whether the next attempt uses it unchanged; otherwise the spout is asked again, with ``metadata``.
        resolved: the cursors that move when the live attempt is closed.
        fingerprint: of the rows of an attempt, if the spout has promised the same rows for every attempt.
    """

    metadata: Json
    bytes: int = 0
    moves: Mapping[str, Json] | None = None
    stands: bool = False
    resolved: Mapping[str, Json] = field(factory=dict)
    fingerprint: Fingerprint | None = None

    @property
    def was_attempted(self) -> bool:
        """Whether any leader ever made an attempt with it."""
        return self.moves is None


@define
class Definition:
    """The definition of a transaction: the part of each spout in it, by the spout's name, and its stage."""

    parts: dict[str, SpoutPart] = field(factory=dict)
    stage: Stage = Stage.OPEN
    _attempted: dict[str, Json] | None = field(default=None, init=False, eq=False, repr=False)  # None: must be made
    _fingerprints: dict[str, Fingerprint] | None = field(default=None, init=False, eq=False, repr=False)

    @property
    def is_new(self) -> bool:
        """Whether no leader ever made an attempt of it."""
        return self.stage < Stage.ATTEMPTED and not self.attempted_metadata

    @property
    def metadata(self) -> dict[str, Json]:
        """The metadata of each spout's part."""
        return {spout: part.metadata for spout, part in self.parts.items()}

    @property
    def attempted_metadata(self) -> dict[str, Json]:
        """The metadata of the parts with which an attempt was made; the same object until they change."""
        if self._attempted is None:
            self._attempted = {spout: part.metadata for spout, part in self.parts.items() if part.was_attempted}
        return self._attempted

    @property
    def fingerprints(self) -> dict[str, Fingerprint]:
        """The known fingerprints of the rows of an attempt, by spout; the same object until one changes."""
        if self._fingerprints is None:
            known = {spout: part.fingerprint for spout, part in self.parts.items()}
            self._fingerprints = {spout: each for spout, each in known.items() if each is not None}
        return self._fingerprints

    def metadata_changed(self) -> None:
        """Make `attempted_metadata` anew."""
        self._attempted = None

    def fingerprint_changed(self) -> None:
        """Make `fingerprints` anew."""
        self._fingerprints = None

    @property
    def bytes(self) -> int:
        """How many bytes of metadata there are to store."""
        return sum(part.bytes for part in self.parts.values())

    def stands_for(self, spouts: Collection[str]) -> bool:
        """Return true if none of ``spouts`` must be asked."""
        for spout in spouts:  # noqa: SIM110 - called several times a transaction, and a generator is slower
            if spout not in self.parts or not self.parts[spout].stands:
                return False
        return True

    def reopen(self, exact: Collection[str]) -> None:
        """Reopen it: every part must be asked for again, except unattempted parts of ``exact`` spouts."""
        self.stage = Stage.OPEN
        for spout, part in self.parts.items():
            part.resolved = {}
            part.stands = spout in exact and not part.was_attempted

    def check(self, spouts: Collection[str], exact: Collection[str]) -> None:
        """Assert that the stage and the parts of this definition fit together.

        Args:
            spouts: all of the topology.
            exact: those whose definition is never asked for a second time once it was given.
        """
        stage = self.stage
        if stage is Stage.DEFINED or stage is Stage.ATTEMPTED:
            assert self.stands_for(spouts), f"a spout has to be asked, and it is {stage.name}: {self}"
        is_attempted, is_live = stage >= Stage.ATTEMPTED, stage is Stage.ATTEMPTED
        for spout, part in self.parts.items():
            assert part.moves is None or not is_attempted, f"an attempt was made, and cursors haven't moved: {self}"
            assert is_live or not part.resolved, f"no attempt is live, and one has moved cursors: {self}"
            is_final = part.moves is not None and spout in exact
            assert part.stands or not is_final, f"spout {spout!r} says a thing once, and would be asked again: {self}"

    def check_behind(self, before: Definition, number: int) -> None:
        """Assert the invariants between this transaction, ``number``, and the one before it."""
        assert before.stage >= self.stage, f"{number} is ahead of the one before it: {before}, {self}"
        is_next = before.stage is Stage.CLOSED or not before.is_new or self.is_new
        assert is_next, f"{number} was attempted, and the one before it never: {before}, {self}"


POLL_MIN_SECONDS, POLL_MAX_SECONDS = 0.002, 0.05
"""Seconds until a spout that was not ready is asked again: doubles from the first to the second."""


@define
class SpoutInquiry:
    """The state of asking one spout for the frontier; it has at most one open ask.

    Attributes:
        asked: the open ask; None: no ask is open.
        refused: the number of the last ask that was answered by `NotReady`; 0: none was, at this frontier.
        ask_again_at: the moment before which the spout is not asked again.
        wait: seconds until a spout that is not ready now is asked again.
        backing_off: its coordinator raised, and must not be asked before ``ask_again_at``.
        is_stale: the open ask was made before an earlier transaction had to be defined again.
    """

    asked: Ask | None = None
    refused: int = 0
    ask_again_at: float = 0.0
    wait: float = POLL_MIN_SECONDS
    backing_off: bool = False
    is_stale: bool = False

    def is_due(self, now: float, *, definite: bool) -> bool:
        """Return true if the spout is to be asked now.

        ``definite``: another spout has input for the frontier. Then only an error makes this spout wait.
        """
        is_held = self.ask_again_at > now and (self.backing_off or not definite)
        return self.asked is None and not is_held

    def is_awaited(self, ask: int) -> bool:
        """Return true if ``ask`` is the open ask, and its answer is still valid."""
        return self.asked is not None and self.asked.number == ask and not self.is_stale

    def close(self, ask: int) -> bool:
        """Close the open ask if it is ``ask``; return true if it was."""
        if self.asked is None or self.asked.number != ask:
            return False
        self.asked, self.backing_off, self.is_stale = None, False, False
        return True

    def poll_later(self, answer: NotReady, now: float) -> None:
        """Schedule the next ask; each time in a row the wait doubles, up to `POLL_MAX_SECONDS`."""
        if not answer.is_pending:
            self.refused = answer.ask
        self.ask_again_at = now + self.wait
        self.wait = min(POLL_MAX_SECONDS, self.wait * 2)

    def back_off(self, until: float) -> None:
        """Schedule the next ask at ``until``, and don't ask before."""
        self.ask_again_at, self.backing_off = until, True

    def begin(self) -> None:
        """Reset for a new frontier. An open ask keeps its number, so that its answer is recognized when it arrives."""
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
        """Return one inquiry for each of ``spouts``; no spout has been asked."""
        return cls({spout: SpoutInquiry() for spout in spouts})

    def next_number(self) -> int:
        """Count one more ask, and return its number."""
        self.asked += 1
        return self.asked

    def due(self, now: float, *, definite: bool) -> Iterator[str]:
        """Yield the spouts that may be asked at this moment."""
        for spout, inquiry in self.by_spout.items():
            if inquiry.is_due(now, definite=definite):
                yield spout

    def next_at(self, unanswered: Iterable[str]) -> float | None:
        """Return when the first of ``unanswered`` is due; None if each of them has an open ask."""
        inquiries = [self.by_spout[spout] for spout in unanswered]
        return min((each.ask_again_at for each in inquiries if each.asked is None), default=None)

    @property
    def unready(self) -> tuple[str, ...]:
        """The spouts that have answered at this frontier that they have no input."""
        return tuple(spout for spout, inquiry in self.by_spout.items() if inquiry.refused)

    def refused_since(self, ask: int) -> bool:
        """Return true if every spout, asked after ``ask``, was not ready."""
        return all(inquiry.refused > ask for inquiry in self.by_spout.values())

    def ask_now(self) -> None:
        """Make every spout due now, except those that back off after an error: a caller waits for idleness."""
        for inquiry in self.by_spout.values():
            if not inquiry.backing_off:
                inquiry.ask_again_at = 0.0

    def begin(self) -> None:
        """Reset all inquiries for a new frontier."""
        for inquiry in self.by_spout.values():
            inquiry.begin()

    def outdate(self, spouts: Iterable[str]) -> None:
        """Invalidate the open asks of ``spouts``, because the metadata that they contain has changed."""
        for spout in spouts:
            inquiry = self.by_spout[spout]
            inquiry.is_stale = inquiry.asked is not None


ADMITTED_BYTES_MAX = 512 * 1024
"""The size of the new definitions admitted in one turn. With the moved cursors, this about fits into one write."""


# large: every change of a definition is in the one place that keeps their order
@define
class Definitions:
    """Every transaction's definition, and the next spouts to ask. Pure: time is an argument.

    A transaction is ready when any spout is; then the others define it too, perhaps as empty. All methods use
    numbers of transactions, which spouts call txids.

    Attributes:
        exact: the spouts with final definitions; those of others depend on earlier ones, and are asked for again.
        cursors: by spout, the positions from which it continues. A spout that defines its batches moves them with each
            transaction that is admitted. One that finds out by emitting moves them with each that is closed.
        frontier: the transaction that spouts are asked for: the lowest open one.
        known: definitions by number, from the one before the lowest that is not committed.
        inquiries: the state of asking for the frontier.
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
        """Return the definitions that ``record`` contains."""
        frontier = record.closed_number + 1
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
        """Return true if no attempt of ``number`` was ever made."""
        return number not in self.known or self.known[number].is_new

    def is_defined(self, number: int) -> bool:
        """Return true if an attempt of ``number`` may start now, as far as the spouts are concerned."""
        return number in self.known and self.known[number].stage is Stage.DEFINED

    def metadata(self, number: int) -> dict[str, Json]:
        """Return the metadata of ``number``, by spout."""
        return self.known[number].metadata

    # --- stored parts -------------------------------------------------------------------------------------------------

    @property
    def stored_metadata(self) -> dict[int, dict[str, Json]]:
        """The metadata of all attempted transactions, by number, then by spout."""
        return {number: each.attempted_metadata for number, each in self.known.items() if not each.is_new}

    @property
    def stored_fingerprints(self) -> dict[int, dict[str, Fingerprint]]:
        """The fingerprints of attempted transactions that are not closed, by number, then by spout."""
        seen = {number: each.fingerprints for number, each in self.known.items() if each.stage is not Stage.CLOSED}
        return {number: parts for number, parts in seen.items() if parts}

    # --- asking -------------------------------------------------------------------------------------------------------

    def asks(self, now: float, upto: int) -> Iterator[tuple[str, Ask]]:
        """Yield the asks to send now, by spout, for the frontier and later ones; a spout has at most one open ask."""
        definite = bool(self._parts(self.frontier))
        for spout in self.inquiries.due(now, definite=definite):
            if spout in self._answered:
                continue
            # Only exact spouts are asked for later transactions, because their definitions stay valid.
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
        """Yield the metadata that ``spout`` must return again, for the frontier and the transactions right after it."""
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
        """Return true if every spout, asked after ``ask``, was not ready for the frontier, and none has defined it."""
        return not self._answered.intersection(self.spouts) and self.inquiries.refused_since(ask)

    def take_defined(self, message: Defined) -> None:
        """Record a spout's answer; the transaction is defined when all spouts have answered."""
        inquiry, number, spout = self.inquiries.by_spout[message.spout], message.txid, message.spout
        is_awaited = inquiry.is_awaited(message.ask)
        if not message.more:
            inquiry.close(message.ask)
        if number < self.frontier and number not in self.known:
            return  # it was asked for, and then left out
        definition = self.known.setdefault(number, Definition())
        before = definition.parts.get(spout)
        is_answer = is_awaited and number == self.frontier
        if is_answer or before is None:  # even if the answer is not awaited, the spout has consumed input for it
            definition.parts[spout] = SpoutPart(
                metadata=message.metadata,
                bytes=message.bytes,
                moves=None if before and before.was_attempted else message.moved,
                stands=is_answer or spout in self.exact,
                fingerprint=before.fingerprint if before else None,
            )
            definition.metadata_changed()
            definition.fingerprint_changed()
        self._complete()
        self._check(number)

    def _complete(self) -> None:
        while self.frontier in self.known and self.known[self.frontier].stands_for(self.spouts):
            self.known[self.frontier].stage = Stage.DEFINED
            self._seek(self.frontier + 1)

    def take_not_ready(self, message: NotReady, now: float) -> None:
        """Record that a spout has no input yet; it is asked again a little later."""
        inquiry = self.inquiries.by_spout[message.spout]
        if inquiry.close(message.ask) and message.txid == self.frontier:
            inquiry.poll_later(message, now)

    def take_failure(self, message: DefinitionFailed, retry_at: float) -> None:
        """Record that a spout's coordinator raised; it is asked again at ``retry_at``."""
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
        """Yield the transactions to admit now, in order: as many new ones as fit into one write, at least one.

        Args:
            now: the moment, by the clock of ``held_until``.
            held_until: returns the moment before which neither a transaction nor any after it is admitted.
            one_new: admit at most one new transaction.
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
            if part.moves is not None:  # a replay moves only the cursors of spouts that were added since
                self._move_cursors(spout, part.moves)
                part.moves = None
                definition.metadata_changed()
        self._check(number)

    def is_whole(self, number: int) -> bool:
        """Return true if every spout has a part in ``number``, and each part was attempted."""
        parts = self._parts(number)
        return all(spout in parts and parts[spout].was_attempted for spout in self.spouts)

    def leave_out(self, number: int) -> None:
        """Close ``number``, the lowest: its transaction commits empty, and no spout is asked for it again.

        If an attempt of it is live, the cursors move as its emission has resolved, and no further attempt moves them.
        """
        definition = self.known[number]
        assert self.is_whole(number), (
            f"{number} is left out, and a spout's part of it was never attempted: {definition}"
        )
        self.close_before(number)
        self._close(definition)
        if number == self.frontier:
            self._seek(number + 1)
            self._complete()
        self._check(number)

    def take_emission(self, topology: str, number: int, message: OffsetsResolved | Fingerprinted) -> None:
        """Record a result of emitting the live attempt: the final metadata, or an exact spout's fingerprint.

        Raises:
            SpoutError: the rows differ from those before, and the spout has promised the same.
        """
        spout = message.spout
        definition = self.known[number]
        part = definition.parts[spout]
        if isinstance(message, OffsetsResolved):
            part.metadata, part.resolved = message.metadata, message.moved
            definition.metadata_changed()
        elif spout in self.exact:
            check_same(topology, message, part.fingerprint or message.fingerprint)
            part.fingerprint = message.fingerprint
            definition.fingerprint_changed()
        self._check(number)

    def go_back(self, number: int) -> None:
        """Reopen ``number`` and every later transaction: spouts must define them again.

        Spouts receive the known metadata. Definitions of unattempted transactions by exact spouts stay valid.
        """
        for definition in [each for known, each in self.known.items() if known >= number]:
            definition.reopen(self.exact)
        self.inquiries.outdate(set(self.spouts) - self.exact)
        self._seek(min(number, self.frontier))
        self._complete()
        self._check_all()

    def close_before(self, number: int) -> None:
        """Close the transactions below ``number``, and move the cursors that their emission has resolved."""
        for closed in sorted(known for known in self.known if known < number):
            definition = self.known[closed]
            assert definition.stage >= Stage.ATTEMPTED, f"{closed} is closed without an attempt: {definition}"
            self._close(definition)
            self._check(closed)

    def _close(self, definition: Definition) -> None:
        for spout, part in definition.parts.items():
            self._move_cursors(spout, part.resolved)
            part.resolved = {}
        definition.stage = Stage.CLOSED

    def forget_before(self, number: int) -> None:
        """Drop the definitions of transactions below ``number``."""
        self.known = {known: each for known, each in self.known.items() if known >= number}

    def _move_cursors(self, spout: str, moved: Mapping[str, Json]) -> None:
        if moved:
            self.cursors[spout] = self.cursors.get(spout, Cursors()).updated(moved)

    # --- invariants ---------------------------------------------------------------------------------------------------

    def _check_all(self) -> None:
        for number in self.known:
            self._check(number)

    def _check(self, number: int) -> None:
        """Assert the invariants of ``number``."""
        definition = self.known[number]
        definition.check(self.spouts, self.exact)
        is_open = definition.stage is Stage.OPEN
        assert is_open == (number >= self.frontier), f"{number} at {self.frontier}: {definition}"
        if (before := self.known.get(number - 1)) is not None:
            definition.check_behind(before, number)


def _restored(metadata: Mapping[str, Json], seen: Mapping[str, Fingerprint], *, is_closed: bool) -> Definition:
    parts = {spout: SpoutPart(metadata=each, fingerprint=seen.get(spout)) for spout, each in metadata.items()}
    return Definition(parts, Stage.CLOSED if is_closed else Stage.OPEN)


def check_same(topology: str, message: Fingerprinted, before: Fingerprint) -> None:
    """Check that an attempt has read the same rows as an earlier attempt of its transaction.

    Raises:
        SpoutError: they differ, and the spout has promised the same.
    """
    now = message.fingerprint
    if now.agrees(before):
        return
    what = f"{now.rows} rows" if now.rows != before.rows else "other rows, but as many,"
    raise SpoutError(
        f"topology {topology!r}, spout {message.spout!r}, transaction {message.attempt.txid}: attempt "
        f"{message.attempt} read {what} where an earlier one read {before.rows} rows, from the same metadata. "
        f"Nothing of this attempt is committed. A spout with Replay.EXACT must emit the same rows again. To fix this: "
        f"correct the spout, restore its source, or declare Replay.OPAQUE, then start the topology again",
        topology=topology,
        attempt=message.attempt,
        spout=message.spout,
    )
