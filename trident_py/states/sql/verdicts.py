"""What the errors of a database mean for a batch: by the codes that its server and its library give."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from attrs import field, frozen

from trident_py.errors import FailedException, StateError, StoreBusyException

log = logging.getLogger(__name__)

WARN_SECONDS = 60.0
"""After this long an error that isn't known is warned of, and again after each such time."""

Code: TypeAlias = int | str | None


class Verdict(Enum):
    """What becomes of a batch whose commit or staging has failed."""

    AGAIN = "comes again"
    """The store is locked or can't be reached: the batch is replayed, which doesn't count."""

    BATCH = "this batch"
    """A value of the batch is refused: it counts as the batch's failure."""

    NEVER = "never"
    """No replay mends it: the topology stops."""


@frozen(kw_only=True)
class ErrorTable:
    """The error codes of one database.

    Attributes:
        verdicts: by code. One that isn't there comes again.
        ways_out: by code, what to do.
        clock: seconds that never go back.
    """

    verdicts: Mapping[Code, Verdict]
    ways_out: Mapping[Code, str]
    clock: Callable[[], float] = time.monotonic
    _unknown: dict[Code, tuple[float, float]] = field(factory=dict, init=False, eq=False, repr=False)

    def verdict(self, codes: Sequence[Code]) -> Verdict | None:
        """Return the verdict of the first of ``codes`` that is known; None: none is."""
        return next((self.verdicts[code] for code in codes if code in self.verdicts), None)

    def error(self, where: str, said: str, codes: Sequence[Code], way_out: str = "") -> FailedException | StateError:
        """Return the error to raise.

        Args:
            where: names the topology, the attempt and the table.
            said: what the database said.
            codes: of the error, the most specific one first.
            way_out: what to do, in place of what is known of the code.
        """
        verdict = self.verdict(codes)
        if verdict is None:
            self._warn(where, said, codes[0])
        if verdict in (None, Verdict.AGAIN):
            return StoreBusyException(f"{where}: {said}")
        way = way_out or next((self.ways_out[code] for code in codes if code in self.ways_out), "")
        kind = FailedException if verdict is Verdict.BATCH else StateError
        return kind(f"{where}: {said}; {f'to fix this: {way}' if way else 'nothing was committed'}")

    def _warn(self, where: str, said: str, code: Code) -> None:
        """Warn of an error that isn't known, if it has come again for a while."""
        now = self.clock()
        since, last = self._unknown.get(code, (now, now))
        since = now if now - last > WARN_SECONDS else since
        if now - since >= WARN_SECONDS:
            log.warning(
                "%s: the error %s is not known, and has come again for %.0f s: %s; the batch is replayed until "
                "store_patience is over, by default for ever; to fix this: see to the database",
                where,
                code,
                now - since,
                said,
            )
            since = now
        self._unknown[code] = since, now
