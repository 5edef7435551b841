"""An operator in the soak, who slows the topology down, pauses it and has it go on, every minute."""

from __future__ import annotations

import threading
from time import monotonic
from uuid import uuid4

from attrs import define, field

from coordinators.backends.coordination import Coordination
from coordinators.record.wishes import Action, Rate, Wish
from tests.soak.judgement import MINUTE_SECONDS
from tests.soak.load import PATIENCE_SECONDS, Load
from tests.soak.small import SmallLoad
from trident_py import TridentQuery

LOOK_AGAIN_SECONDS = 0.05


@define(eq=False)
class Operator:
    """Leaves wishes, and waits until each is carried out.

    Attributes:
        coordination: where to leave them.
        topology: its name.
        visits: how often it was slowed down and paused.
    """

    coordination: Coordination
    topology: str
    visits: int = field(default=0, init=False)

    def round(self, load: Load | SmallLoad, query: TridentQuery, seconds: float) -> None:
        """A round of ``load``, ``seconds`` after the beginning; the first of each minute slowly, and then a pause."""
        if seconds < self.visits * MINUTE_SECONDS:
            load.round(query)
            return
        self.visits += 1
        self._wish(Action.RATE, load.slow)
        load.round(query)
        self._wish(Action.PAUSE)
        self._wish(Action.RESUME)

    def _wish(self, action: Action, rate: Rate | None = None) -> None:
        wish, until = Wish(uuid4().hex, action, rate or Rate()), monotonic() + PATIENCE_SECONDS
        self.coordination.wish(self.topology, wish)
        while not self._is_carried_out(wish):
            if monotonic() > until:
                raise TimeoutError(f"{action} is not carried out")
            threading.Event().wait(LOOK_AGAIN_SECONDS)

    def _is_carried_out(self, wish: Wish) -> bool:
        record = self.coordination.describe(self.topology).record
        return record is not None and any(outcome.wish == wish.id for outcome in record.outcomes)
