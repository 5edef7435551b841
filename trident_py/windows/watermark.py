"""The watermark: how far event time has come, by the rows of all transactions so far.

This module only calculates. It reads no clock and stores nothing: `trident_py.windows.event_store` stores the progress
together with the windows. All times are ints, in microseconds since the epoch. ``now`` is the time of a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise

from attrs import field, frozen


class Refusal(StrEnum):
    """The reason for which a row is in no window."""

    LATE = "late"
    """A window that the row belongs to may have fired already."""

    AHEAD = "too far ahead"
    """Its time is too far after the time of its transaction, so it is probably wrong."""

    NULL = "no timestamp"


@frozen
class PartitionProgress:
    """The progress of one partition that isn't idle.

    Attributes:
        newest: the greatest event time of its rows, since it was idle last.
        active_at: the time of the last transaction with a row of it.
    """

    newest: int
    active_at: int


@frozen
class WatermarkProgress:
    """The watermark, and everything that its future depends on.

    Attributes:
        watermark: no row before this time is expected any more; None: there was no row yet.
        partitions: the partitions that aren't idle.
        by: see `Watermark`, as it was when they were stored.
    """

    watermark: int | None = None
    partitions: Mapping[str, PartitionProgress] = field(factory=dict)
    by: str = ""


@frozen(kw_only=True)
class Watermark:
    """The rules of a watermark.

    The watermark is the least of the greatest event times of all partitions that aren't idle, less ``delay``. It never
    goes back. A partition without rows for ``idle``, by the times of transactions, is idle: it is forgotten, and begins
    anew with its next row. If all partitions are idle, the watermark stays where the last of them have left it. So it
    doesn't depend on transactions without rows that run in the meantime.

    Attributes:
        idle: None: no partition is ever idle.
        max_ahead: a row may be this far after the time of its transaction.
        by: the fields that name the partitions. If they have changed, the known partitions are forgotten, and the
            watermark stays until rows of new partitions move it.
    """

    delay: int
    idle: int | None
    max_ahead: int
    by: str = ""

    def refusal(self, at: int | None, now: int, late_before: int | None) -> Refusal | None:
        """Return the reason to refuse a row, or None.

        Args:
            at: the time of the row.
            now: the time of its transaction.
            late_before: rows before this time are late, by the watermark after the previous transaction.
        """
        if at is None:
            return Refusal.NULL
        if at > now + self.max_ahead:
            return Refusal.AHEAD
        return Refusal.LATE if late_before is not None and at < late_before else None

    def advance(self, progress: WatermarkProgress, now: int, newest: Mapping[str, int]) -> WatermarkProgress:
        """Return the progress at the end of a transaction.

        Args:
            progress: the progress at the end of the previous transaction.
            now: the time of this transaction. If it is before that of an earlier one, idle times are counted from it.
            newest: by partition, the greatest time of its rows in this transaction. Late rows count, because their
                partition is not idle; rows without a time or too far ahead don't.
        """
        elapsed = self._elapsed(progress, now)
        partitions = dict(elapsed.partitions)
        for name, at in newest.items():
            before = partitions.get(name)
            partitions[name] = PartitionProgress(max(at, before.newest) if before else at, now)
        return WatermarkProgress(self._raised(elapsed.watermark, partitions), partitions, self.by)

    def passes_at(self, progress: WatermarkProgress, time: int) -> int | None:
        """Return the first ``now`` at which the watermark is ``time`` or later if no more rows come, or None."""
        if self.idle is None or progress.by != self.by:
            return None
        newest: int | None = None
        found: int | None = None
        left = sorted(progress.partitions.values(), key=lambda each: -each.active_at)
        for each, following in pairwise(left):
            newest = each.newest if newest is None else min(newest, each.newest)
            if newest - self.delay < time:
                break
            if following.active_at < each.active_at:
                found = following.active_at + self.idle
        return found

    def _elapsed(self, progress: WatermarkProgress, now: int) -> WatermarkProgress:
        """Return the progress when the partitions that are idle by ``now`` have left one after the other."""
        # A transaction's time may be before an earlier one's, after a clock was ahead.
        partitions = progress.partitions if progress.by == self.by else {}
        known = {name: PartitionProgress(each.newest, min(each.active_at, now)) for name, each in partitions.items()}
        idle = self.idle
        if idle is None or not known:
            return WatermarkProgress(progress.watermark, known)
        left = {name: each for name, each in known.items() if now - each.active_at < idle}
        last = max(each.active_at for each in known.values())
        counted = left or {name: each for name, each in known.items() if each.active_at == last}
        return WatermarkProgress(self._raised(progress.watermark, counted), left)

    def _raised(self, watermark: int | None, partitions: Mapping[str, PartitionProgress]) -> int | None:
        if not partitions:
            return watermark
        least = min(each.newest for each in partitions.values()) - self.delay
        return least if watermark is None else max(watermark, least)
