"""What a column of either database takes, before anything of it is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transactions import begin
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, opened, transaction
from trident_py.errors import StateError
from trident_py.rows.schema import schema_of
from trident_py.states.sql.columns import TypedColumn, declared, declared_fields
from trident_py.states.sql.postgres_database import POSTGRESQL
from trident_py.states.sql.sqlite_database import SQLITE

AnyColumnOf = Callable[..., TypedColumn]
both = pytest.mark.parametrize("column_of", [SQLITE.column_of, POSTGRESQL.column_of])


@both
@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("x bigint", "7"),
        ("x bigint", 7.0),
        ("x bigint", 2.0**63),
        ("x bigint", True),
        ("x int", Decimal(7)),
        ("x string", 7),
        ("x string", b"a"),
        ("x binary", "a"),
        ("x boolean", 1),
        ("x boolean", "true"),
        ("x double", "7.5"),
        ("x double", "much"),
        ("x double", b"7"),
        ("x decimal(4,2)", Decimal("1.005")),
        ("x decimal(4,2)", Decimal("100")),
        ("x decimal(4,2)", Decimal("NaN")),
        ("x decimal(4,2)", 1.5),
        ("x decimal(4,2)", "1.5"),
        ("x date", "2024-01-01"),
        ("x date", datetime(2024, 1, 1, tzinfo=UTC)),
        ("x timestamp", 0),
        ("x timestamp", date(2024, 1, 1)),
        ("x timestamp_ntz", "2024-01-01"),
    ],
)
def test_a_value_of_another_type_or_beyond_it_is_named_with_its_field(
    column_of: AnyColumnOf, ddl: str, value: Any
) -> None:
    fitting = {"x string": "a", "x binary": b"a"}.get(ddl)
    with pytest.raises(StateError, match=r"field 'x' is .* cannot hold") as raised:
        list(column_of(schema_of(ddl).fields[0]).stored([None, fitting, value]))
    assert repr(value) in str(raised.value)


@both
@pytest.mark.parametrize(
    ("ddl", "value", "stored"),
    [
        ("x bigint", np.int32(7), 7),
        ("x double", np.float32(0.5), 0.5),
        ("x double", 7, 7.0),
        ("x binary", bytearray(b"a"), b"a"),
    ],
)
def test_a_value_that_means_one_of_the_type_is_taken(column_of: AnyColumnOf, ddl: str, value: Any, stored: Any) -> None:
    (found,) = column_of(schema_of(ddl).fields[0]).stored([value])
    assert found == stored


def test_what_an_aggregator_makes_of_another_type_is_never_written(tmp_path: Path) -> None:
    with opened(tmp_path / "counts.db") as state:
        state.recover(TOPOLOGY, 1)
        begin(state, transaction(1))
        with pytest.raises(StateError, match="field 'count' is bigint and cannot hold '7'"):
            state.multi_update([("a",), ("b",)], [lambda _: 1, lambda _: "7"])
        assert state.multi_get([("a",), ("b",)]) == [None, None]


@both
def test_what_is_declared_is_read_back(column_of: AnyColumnOf) -> None:
    fields = schema_of("word string, `order` int, `struct` decimal(10,2), at timestamp_ntz, n tinyint").fields
    keys, value = declared_fields(declared([column_of(each) for each in fields]))
    assert [*keys.fields, value] == fields
