from __future__ import annotations

import pickle
from typing import Any

import pytest
from attrs import frozen
from pyspark.sql.types import StructType

from trident_py.errors import FailedException
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import Function
from trident_py.rows.row import Row, row_class
from trident_py.rows.schema import append, schema_of, select
from trident_py.worker.pipeline import (
    EachStep,
    FilterStep,
    FlatMapStep,
    MapStep,
    PeekStep,
    ProjectStep,
    RowCollector,
    Step,
)

SOURCE = schema_of("word string, n int")
NAMES = ("word", "n")
ROWS = [("a", 1), ("b", 2), ("c", 3)]


def whole(kind: type[Any], fn: Any, target: StructType = SOURCE) -> Any:
    return kind(title="the step", source=NAMES, in_fields=NAMES, target=target, fn=fn)


@frozen
class Repeat(Function):
    """Emits the number as often as it says."""

    as_list: bool = False

    def execute(self, row: Row, collector: TridentCollector) -> None:
        for index in range(row.n):
            collector.emit([index] if self.as_list else (index,))


def repeat(function: Function, in_fields: tuple[str, ...] = ("n",)) -> EachStep:
    out = schema_of("index int")
    return EachStep(
        title="each(Repeat)", source=NAMES, in_fields=in_fields, target=append(SOURCE, out), function=function, out=out
    )


def test_map_gives_one_row_for_each() -> None:
    step = whole(MapStep, lambda row: (row.n, row.word), schema_of("n int, word string"))
    assert step(ROWS) == [(1, "a"), (2, "b"), (3, "c")]
    assert step([]) == []


def test_flat_map_strings_together_lists_and_other_iterables() -> None:
    assert whole(FlatMapStep, lambda row: [tuple(row)] * row.n)(ROWS) == [ROWS[0], *[ROWS[1]] * 2, *[ROWS[2]] * 3]
    assert whole(FlatMapStep, lambda row: (tuple(row) for _ in range(row.n - 1)))(ROWS) == [ROWS[1], *[ROWS[2]] * 2]


def test_filter_sees_its_fields_only_and_keeps_whole_rows() -> None:
    seen = []

    def keep(row: Row) -> object:
        seen.append(row)
        return row.n if row.n > 1 else None

    step = FilterStep(title="filter", source=NAMES, in_fields=("n",), target=SOURCE, keep=keep)
    assert step(ROWS) == ROWS[1:]
    assert seen == [(1,), (2,), (3,)]
    assert seen[0]._fields == ("n",)


def test_peek_shows_each_row_and_ignores_what_comes_back() -> None:
    seen: list[Row] = []
    assert whole(PeekStep, seen.append)(iter(ROWS)) == ROWS
    assert [row.word for row in seen] == ["a", "b", "c"]


def test_each_appends_what_is_emitted_and_drops_rows_without() -> None:
    assert repeat(Repeat())([("a", 2), ("b", 0), ("c", 1)]) == [("a", 2, 0), ("a", 2, 1), ("c", 1, 0)]
    assert repeat(Repeat(as_list=True), in_fields=("word", "n"))([("a", 1)]) == [("a", 1, 0)]


def test_project_keeps_fields_in_the_order_asked_for() -> None:
    step = ProjectStep(title="project", source=NAMES, in_fields=("n", "word"), target=select(SOURCE, ("n", "word")))
    assert step(ROWS) == [(1, "a"), (2, "b"), (3, "c")]
    one = ProjectStep(title="project", source=NAMES, in_fields=("n",), target=select(SOURCE, ("n",)))
    assert one([row_class(NAMES)._make(row) for row in ROWS]) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("given", ["ab", None, 7, {"word": "a", "n": 1}, {"a"}], ids=repr)
def test_what_is_no_row_is_shown_with_the_step(given: object) -> None:
    with pytest.raises(TypeError, match="the step must give a tuple, list or Row for each row, not ") as caught:
        whole(MapStep, lambda _: given)(ROWS)
    assert f"{given!r} ({type(given).__name__})" in str(caught.value)


@pytest.mark.parametrize("given", ["ab", None, 7, b"ab", {"word": "a"}], ids=repr)
def test_what_gives_no_rows_is_shown_with_the_step(given: object) -> None:
    with pytest.raises(TypeError, match="the step must give an iterable of tuples, lists or Rows, not ") as caught:
        whole(FlatMapStep, lambda _: given)(ROWS)
    assert repr(given) in str(caught.value)


def test_a_single_row_in_place_of_several_is_an_error_too() -> None:
    with pytest.raises(TypeError, match="must give a tuple, list or Row for each row, not 'a'"):
        whole(FlatMapStep, lambda row: (row.word, row.n))(ROWS)


@pytest.mark.parametrize("given", [("a",), ["a", 1, 2], ()], ids=repr)
def test_the_wrong_number_of_values_is_shown_with_the_fields(given: Any) -> None:
    with pytest.raises(ValueError, match=r"the step gave \d values, .* for the 2 fields \['word', 'n'\]") as caught:
        whole(MapStep, lambda row: given if row.n == 2 else row)(ROWS)
    assert repr(given) in str(caught.value)


def test_rows_of_any_class_are_taken() -> None:
    rows: list[Any] = [("a", 1), ["b", 2], row_class(NAMES)._make(("c", 3))]
    given = iter(rows)
    made = whole(MapStep, lambda _: next(given))(ROWS)
    assert list(map(tuple, made)) == ROWS


@pytest.mark.parametrize("kind", [MapStep, FlatMapStep, PeekStep])
def test_an_exception_keeps_its_type_and_says_where_it_was_raised(kind: type[Any]) -> None:
    def fail(row: Row) -> Any:
        if row.n == 2:
            raise FailedException("not now")
        return [row] if kind is FlatMapStep else row

    with pytest.raises(FailedException, match="not now") as caught:
        whole(kind, fail)(ROWS)
    assert caught.value.args == ("not now",)
    assert caught.value.__notes__ == ["in the step, at Row(word='b', n=2)"]


def test_an_exception_of_a_filter_or_function_says_where_it_was_raised() -> None:
    step: Step = FilterStep(
        title="filter(f)", source=NAMES, in_fields=("n",), target=SOURCE, keep=lambda row: 1 / (row.n - 3)
    )
    with pytest.raises(ZeroDivisionError) as caught:
        step(ROWS)
    assert caught.value.__notes__ == ["in filter(f), at Row(word='c', n=3)"]
    with pytest.raises(TypeError) as wrong:
        repeat(Repeat())([("a", 1), ("b", None)])
    assert wrong.value.__notes__ == ["in each(Repeat), at Row(word='b', n=None)"]


def test_what_a_function_emits_is_checked_at_the_call() -> None:
    collector = RowCollector("each(Split)", schema_of("word string"))
    with pytest.raises(TypeError, match=r"each\(Split\) must give a tuple, list or Row for each row, not 'ab'"):
        collector.emit("ab")
    with pytest.raises(ValueError, match=r"each\(Split\) gave 2 values"):
        collector.emit(("a", "b"))
    collector.emit(("a",))
    assert (collector.take(), collector.take()) == ([("a",)], [])


def test_a_reported_error_is_logged_and_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    RowCollector("each(Split)", SOURCE).report_error(ValueError("odd line"))
    assert caplog.messages == ["each(Split): reported ValueError: odd line"]


def test_steps_survive_pickle() -> None:
    step = repeat(Repeat())
    assert pickle.loads(pickle.dumps(step))([("a", 1)]) == [("a", 1, 0)]  # noqa: S301 - its own


@pytest.mark.parametrize("bad", [1, 2, 3])
def test_a_function_that_raises_stop_iteration_loses_no_rows(bad: int) -> None:
    def fails(row: Row) -> Any:
        return next(iter(())) if row.n == bad else row

    keeping = FilterStep(title="the step", source=NAMES, in_fields=NAMES, target=SOURCE, keep=fails)
    for step in (whole(MapStep, fails), whole(PeekStep, fails), keeping):
        with pytest.raises(RuntimeError, match="the step raised StopIteration") as raised:
            step(ROWS)
        assert f"n={bad})" in "".join(raised.value.__notes__)
