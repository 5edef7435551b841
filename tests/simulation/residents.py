"""Tasks of the simulated Spark that stay for small batches: they answer late, twice or never.

Which task gets a request, and whose answer counts, is decided by the product's own `ResidentPool`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

from tests.simulation.plane_mutants import pool_of
from tests.simulation.stores import Rows
from trident_py.engine.plane.work import Job, JobMember
from trident_py.engine.resident.pool import Action, Close, GiveBack, Request, ResidentPool, Send, Take
from trident_py.worker.wire import Frame

if TYPE_CHECKING:
    from tests.simulation.plane import Plane

ANSWER_SECONDS, LOST_SECONDS, AGAIN_SECONDS, DEADLINE_SECONDS = 0.01, 0.05, 0.3, 1.5


@define(eq=False)
class Residents:
    """The tasks of one leadership, and what is sent to them.

    Attributes:
        count: how many tasks there are; 0: each job is one of Spark.
        tasks: of each connection, also of those that are closed.
    """

    plane: Plane
    count: int = 0
    tasks: dict[int, int] = field(factory=dict, init=False)
    pool: ResidentPool = field(init=False)

    def __attrs_post_init__(self) -> None:
        """All tasks are there when the leadership begins."""
        self.pool = pool_of(self.plane.process.world.rules)
        for task in range(self.count):
            self.join(task)

    def begin(self, job: Job, members: Sequence[JobMember]) -> bool:
        """Let a task run a job, if one is there."""
        if not (job.is_shared and self.pool.is_there):
            return False
        world = self.plane.process.world
        frame = Frame({"members": members})
        self._carry_out(self.pool.add(Request(key=job, until=world.now + DEADLINE_SECONDS, frame=frame)))
        if world.real_time:
            world.timer(self.plane.process, "resident", DEADLINE_SECONDS, "expire")
        return True

    def cancel(self, job: Job) -> None:
        """Abandon a job, if a task has it."""
        self._carry_out(self.pool.cancel(job))

    # --- what happens -------------------------------------------------------------------------------------------------

    def join(self, task: int) -> None:
        """A task connects."""
        link = len(self.tasks) + 1
        self.tasks[link] = task
        self._carry_out(self.pool.join(link, task))

    def lose(self, link: int) -> None:
        """A task is gone, and Spark starts it again."""
        self._carry_out(self.pool.leave(link))
        self._come_again(link)

    def answer(self, link: int, number: int, rows: Mapping[int, Rows]) -> None:
        """An answer arrives, whether its request is awaited or not."""
        self._carry_out(self.pool.answer(link, number, Frame({"rows": rows})))

    def expire(self) -> None:
        """A deadline has come; the explorer knows no time, so it may come whenever an answer is late."""
        world = self.plane.process.world
        self._carry_out(self.pool.expire(world.now if world.real_time else math.inf))

    # --- what is decided ----------------------------------------------------------------------------------------------

    def _carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Send(link, number, request):
                    self._send(link, number, self.plane.rows_of(request.frame.head["members"]))
                case Close(link):
                    self._come_again(link)
                case GiveBack(Request(key=Job() as job, frame=Frame(head))):
                    self.plane.run_in_spark(job, head["members"])
                case Take(Request(key=Job() as job, frame=Frame(head)), answer):
                    self.plane.take_answer(job, head["members"], answer.head["rows"])

    def _send(self, link: int, number: int, rows: Mapping[int, Rows]) -> None:
        chance = self.plane.process.world.chance
        if chance.happens("task lost"):
            self._post("lose", LOST_SECONDS, link)
            return
        is_late = chance.happens("answer late")
        if is_late and not self.plane.process.world.real_time:
            self._post("expire", 0.0)
        for _ in range(2 if chance.happens("answer twice") else 1):
            self._post("answer", 2 * DEADLINE_SECONDS if is_late else ANSWER_SECONDS, link, number, rows)

    def _come_again(self, link: int) -> None:
        self._post("join", AGAIN_SECONDS, self.tasks[link])

    def _post(self, what: str, seconds: float, *arguments: Any) -> None:
        self.plane.process.post("resident", seconds, what, *arguments)
