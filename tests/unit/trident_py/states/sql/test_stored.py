from __future__ import annotations

import pytest

from trident_py.errors import StateError
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.states.sql.postgres_database import POSTGRESQL
from trident_py.states.sql.stored import StoredRows

FIELDS = schema_of("word string, n bigint")
DATA = arrow_table([("a", 1), ("b", None)], FIELDS)


def stored(*keys: int) -> StoredRows:
    return StoredRows([POSTGRESQL.column_of(field) for field in FIELDS.fields], DATA, keys)


def test_rows_come_with_the_texts_of_their_keys() -> None:
    assert list(stored(1, 0).rows()) == [("a", 1), ("b", None)]
    assert stored(1, 0).texts() == ['[1,"a"]', '[null,"b"]']


def test_without_a_key_all_rows_have_the_same_text() -> None:
    assert stored().texts() == ["[]", "[]"]


def test_a_value_that_does_not_fit_its_column_is_refused() -> None:
    columns = [POSTGRESQL.column_of(field) for field in schema_of("word bigint, n bigint").fields]
    with pytest.raises(StateError, match="field 'word' is bigint and cannot hold 'a'"):
        list(StoredRows(columns, DATA, ()).rows())
