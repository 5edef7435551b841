"""Inquiries: where the asking of each spout for the frontier stands, and when the next ask is due. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define

from coordinators.batches.spout_coordinator import Ask
from coordinators.protocol.messages import NotReady

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
