"""When a resident task reports in which line it works."""

from __future__ import annotations

from trident_py.worker.task_watch import TaskWatch


def test_only_a_request_that_was_there_at_the_last_look_is_reported() -> None:
    told: list[tuple[int, str]] = []
    watch = TaskWatch(lambda number, place: told.append((number, place)))
    watch.look()
    with watch.over(1):
        watch.look()
    with watch.over(2):
        watch.look()
        assert told == []
        watch.look()
        watch.look()
    watch.look()
    assert [number for number, _ in told] == [2, 2]
    assert told[0][1].startswith(
        f"in test_only_a_request_that_was_there_at_the_last_look_is_reported, {__file__}, line "
    )
