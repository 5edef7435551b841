"""Who waits until a topology has nothing left to do."""

from __future__ import annotations

from coordinators.driver.driver import IdleWaiters
from coordinators.protocol.messages import IdleWanted


def test_only_a_check_that_began_after_the_question_answers_it() -> None:
    waiters, told = IdleWaiters(), []
    for asked in (3, 5):
        waiters.add(IdleWanted(lambda error, asked=asked: told.append((asked, error))), asked)  # type: ignore[misc]
    waiters.answer(lambda asked: asked < 5)
    assert told == [(3, None)]
    waiters.answer(lambda asked: True)
    waiters.answer(lambda asked: True)
    assert told == [(3, None), (5, None)]


def test_who_waits_in_vain_is_told_why_and_once() -> None:
    waiters = IdleWaiters()
    told: list[BaseException | None] = []
    waiters.add(IdleWanted(told.append), 1)
    error = ValueError("it has failed")
    waiters.refuse(error)
    waiters.answer(lambda asked: True)
    assert told == [error]
