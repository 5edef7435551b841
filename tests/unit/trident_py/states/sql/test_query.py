"""`SQLQuery`: what is asked, and what is no question."""

from __future__ import annotations

from typing import Any

import pytest

from trident_py.errors import TopologyError
from trident_py.states.sql.query import Question, SQLQuery


@pytest.mark.parametrize("query", ["", "DELETE FROM prices", "drop table prices", 5, None])
def test_what_is_no_select_is_refused_where_it_is_written(query: Any) -> None:
    with pytest.raises(TopologyError, match="takes a SELECT"):
        SQLQuery("sqlite:///prices.db", query)


def test_a_url_of_no_database_is_refused_where_it_is_written() -> None:
    with pytest.raises(TopologyError, match="begins with sqlite:///, postgresql:// or mysql://"):
        SQLQuery("redis://localhost", "SELECT 1")


def test_parameters_are_bound_in_their_order_and_quoted_texts_and_casts_stay() -> None:
    question = Question.of("SELECT ':a', x::int FROM t WHERE b = :b AND c LIKE 'x%' AND d = :b OR e = :e", "?")
    assert question.names == ("b", "b", "e")
    assert question.text == "SELECT ':a', x::int FROM t WHERE b = ? AND c LIKE 'x%' AND d = ? OR e = ?"
