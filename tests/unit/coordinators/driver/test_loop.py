"""The driver's thread: every question is answered, also at the end, and an error ends it with its cleanup done."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event

import pytest

from coordinators.driver.loop import DriverLoop, Inbox
from coordinators.protocol.messages import Broken, IdleWanted, Message, PauseRequested, StopRequested
from coordinators.values.errors import TridentError
from tests.unit.coordinators.world import Numbers, World

PATIENCE_SECONDS = 30


def started(
    upto: int = 0, first: Sequence[Message] = (), at_end: Callable[[], object] = lambda: None
) -> tuple[DriverLoop, list[BaseException | None]]:
    """A running loop over a world with nothing to do, and what its end was told; ``first`` meet its first turn."""
    world = World(spouts={"lines": Numbers(upto=upto)})
    world.start()
    inbox = Inbox()
    object.__setattr__(world, "inbox", _Posting(inbox))
    for message in first:
        inbox.post(message)
    ends: list[BaseException | None] = []

    def end(error: BaseException | None) -> None:
        at_end()
        ends.append(error)

    loop = DriverLoop("test", inbox, end, world.driver)
    loop.start()
    return loop, ends


class _Posting(list[object]):
    """Answers go to the loop's own inbox."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self.inbox = inbox

    def append(self, message: object) -> None:
        self.inbox.post(message)  # type: ignore[arg-type]


def asked(loop: DriverLoop) -> BaseException | None:
    """What the loop answers to the question whether it is idle."""
    answers: SimpleQueue[BaseException | None] = SimpleQueue()
    assert loop.inbox.post(IdleWanted(answers.put))
    return answers.get(timeout=PATIENCE_SECONDS)


def test_full_collections_of_garbage_pass_over_what_was_there_before_while_a_loop_runs() -> None:
    first, _ = started()
    assert asked(first) is None
    second, _ = started()
    assert asked(second) is None
    first.stop(drain=True)
    assert gc.get_freeze_count()
    second.stop(drain=True)
    assert not gc.get_freeze_count()


def test_an_idle_topology_says_so_and_stops_when_asked() -> None:
    loop, ends = started()
    assert asked(loop) is None
    loop.inbox.post(StopRequested(drain=True))
    assert loop.ended.wait(PATIENCE_SECONDS)
    assert ends == [None]
    assert loop.error is None
    assert not loop.inbox.post(StopRequested(drain=True))


def test_an_error_ends_it_and_is_the_answer_to_who_waits() -> None:
    loop, ends = started()
    error = TridentError("enough")
    loop.inbox.post(Broken(error))
    assert loop.ended.wait(PATIENCE_SECONDS)
    assert ends == [error]
    assert loop.error is error


def test_a_question_that_comes_with_the_end_is_answered() -> None:
    loop, _ = started(upto=1)
    answers: SimpleQueue[BaseException | None] = SimpleQueue()
    for message in (StopRequested(drain=False), IdleWanted(answers.put)):
        loop.inbox.post(message)
    assert "was stopped" in str(answers.get(timeout=PATIENCE_SECONDS))


def test_a_question_behind_an_error_in_the_same_turn_is_answered() -> None:
    answers: SimpleQueue[BaseException | None] = SimpleQueue()
    error = TridentError("enough")
    loop, _ = started(first=[Broken(error), IdleWanted(answers.put)])
    assert loop.ended.wait(PATIENCE_SECONDS)
    assert answers.get(timeout=PATIENCE_SECONDS) is error


def test_who_waits_is_told_when_everything_is_closed_so_that_the_topology_can_start_again_at_once() -> None:
    answers: SimpleQueue[bool] = SimpleQueue()
    closing = Event()
    loop, ends = started(at_end=lambda: closing.wait(PATIENCE_SECONDS))
    assert loop.inbox.post(IdleWanted(lambda _: answers.put(bool(ends) and loop.ended.is_set())))
    assert answers.get(timeout=PATIENCE_SECONDS) is False  # it is idle
    loop.inbox.post(PauseRequested())
    loop.inbox.post(Broken(TridentError("enough")))
    loop.inbox.post(IdleWanted(lambda _: answers.put(bool(ends) and loop.ended.is_set())))
    closing.set()
    assert answers.get(timeout=PATIENCE_SECONDS) is True


def test_a_stop_says_why_leadership_is_kept_and_ends_when_it_is_forced() -> None:
    def hold() -> None:
        loop.shutdown.hold("a state commits")
        assert loop.shutdown.forced.wait(PATIENCE_SECONDS)

    loop, _ = started(at_end=hold)
    with ThreadPoolExecutor(1) as another:
        waiting = another.submit(loop.stop, drain=True)
        with pytest.raises(TridentError, match="a state commits"):
            waiting.result(PATIENCE_SECONDS)
    with pytest.raises(TridentError, match="a state commits"):
        loop.stop(drain=False)
    assert not loop.ended.is_set()
    loop.stop(drain=False, force=True)
    assert loop.ended.is_set()
    loop.stop(drain=True)
    assert loop.error is None
