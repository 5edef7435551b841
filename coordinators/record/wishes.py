"""Wishes: an operator's requests to a running topology, the holds and limits that result, and their outcomes. Pure.

Any process with write access stores a wish next to the record. The leader carries it out: the write that changes what
is in effect also removes the wish and stores its outcome. So each wish is carried out exactly once, even across
crashes. If no process leads, the wish waits for the next leader, which carries it out before it starts any batch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from attrs import asdict, evolve, field, frozen

from coordinators.values.canonical import Json
from coordinators.values.error_text import safe_text
from coordinators.values.errors import ConfigError

REASON_CHARS_MAX = 500

OUTCOMES_KEPT = 16
"""The number of outcomes in a record, the last ones; no turn carries out more wishes."""


class Action(StrEnum):
    """The kinds of wishes."""

    PAUSE = "pause"
    """Start no batch and no replay until `RESUME`; transactions in progress continue and commit."""

    RESUME = "resume"
    """Continue at full speed: lifts every hold and limit."""

    DRAIN = "drain"
    """Start nothing new, but replay begun transactions until all of them are committed; then pause."""

    RATE = "rate"
    """Limit the speed."""

    PARK = "park"
    """Leave a transaction out until it is released; it waits until those before it are committed."""

    RELEASE = "release"
    """Process parked transactions: each as a new transaction."""

    SKIP = "skip"
    """Take parked transactions off the list: their rows never count."""

    BISECT = "bisect"
    """Find the rows of a parked transaction that fail: they stay parked, and the others are released."""

    ROWS = "rows"
    """Store the rows of a parked transaction, so that they can be looked at."""

    LETTERS = "letters"
    """Process dead letters: those of each branch as a new transaction, in which no other branch has a part."""

    RETRY = "retry"
    """Try a failed transaction now, with a new count of failures."""


LASTING = (Action.PARK, Action.BISECT, Action.ROWS, Action.LETTERS)
"""The wishes that wait in the leader until they can be carried out, or have been."""


class Hold(StrEnum):
    """The part of the batches that operators hold back."""

    NOTHING = "nothing"
    """No batch is held back."""

    DRAINING = "draining"
    """Only replays start."""

    PAUSED = "paused"
    """No batch starts."""


LIMIT_MAX = 2**63 - 1
"""The maximum of a number of transactions or rows: the largest integer of databases and Spark."""

INTERVAL_SECONDS_MAX = 10**9
"""The maximum time between two batches, 30 years; a longer wait is impossible."""


def _is_whole(value: object) -> bool:
    return type(value) is int and 1 <= value <= LIMIT_MAX


def _is_pace(value: object) -> bool:
    """Return true if ``value`` is a number in range that a finite float can hold."""
    is_number = type(value) in (int, float)
    return is_number and 1 / INTERVAL_SECONDS_MAX <= value <= sys.float_info.max  # type: ignore[operator]  # it is one


@frozen(kw_only=True)
class Rate:
    """Upper limits for the speed of batches. None: no lower limit than the topology's own settings.

    Attributes:
        batches_per_second: new batches; replays don't count.
        pending: transactions in progress at once; above ``max_spout_pending`` it has no effect.
        max_batch: rows of a new batch from each spout that can limit them.
    """

    batches_per_second: float | None = None
    pending: int | None = None
    max_batch: int | None = None

    def check(self) -> None:
        """Return if each limit is valid.

        Raises:
            ConfigError: a limit is out of range.
        """
        if self.batches_per_second is not None and not _is_pace(self.batches_per_second):
            raise ConfigError(
                f"batches per second must be a finite number of at least {1 / INTERVAL_SECONDS_MAX:g}, "
                f"not {self.batches_per_second!r:.60}"
            )
        for what, limit in (("pending", self.pending), ("max batch", self.max_batch)):
            if limit is not None and not _is_whole(limit):
                raise ConfigError(f"{what} must be a whole number from 1 to {LIMIT_MAX}, not {limit!r:.60}")

    @property
    def interval(self) -> float:
        """Seconds between two new batches, at least."""
        return 0.0 if self.batches_per_second is None else 1 / self.batches_per_second


@frozen
class Wish:
    """A request by an operator, or by the process itself.

    Attributes:
        id: unique; identifies its outcome.
        action: the kind of the wish; None: this release doesn't know it.
        rate: for `Action.RATE`, the limits to set; the others stay.
        reason: why, shown while the wish is in effect; empty: no reason was given.
        txids: the transactions that it is about; none: all parked ones, or, for `Action.RETRY`, the lowest one.
        late: for a release, whether rows that are late for a window may be lost.
        branch: for `Action.LETTERS`, the branch that left the rows out; empty: each branch.
        by: who wishes it.
        incarnation: of the topology that it is about; 0: whichever it is.
        epoch: the leadership whose own process wishes this, by ``query.pause()``; 0: an operator does. A wish by a
            process is not stored, has no outcome, and ends with its leadership.
    """

    id: str
    action: Action | None
    rate: Rate = Rate()
    reason: str = ""
    epoch: int = 0
    txids: tuple[int, ...] = field(default=(), kw_only=True)
    branch: str = field(default="", kw_only=True)
    late: bool = field(default=False, kw_only=True)
    by: str = field(default="", kw_only=True)
    incarnation: int = field(default=0, kw_only=True)

    def check(self) -> None:
        """Return if a leader can carry it out.

        Raises:
            ConfigError: a limit is out of range, or the reason is not one line of text.
        """
        self.rate.check()
        for what, text in (("a reason", self.reason), ("a name", self.by), ("a branch", self.branch)):
            if len(text) > REASON_CHARS_MAX or safe_text(text) != text:
                raise ConfigError(
                    f"{what} is one line of Unicode text without control characters, at most {REASON_CHARS_MAX} "
                    f"characters long, not '{safe_text(text, 200)}'"
                )
        for txid in self.txids:
            if not _is_whole(txid):
                raise ConfigError(f"a transaction is a whole number from 1 to {LIMIT_MAX}, not {txid!r:.60}")

    @property
    def text(self) -> str:
        """The stored form, without the id: a JSON object."""
        about = {
            "txids": list(self.txids),
            "branch": self.branch,
            "late": self.late,
            "by": self.by,
            "incarnation": self.incarnation,
        }
        given = {name: value for name, value in about.items() if value}
        return json.dumps({"action": self.action, **_given(self.rate), **_reason(self.reason), **given})

    @classmethod
    def parse(cls, id: str, text: str) -> Wish:
        """Return the wish that was stored as ``text``; without action if this release can't carry it out."""
        try:
            body = json.loads(text)
            about: dict[str, Any] = {name: str(body.pop(name, "")) for name in ("reason", "by", "branch")}
            about |= {"txids": tuple(body.pop("txids", ())), "late": bool(body.pop("late", False))}
            about["incarnation"] = int(body.pop("incarnation", 0))
            action = Action(body.pop("action"))
            wish = cls(id, action, Rate(**body), **about)
            wish.check()
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError, ConfigError):
            return cls(id, None)
        return wish


@frozen
class Standing:
    """The wishes in effect: an operator's until it is lifted, a process's own pause until the process ends.

    Attributes:
        hold: the hold that operators have set.
        rate: the limits that operators have set.
        reason: the reason of an operator's last wish; empty: none.
        paused_by: the epoch of the leadership whose own process has paused it; 0: no process has.
    """

    hold: Hold = Hold.NOTHING
    rate: Rate = Rate()
    reason: str = ""
    paused_by: int = 0

    @property
    def is_paused(self) -> bool:
        """Whether nothing may start, neither a new batch nor a replay."""
        return self.hold is Hold.PAUSED or self.paused_by != 0

    @property
    def takes_new(self) -> bool:
        """Whether a transaction that was never begun may start."""
        return self.hold is Hold.NOTHING and self.paused_by == 0

    def led_by(self, epoch: int) -> Standing:
        """Return the wishes in effect under the leadership ``epoch``; a pause by another process has ended."""
        return self if self.paused_by == epoch else evolve(self, paused_by=0)

    def after(self, wish: Wish) -> Standing:
        """Return the wishes in effect after ``wish`` is carried out."""
        if wish.epoch:
            return evolve(self, paused_by=wish.epoch if wish.action is Action.PAUSE else 0)
        match wish.action:
            case Action.PAUSE:
                return evolve(self, hold=Hold.PAUSED, reason=wish.reason)
            case Action.DRAIN:
                return evolve(self, hold=Hold.DRAINING, reason=wish.reason)
            case Action.RESUME:
                return Standing(paused_by=self.paused_by)
            case Action.RATE:
                return evolve(self, rate=evolve(self.rate, **_given(wish.rate)), reason=wish.reason)
        return self

    def to_json(self) -> dict[str, Json]:
        """Return the stored form."""
        own: dict[str, Json] = {"paused_by": self.paused_by} if self.paused_by else {}
        return {"hold": str(self.hold), **_given(self.rate), **_reason(self.reason), **own}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Standing:
        """Return the object that was stored as ``body``.

        Raises:
            KeyError, TypeError, ValueError: ``body`` is not its stored form.
        """
        limits = {name: value for name, value in body.items() if name not in ("hold", "reason", "paused_by")}
        return cls(Hold(body["hold"]), Rate(**limits), body.get("reason", ""), body.get("paused_by", 0))


NOTHING_STANDS = Standing()


@frozen
class Outcome:
    """The outcome of a wish.

    Attributes:
        wish: its id.
        action: the wished action; None: the leader's release doesn't know it, and nothing was changed.
        standing: the wishes in effect after it.
        under_way: how many transactions were begun and not committed at that time.
        refused: why nothing was changed; empty: it was carried out.
        found: for `Action.BISECT`, the first rows that fail, by spout: their positions in the batch, from 0 on.
    """

    wish: str
    action: Action | None
    standing: Standing
    under_way: int
    refused: str = ""
    found: Mapping[str, tuple[int, ...]] = field(factory=dict, hash=False)

    def to_json(self) -> dict[str, Json]:
        """Return the stored form."""
        return {
            "wish": self.wish,
            "action": self.action and str(self.action),
            "standing": self.standing.to_json(),
            "under_way": self.under_way,
            **({"refused": self.refused} if self.refused else {}),
            **({"found": {spout: list(rows) for spout, rows in self.found.items()}} if self.found else {}),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Outcome:
        """Return the outcome that was stored as ``body``.

        Raises:
            KeyError, TypeError, ValueError: ``body`` is not its stored form.
        """
        action = None if body["action"] is None else Action(body["action"])
        standing = Standing.from_json(body["standing"])
        found = {spout: tuple(rows) for spout, rows in body.get("found", {}).items()}
        return cls(body["wish"], action, standing, body["under_way"], body.get("refused", ""), found)


def _reason(reason: str) -> dict[str, Json]:
    return {"reason": reason} if reason else {}


def _given(rate: Rate) -> dict[str, Any]:
    return {name: value for name, value in asdict(rate).items() if value is not None}
