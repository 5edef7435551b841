"""What the commit thread is doing, as others are told it."""

from __future__ import annotations

import pytest

from trident_py.engine.ports.commit_thread import CommitThread


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_takes_longer_than_it_should_is_named_while_it_lasts() -> None:
    clock = Clock()
    thread = CommitThread(patience=5.0, clock=clock)
    assert thread.late() == ""
    with thread.doing("the commit of transaction 7"):
        clock.now = 5.0
        assert thread.late() == ""
        clock.now = 6.0
        assert thread.late().startswith("the commit of transaction 7 has taken 6 s so far")
    assert thread.late() == ""


def test_a_warning_is_told_once_for_each_thing() -> None:
    clock = Clock()
    thread = CommitThread(patience=5.0, clock=clock)
    for what in ("one", "another"):
        with thread.doing(what):
            assert thread.warning() == "", "it is not late yet"
            clock.now += 6.0
            assert thread.warning().startswith(what)
            assert thread.warning() == ""
            assert thread.late().startswith(what)


def test_what_raises_is_over() -> None:
    clock = Clock()
    thread = CommitThread(patience=1.0, clock=clock)
    with pytest.raises(ValueError, match="broken"), thread.doing("it"):
        raise ValueError("broken")
    clock.now = 9.0
    assert thread.late() == ""


def test_work_by_tasks_gets_on_only_while_tasks_end() -> None:
    thread = CommitThread()
    assert thread.gets_on(), "it has no tasks"
    done = iter([0, 0, 2, 2, None])
    with thread.by_tasks(lambda: next(done)):
        assert [thread.gets_on() for _ in range(5)] == [True, False, True, False, True]
    assert thread.gets_on()
