"""Operators' commands for a topology ("wishes"): stores a wish for its leader, and waits for the outcome."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve, frozen

from coordinators.backends.coordination import Coordination
from coordinators.record.wishes import Action, Hold, Outcome, Rate, Standing, Wish
from coordinators.status.description import TopologyDescription
from coordinators.status.status import TopologyStatus
from coordinators.values.error_text import counted
from coordinators.values.errors import TridentError

LOOK_AGAIN_SECONDS = 0.2

ANSWER_SECONDS = 30.0
"""The default time to wait: longer than the replacement of a killed leader takes with default settings."""

ROWS_SHOWN = 10

SEARCH_SECONDS = 3_600.0
"""The default time to wait for a bisection, which makes some twenty trials of a million rows."""

ABOUT_TRANSACTIONS = (
    Action.PARK,
    Action.RELEASE,
    Action.SKIP,
    Action.BISECT,
    Action.ROWS,
    Action.RETRY,
    Action.LETTERS,
)
"""The wishes that name transactions, which have other ids after a reset."""


@frozen
class WishAnswer:
    """The answer to a wish, within the time to wait.

    Attributes:
        outcome: the outcome of the wish; None: it was not carried out yet.
        description: the topology as last seen.
        status: its status at that time.
        seconds: the longest time to wait.
    """

    wish: Wish
    outcome: Outcome | None
    description: TopologyDescription
    status: TopologyStatus
    seconds: float

    @property
    def standing(self) -> Standing:
        """The wishes in effect now."""
        return self.status.standing

    @property
    def under_way(self) -> int:
        """The number of transactions in flight."""
        return len(self.status.transactions)

    @property
    def is_forgotten(self) -> bool:
        """Whether the wish was deleted: neither carried out nor waiting."""
        return self.outcome is None and self.wish not in self.description.wishes

    @property
    def is_final(self) -> bool:
        """Whether waiting longer can't change the answer."""
        drains = self.wish.action is Action.DRAIN and self.standing.hold is Hold.DRAINING
        done = self.outcome is not None and not drains
        return done or self.is_forgotten or self.description.leader is None

    @property
    def is_as_wished(self) -> bool:
        """Whether it is carried out, or will be before anything else happens."""
        if self.wish.action is Action.DRAIN and (self.standing.hold is Hold.DRAINING or self.outcome is None):
            return False
        waits = not self.is_forgotten and self.description.leader is None
        return waits if self.outcome is None else self.outcome.action is not None and not self.outcome.refused

    def facts(self) -> dict[str, Any]:
        """Return the answer as JSON: the wish, whether it was carried out or waits, what is in effect, the leader."""
        leader = self.description.leader
        return {
            "topology": self.description.identity.name,
            "wish": self.wish.id,
            "action": self.wish.action,
            "carried_out": self.outcome is not None and self.outcome.action is not None and not self.outcome.refused,
            "refused": self.outcome.refused if self.outcome else "",
            "found": {spout: list(rows) for spout, rows in self.outcome.found.items()} if self.outcome else {},
            "waits": self.wish in self.description.wishes,
            "standing": self.standing.to_json(),
            "under_way": self.under_way,
            "leader": leader.facts() if leader else None,
        }

    @property
    def text(self) -> str:
        """The answer in a sentence, for people."""
        name, leader = self.description.identity.name, self.description.leader
        topology = f"topology {name!r}"
        if self.outcome is None:
            if self.is_forgotten:
                return f"{topology} was reset meanwhile, which deleted the wish"
            if leader is None:
                return f"no process leads {topology}: the next leader carries out the wish before anything else"
            waited = f"has not carried out the wish within {self.seconds:g} s; it can still do so"
            return f"{leader} leads {topology}, and {waited}"
        if self.outcome.action is None:
            return f"{topology} is led by a release that doesn't know this wish; nothing was changed"
        if self.outcome.refused:
            return f"{topology}: {self.outcome.refused}; nothing was changed"
        return f"{topology} {self._done(name)}"

    def _done(self, name: str) -> str:
        lifted = f"; `trident resume {name}` lifts that"
        match self.wish.action:
            case Action.PAUSE:
                return f"is paused{_with(self.under_way, 'under way, and commit')}{lifted}"
            case Action.DRAIN if self.standing.hold is Hold.DRAINING:
                ends = "" if self.description.leader else ", as soon as a process leads it again"
                return f"drains{_with(self.under_way, 'to be committed')}; then it is paused{ends}"
            case Action.DRAIN:
                return f"is drained, and paused{lifted}"
            case Action.RATE:
                return f"{limits(self.standing.rate)}{lifted}"
            case action if action in ABOUT_TRANSACTIONS:
                return self._mended(name)
        return "continues, without limits"

    def _mended(self, name: str) -> str:
        these = these_transactions(self.wish.txids)
        match self.wish.action:
            case Action.PARK:
                (txid,) = self.wish.txids
                return f"parks {these}: its rows count nowhere; `trident tx {name} release {txid}` counts them once"
            case Action.RELEASE:
                return f"processes {these or 'all parked transactions'} again, each as a new transaction"
            case Action.SKIP:
                return f"skips {these}: the rows never count"
            case Action.BISECT:
                found = self.outcome.found if self.outcome else {}
                rows = " and ".join(rows_text(spout, positions) for spout, positions in found.items() if positions)
                return f"found the rows of {these} that fail: {rows}. They stay parked, and the others are released"
            case Action.ROWS:
                return f"has stored the rows of {these}"
            case Action.LETTERS:
                of = f" of {self.wish.branch!r}" if self.wish.branch else ""
                since = f" from {these}" if these else ""
                return f"processes the dead letters{of}{since} again, those of each branch as a new transaction"
        return f"tries {these or 'the lowest transaction'} at once"


def these_transactions(txids: Sequence[int]) -> str:
    """Format transactions for messages; without transactions the text is empty."""
    return f"transaction{'s' if len(txids) > 1 else ''} {', '.join(map(str, txids))}" if txids else ""


def rows_text(spout: str, positions: Sequence[int]) -> str:
    """Format the rows that a bisection has found, for people."""
    shown = ", ".join(map(str, positions[:ROWS_SHOWN]))
    more = ", …" if len(positions) > ROWS_SHOWN else ""
    return f"{'rows' if len(positions) > 1 else 'row'} {shown}{more} of spout {spout!r} (positions from 0)"


def seconds_for(action: Action | None) -> float:
    """Return how long to wait by default until a wish is carried out."""
    return SEARCH_SECONDS if action is Action.BISECT else ANSWER_SECONDS


def carried_out(
    wish: Wish, topology: str, coordination: Coordination, seconds: float, may_lead: Callable[[], bool]
) -> Outcome:
    """Store ``wish``, and return its outcome once it is carried out.

    Without a leader, it waits for one while ``may_lead`` returns true.

    Raises:
        TridentError: it was refused, or deleted.
        TimeoutError: it was not carried out within this many seconds, or no process leads; it still may be.
    """
    answer = answer_to(wish, topology, coordination, seconds, may_lead)
    if answer.outcome is None and not answer.is_forgotten:
        raise TimeoutError(f"{answer.text}")
    if answer.outcome is None or not answer.is_as_wished:
        raise TridentError(answer.text, topology=topology)
    return answer.outcome


def answer_to(
    wish: Wish, topology: str, coordination: Coordination, seconds: float, may_lead: Callable[[], bool] = lambda: False
) -> WishAnswer:
    """Store ``wish`` for the leader of ``topology``, and wait for its outcome, up to this many seconds.

    Without a leader, it doesn't wait, unless ``may_lead`` returns true.

    Raises:
        ConfigError: there is no such topology, or no leader could carry out the wish.
        CoordinationLost: the coordination is unreachable.
    """
    wish.check()
    if wish.action in ABOUT_TRANSACTIONS:
        wish = evolve(wish, incarnation=coordination.describe(topology).identity.incarnation)
    coordination.wish(topology, wish)
    until = time.monotonic() + seconds
    while True:
        description = coordination.describe(topology)
        outcomes = description.record.outcomes if description.record else ()
        outcome = next((each for each in outcomes if each.wish == wish.id), None)
        answer = WishAnswer(wish, outcome, description, description.status(time.time()), seconds)
        is_final = answer.is_final and (answer.description.leader or answer.outcome or not may_lead())
        if is_final or time.monotonic() >= until:
            return answer
        time.sleep(LOOK_AGAIN_SECONDS)


def _with(transactions: int, what: str) -> str:
    if not transactions:
        return ""
    return f", with {counted(transactions, 'transaction')} {what}"


def limits(rate: Rate) -> str:
    """Return the limits of ``rate``, as the end of a sentence; empty without limits."""
    said = []
    if rate.batches_per_second is not None:
        said.append(f"starts at most {_number(rate.batches_per_second)} new batches per second")
    if rate.pending is not None:
        said.append(f"has at most {counted(rate.pending, 'transaction')} pending")
    if rate.max_batch is not None:
        said.append(f"takes at most {counted(rate.max_batch, 'row')} in a batch from spouts that can limit it")
    return " and ".join(said)


def _number(value: float) -> str:
    """Format ``value`` for people; earlier releases have stored whole numbers that no float can hold."""
    return f"{value:g}" if value <= sys.float_info.max else f"over {sys.float_info.max:g}"
