"""The driver's thread: every question is answered, also at the end, and an error ends it with its cleanup done."""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue

from coordinators.errors import TridentError
from coordinators.loop import DriverLoop, Inbox
from coordinators.notices import Broken, IdleWanted, Notice, StopRequested
from tests.unit.coordinators.world import Numbers, World

PATIENCE_SECS = 30


def started(upto: int = 0, first: Sequence[Notice] = ()) -> tuple[DriverLoop, list[BaseException | None]]:
    """A running loop over a world with nothing to do, and what its end was told; ``first`` meet its first turn."""
    world = World(spouts={"lines": Numbers(upto=upto)})
    world.start()
    inbox = Inbox()
    object.__setattr__(world, "inbox", _Posting(inbox))
    for notice in first:
        inbox.post(notice)
    ends: list[BaseException | None] = []
    loop = DriverLoop("test", inbox, ends.append, world.driver)
    loop.start()
    return loop, ends


class _Posting(list[object]):
    """Answers go to the loop's own inbox."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self.inbox = inbox

    def append(self, notice: object) -> None:
        self.inbox.post(notice)  # type: ignore[arg-type]


def asked(loop: DriverLoop) -> BaseException | None:
    """What the loop answers to the question whether it is idle."""
    answers: SimpleQueue[BaseException | None] = SimpleQueue()
    assert loop.inbox.post(IdleWanted(answers.put))
    return answers.get(timeout=PATIENCE_SECS)


def test_an_idle_topology_says_so_and_stops_when_asked() -> None:
    loop, ends = started()
    assert asked(loop) is None
    loop.inbox.post(StopRequested(drain=True))
    assert loop.ended.wait(PATIENCE_SECS)
    assert ends == [None]
    assert loop.error is None
    assert not loop.inbox.post(StopRequested(drain=True))


def test_an_error_ends_it_and_is_the_answer_to_who_waits() -> None:
    loop, ends = started()
    error = TridentError("enough")
    loop.inbox.post(Broken(error))
    assert loop.ended.wait(PATIENCE_SECS)
    assert ends == [error]
    assert loop.error is error


def test_a_question_that_comes_with_the_end_is_answered() -> None:
    loop, _ = started(upto=1)
    answers: list[BaseException | None] = []
    for notice in (StopRequested(drain=False), IdleWanted(answers.append)):
        loop.inbox.post(notice)
    assert loop.ended.wait(PATIENCE_SECS)
    assert len(answers) == 1
    assert "was stopped" in str(answers[0])


def test_a_question_behind_an_error_in_the_same_turn_is_answered() -> None:
    answers: SimpleQueue[BaseException | None] = SimpleQueue()
    error = TridentError("enough")
    loop, _ = started(first=[Broken(error), IdleWanted(answers.put)])
    assert loop.ended.wait(PATIENCE_SECS)
    assert answers.get(timeout=PATIENCE_SECS) is error
