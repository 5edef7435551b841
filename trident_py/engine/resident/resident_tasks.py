"""`ResidentTasks`: runs shared jobs of small batches in Spark tasks that stay, without starting a Spark job for each.

One long Spark job has the tasks. Each connects to this process, and a request goes to one of them at a time. If no task
is there, or one is lost while it has a request, the request runs as a Spark job, under the same attempts.

The tasks belong to the process, and come before it leads: so a standby has them when it takes over. They see nothing of
a leadership. At its end all its requests are abandoned, so no answer to them counts later.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias
from uuid import uuid4

import pyarrow as pa
from attrs import define, field
from pyspark.sql import SparkSession

from coordinators.status.status import BusyTask
from coordinators.values.error_text import error_text, quoted
from trident_py.engine.plane.work import Job, Processed
from trident_py.engine.ports.batch_engine import Ended
from trident_py.engine.resident.pool import Action, Close, GiveBack, Request, ResidentPool, Send, Take
from trident_py.engine.resident.server import Handlers, ResidentServer
from trident_py.engine.resident.settings import ResidentSettings
from trident_py.engine.resident.slots import slots_taken
from trident_py.spark import jobs
from trident_py.spark.asking import answer_within
from trident_py.spark.frames import run_in_tasks
from trident_py.worker.counters import NodeCounts
from trident_py.worker.failures import TaskFailed, TaskFailure
from trident_py.worker.resident import ResidentTask, ShippedBranch
from trident_py.worker.wire import FRAME_BYTES_MAX, Frame, packed, unpacked

log = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
AGAIN_SECONDS_MAX = 30.0
"""The pause before the tasks are started again; it doubles each time that they end early."""

CALM_SECONDS = 60.0
"""Tasks that have run for so long are started again without a longer pause."""

SLOW_SECONDS = 60.0
"""A branch runs as jobs for so long after a request missed its deadline: its functions are slow, or hang."""

IDLE_SECONDS_MAX = 10.0
"""Tasks that came by themselves end after this time without a request."""

BUSY_SECONDS = 2.0
"""The status shows a task that has had a request for so long."""

PLACE_CHARACTERS_MAX = 500

END_SECONDS_MAX = 2.0
"""How long the end of the tasks is waited for before their job is cancelled."""


Results: TypeAlias = Callable[[pa.Table, Mapping[tuple[int | None, str], NodeCounts]], Sequence[Processed]]
"""Returns the results of a job from the rows of an answer, and all counts."""


def resident_group(topology: str) -> str:
    """Return the group of the Spark jobs with the resident tasks of a topology."""
    return f"trident:{topology}:resident"


@define(kw_only=True, eq=False)
class _Waiting:
    """A job that a task runs."""

    results: Results
    ended: Ended


# large: the one place that connects the pool, the connections and the Spark job
@define(kw_only=True, eq=False)
class ResidentTasks:
    """The tasks of one topology in this process.

    Attributes:
        session: in which their job runs.
        shipped: returns the branches that the tasks can run, by number; called before the tasks are started first.
        settings: how many tasks there are.
        topology: for messages.
    """

    session: SparkSession
    shipped: Callable[[], Mapping[int, ShippedBranch]]
    settings: ResidentSettings
    topology: str
    _branches: Mapping[int, ShippedBranch] = field(factory=dict, init=False)
    _pool: ResidentPool = field(factory=ResidentPool, init=False)
    _waiting: dict[Hashable, _Waiting] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _closing: threading.Event = field(factory=threading.Event, init=False)
    _wanted: threading.Event = field(factory=threading.Event, init=False)  # also set at the end
    _slow_until: dict[int, float] = field(factory=dict, init=False)  # by branch
    _sent: dict[int, float] = field(factory=dict, init=False)  # when each awaited request was sent, by number
    _last: float = field(factory=time.monotonic, init=False)  # when a request came
    _has_joined: bool = field(default=False, init=False)  # whether a task of the running job has
    _tag: str = field(factory=lambda: f"trident:resident:{uuid4()}", init=False)  # a standby may share the session
    _secret: bytes = field(factory=lambda: secrets.token_bytes(32), init=False, repr=False)
    _server: ResidentServer = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._server = ResidentServer(
            host=self.settings.listens_at,
            secret=self._secret,
            name=f"trident-{self.topology}-resident",
            handlers=Handlers(joined=self._joined, received=self._received, left=self._left, ticked=self._ticked),
        )
        if self.settings.count is not None:
            self._wanted.set()
        self._thread = threading.Thread(
            target=self._run_tasks, name=f"trident-{self.topology}-resident-job", daemon=True
        )
        self._thread.start()

    # --- on the driver's thread ---------------------------------------------------------------------------------------

    def begin(self, job: Job, rows: Callable[[], pa.Table], results: Results, ended: Ended) -> bool:
        """Let a task run ``job`` over ``rows``; return false if a Spark job must do it.

        ``results`` and ``ended`` are called on any thread.
        """
        self._last = time.monotonic()
        self._wanted.set()
        if not (self._pool.is_there and job.branch in self._branches):
            return False
        if self._last < self._slow_until.get(job.branch, 0.0):
            return False
        try:
            body = packed(rows())
        except Exception:
            log.debug("topology %s: the rows of %s can't be sent", self.topology, job, exc_info=True)
            return False  # the Spark job reports the error
        if len(body) > FRAME_BYTES_MAX // 2:
            return False
        txids = [attempt.txid for attempt in job.attempts]
        frame = Frame({"branch": job.branch, "txids": txids}, body)
        request = Request(key=job, until=self._last + self.settings.seconds, frame=frame)
        with self._lock:
            self._waiting[job] = _Waiting(results=results, ended=ended)
            actions = self._pool.add(request)
        self._carry_out(actions)
        return True

    def cancel(self, job: Job) -> None:
        """Abandon the request of ``job``, if it is under way. Any thread may call it."""
        with self._lock:
            actions = self._pool.cancel(job)
        self._carry_out(actions)

    def release(self) -> None:
        """Abandon all requests, at the end of a leadership."""
        with self._lock:
            actions = self._pool.release()
        self._carry_out(actions)

    def numbers(self) -> Mapping[str, int]:
        """Return how many tasks there are, and what became of the requests."""
        with self._lock:
            pool = self._pool
            return {
                "there": pool.count,
                "answered": pool.answered,
                "given_back": pool.given_back,
                "dropped": pool.dropped,
            }

    def busy(self) -> Sequence[BusyTask]:
        """Return the tasks that have had a request for some seconds."""
        now = time.monotonic()
        with self._lock:
            sent = [(self._sent.get(awaited.number, now), awaited) for awaited in self._pool.awaited.values()]
            return [
                BusyTask(task=awaited.task, seconds=round(now - since, 1), place=awaited.place)
                for since, awaited in sent
                if now - since >= BUSY_SECONDS
            ]

    def close(self) -> None:
        """End the tasks; cancel their job if they don't end.

        The port is given back last. A task that is still starting would connect to its next owner, such as Spark, which
        passes on the rows of a job to the first that connects.
        """
        self._closing.set()
        self._wanted.set()
        self._server.end_all()
        self._thread.join(END_SECONDS_MAX)
        if self._thread.is_alive():
            with suppress(Exception):  # Spark may be gone, and with it the tasks
                answer_within(lambda: jobs.cancel(self.session, self._tag), END_SECONDS_MAX)
                self._thread.join(END_SECONDS_MAX)
        self._server.close()

    # --- on the server's thread ---------------------------------------------------------------------------------------

    def _joined(self, link: int, task: int) -> None:
        if self._closing.is_set():
            self._server.end(link)
            return
        with self._lock:
            self._has_joined = True
            actions = self._pool.join(link, task)
        log.info("topology %s: resident task %d is there", self.topology, task)
        self._carry_out(actions)

    def _received(self, link: int, frame: Frame) -> None:
        number = frame.head.get("number", 0)
        with self._lock:
            if "place" in frame.head:
                self._pool.stand(link, number, str(frame.head["place"])[:PLACE_CHARACTERS_MAX])
                return
            actions = self._pool.answer(link, number, frame)
        self._carry_out(actions)

    def _left(self, link: int) -> None:
        with self._lock:
            actions = self._pool.leave(link)
        self._carry_out(actions)

    def _ticked(self) -> None:
        with self._lock:
            actions = self._pool.expire(time.monotonic())
            is_idle = self._pool.is_idle
        self._carry_out(actions)
        if self.settings.count is None and is_idle and time.monotonic() - self._last > IDLE_SECONDS_MAX:
            self._wanted.clear()
            for link in self._pool.links:
                self._server.end(link)

    def _avoid(self, late: Request) -> None:
        """Run the branch of a request that missed its deadline as jobs, for a while."""
        self._slow_until[late.frame.head["branch"]] = time.monotonic() + SLOW_SECONDS
        log.warning(
            "topology %s: a resident task has not answered within %g s; such batches run as jobs for %g s",
            *(self.topology, self.settings.seconds, SLOW_SECONDS),
        )

    # --- on any thread ------------------------------------------------------------------------------------------------

    def _carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Send(link, number, request):
                    self._note(number)
                    self._server.send(link, Frame({**request.frame.head, "number": number}, request.frame.body))
                case Close(link):
                    self._server.drop(link)
                case GiveBack(request, is_late):
                    if is_late:
                        self._avoid(request)
                    self._take_off(request).ended(None)
                case Take(request, answer):
                    waiting = self._take_off(request)
                    waiting.ended(self._outcome(waiting.results, answer))

    def _note(self, number: int) -> None:
        now = time.monotonic()
        with self._lock:
            awaited = {each.number for each in self._pool.awaited.values()}
            self._sent = {each: since for each, since in self._sent.items() if each in awaited} | {number: now}

    def _take_off(self, request: Request) -> _Waiting:
        with self._lock:
            return self._waiting.pop(request.key)

    def _outcome(self, results: Results, answer: Frame) -> Sequence[Processed] | BaseException | None:
        """Return the results in an answer, or the failure; None: the task could not run the request."""
        if "undone" in answer.head:
            log.info("topology %s: a job runs what a resident task could not: %s", self.topology, answer.head["undone"])
            return None
        if "failure" in answer.head:
            return TaskFailed(TaskFailure.read(answer.head["failure"]))
        try:
            counts = {(txid, node): NodeCounts(by_name) for txid, node, by_name in answer.head["counts"]}
            return results(unpacked(answer.body), counts)
        except BaseException as error:  # noqa: BLE001 - an output checks the rows
            return error

    # --- on the thread of the Spark job -------------------------------------------------------------------------------

    def _are_needed(self) -> bool:
        """Wait until tasks are wanted; return false if none are, or no branch can run in one."""
        self._wanted.wait()
        if self._closing.is_set():
            return False
        self._branches = self.shipped()
        if not self._branches:
            log.log(
                logging.WARNING if self.settings.count else logging.DEBUG,
                "topology %s: no branch can run in a resident task; explain() says why",
                self.topology,
            )
        return bool(self._branches)

    def _run_tasks(self) -> None:
        if not self._are_needed():
            return
        pause = AGAIN_SECONDS
        while self._wanted.wait() and not self._closing.is_set():
            begun, why, self._has_joined = time.monotonic(), "they have ended", False
            try:
                if not self._run_job():
                    self._closing.wait(AGAIN_SECONDS)
                    continue
            except Exception as error:
                log.debug("topology %s: the job of resident tasks", self.topology, exc_info=quoted(error))
                why = error_text(error)[:500]
            if self._closing.is_set() or not self._wanted.is_set():
                continue
            if not self._has_joined:
                why = f"none has connected to {self.settings.host}:{self._server.port}: {why}"
                if self.settings.count is None:
                    log.info("topology %s: small batches run as jobs, as no resident task can (%s)", self.topology, why)
                    return
            pause = AGAIN_SECONDS if time.monotonic() - begun > CALM_SECONDS else pause
            log.warning(
                "topology %s: resident tasks are started again in %g s (%s); until then, small batches run as jobs",
                *(self.topology, pause, why),
            )
            self._closing.wait(pause)
            pause = min(2 * pause, AGAIN_SECONDS_MAX)

    def _run_job(self) -> bool:
        """Run the tasks to their end; return false if there is no slot for them."""
        address = (self.settings.host, self._server.port)
        task = ResidentTask(address=address, secret=self._secret, branches=self._branches)
        with (
            slots_taken(self.session, self.settings.count) as count,
            jobs.grouped(self.session, resident_group(self.topology)),
            jobs.tagged(self.session, self._tag, f"{self.topology}: tasks that stay, for small batches"),
        ):
            if count:
                run_in_tasks(self.session, count, task)
            return bool(count)
