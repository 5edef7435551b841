"""What is said where nothing happens, and when it is told."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from attrs import define, evolve, field

from coordinators.record.record import Failure
from coordinators.record.wishes import Hold, Standing
from coordinators.status.listener import EndedEvent, StandstillEvent, TopologyEvent
from coordinators.status.status import BusyTask, SourceStatus, TopologyStatus, TransactionStatus, Wait
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.monitoring.listeners import Listeners, StandstillWatch, waits
from trident_py.engine.threads.threads import ThreadWork

PATIENCE_SECONDS = 60
ATTEMPT = TransactionAttempt(7, 1)
STATUS = TopologyStatus(topology="wc", is_leading=True, epoch=1, current_txid=7, at=100.0, moved=80.0)
PROCESSING = evolve(
    STATUS, transactions=(TransactionStatus(attempt=ATTEMPT, number=7, phase="processing", since=80.0),)
)
EMITTING = ThreadWork(thread="emitter", doing="spout 'lines' emits 7:1", since=80.0, place="in emit, s.py, line 3")


def said(status: TopologyStatus, *works: ThreadWork, now: float = 100.0, place: str = "") -> list[str]:
    return [each.message(now) for each in waits(status, works, place, now)]


def test_what_is_under_way_is_named_with_the_threads_at_work_longest_first() -> None:
    job = ThreadWork(thread="job-0", doing="counts is prepared for 7:1", since=90.0, place="in Spark")
    just_begun = ThreadWork(thread="job-1", doing="other is prepared for 8:0", since=99.9, place="")
    assert said(PROCESSING, just_begun, job, EMITTING) == [
        "transaction 7:1 is processing, for 20 s",
        "spout 'lines' emits 7:1, on thread 'emitter' in emit, s.py, line 3, for 20 s",
        "counts is prepared for 7:1, on thread 'job-0' in Spark, for 10 s",
    ]


def test_a_resident_task_that_has_had_a_batch_for_long_is_named_with_its_place() -> None:
    busy = [BusyTask(task=1, seconds=12.3, place="in slow, s.py, line 14"), BusyTask(task=2, seconds=3.0)]
    assert said(evolve(PROCESSING, busy_tasks=busy)) == [
        "transaction 7:1 is processing, for 20 s",
        "resident task 1 processes a batch in slow, s.py, line 14, for 12 s",
        "resident task 2 processes a batch, for 3 s",
    ]


def test_what_keeps_batches_from_starting_is_named() -> None:
    paused = evolve(STATUS, standing=Standing(Hold.PAUSED), is_paused=True, unready=("lines",))
    assert said(paused) == ["an operator has it paused; `trident resume wc` lifts that"]
    assert said(evolve(STATUS, is_paused=True)) == ["query.pause() was called, and query.resume() was not"]
    source = SourceStatus(spout="lines", txid=7, cause="no route", tries=3, since=40.0, last=90.0)
    away = evolve(STATUS, sources=(source,), held_until=105.0)
    assert said(away) == ["the source of spout 'lines' is unavailable: no route, for 60 s"]


def test_a_back_off_says_until_when_and_why() -> None:
    failure = Failure(2, 1, "ValueError: bad", since=60.0, last=80.0, tries=2)
    held = evolve(STATUS, held_until=110.0, failures={7: failure})
    at = time.strftime("%H:%M:%S", time.localtime(110))
    assert said(held) == [
        f"the next try of transaction 7 at {at}; tries so far: 2, the last failed by ValueError: bad",
    ]


def test_spouts_without_input_are_named_where_nothing_is_under_way() -> None:
    assert said(evolve(STATUS, unready=("a", "b"))) == ["spout 'a' has no input", "spout 'b' has no input"]
    assert said(evolve(PROCESSING, unready=("a",))) == ["transaction 7:1 is processing, for 20 s"]


def test_a_driver_that_takes_no_turns_comes_first() -> None:
    first, *_ = said(PROCESSING, now=130.0, place="in write, session.py, line 9")
    assert first == "the driver's thread in write, session.py, line 9, for 30 s"


@define
class World:
    """A watch, and what it looks at."""

    status: TopologyStatus = PROCESSING
    works: list[ThreadWork] = field(factory=list)
    stages: dict[str, str] = field(factory=dict)
    told: list[TopologyEvent] = field(factory=list)
    watch: StandstillWatch = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.watch = StandstillWatch("wc", self.told.append)
        self.watch._thread = threading.current_thread()  # the test looks
        self.watch.follow(lambda: self.status, lambda: self.works, lambda: self.stages)

    def look(self, now: float) -> list[list[str]]:
        """What is told of at that look."""
        self.told.clear()
        self.status = evolve(self.status, at=now)
        self.watch.look(now)
        return [[each.what for each in event.waits_for] for event in self.told if isinstance(event, StandstillEvent)]


def test_nothing_is_said_while_something_happens() -> None:
    world = World()
    assert world.look(84.9) == []
    assert world.watch.waits_for == ()
    assert world.look(85.0) == [["transaction 7:1 is processing"]]


def test_only_what_is_news_is_told_and_so_is_the_end_of_it() -> None:
    world = World()
    assert len(world.look(90.0)) == 1
    assert world.look(91.0) == []
    world.stages["stage 1"] = "Spark stage 1: 0 of 2 tasks done, 2 running"
    assert world.look(92.0) == [["transaction 7:1 is processing", "Spark stage 1: 0 of 2 tasks done, 2 running"]]
    world.stages["stage 1"] = "Spark stage 1: 1 of 2 tasks done, 1 running"
    assert world.look(94.0) == [["transaction 7:1 is processing", "Spark stage 1: 1 of 2 tasks done, 1 running"]]
    assert world.watch.waits_for == (Wait("transaction 7:1 is processing", 80.0), Wait(world.stages["stage 1"], 92.0))
    world.status = evolve(world.status, moved=92.5)
    assert world.look(93.0) == [[]]
    assert world.look(94.0) == []


def test_sparks_stages_are_told_only_where_a_transaction_is_under_way() -> None:
    world = World(status=evolve(STATUS, unready=("lines",)), stages={"stage 1": "another application's"})
    assert world.look(90.0) == [["spout 'lines' has no input"]]


def test_before_the_driver_has_begun_there_is_nothing_to_say() -> None:
    assert World(status=TopologyStatus(topology="wc")).look(1000.0) == []


def test_a_long_standstill_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    for now in (100.0, 109.9, 110.0, 111.0, 150.0):
        world.look(now)
    assert [record.getMessage() for record in caplog.records] == [
        "topology wc: nothing has happened for 30 s: transaction 7:1 is processing, for 30 s"
    ]


def test_nothing_follows_the_end() -> None:
    listeners = Listeners("wc")
    told: list[TopologyEvent] = []
    listeners.standstill.tell = told.append
    listeners.standstill._thread = threading.current_thread()
    listeners.standstill.follow(lambda: PROCESSING, list, dict)
    listeners.tell(EndedEvent(topology="wc", at=1.0))
    listeners.standstill.look(100.0)
    assert told == []
    assert listeners.standstill.waits_for == ()


def test_its_thread_has_ended_when_the_listeners_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.engine.monitoring.listeners.LOOK_SECONDS", 0.01)
    looks, may, listeners = threading.Event(), threading.Event(), Listeners("wc")

    def status() -> TopologyStatus:
        looks.set()
        may.wait(PATIENCE_SECONDS)
        return STATUS

    listeners.standstill.follow(status, list)
    assert looks.wait(PATIENCE_SECONDS)
    listeners.tell(EndedEvent(topology="wc", at=1.0))
    threading.Timer(0.2, may.set).start()
    listeners.close()
    assert [thread.name for thread in threading.enumerate() if "trident-wc" in thread.name] == []


def test_what_it_looks_at_may_raise(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.engine.monitoring.listeners.LOOK_SECONDS", 0.001)
    looked, heard = threading.Event(), threading.Event()

    def stages() -> dict[str, str]:
        if not looked.is_set():
            looked.set()
            raise ValueError("no stages")
        return {}

    watch = StandstillWatch("wc", lambda _: heard.set())
    watch.follow(lambda: PROCESSING, list, stages)
    assert heard.wait(PATIENCE_SECONDS)
    watch.close()
    assert "topology wc: the reason for its standstill could not be determined; it continues" in caplog.text
