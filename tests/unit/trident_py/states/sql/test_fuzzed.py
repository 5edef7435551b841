"""What SQL states read of themselves: any text and any number in the books is read, or refused by name."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from tests.transactions import begin
from tests.unit.trident_py.states.aggregators import Adding
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import TridentError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.rows.schema import schema_of
from trident_py.states.fenced import StateHeader
from trident_py.states.keys import decode_key, encode_key
from trident_py.states.sql.columns import declared_fields
from trident_py.states.sql.reading import TableReader
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.states.sql.sqlite_database import SQLiteDatabase

TEXTS = st.text(max_size=60)
KINDS = st.sampled_from(["bigint", "string", "decimal(10,2)", "array<int>", "struct<a:int>", "", "int, b int"])
DECLARED = TEXTS | st.lists(st.builds("{} {}".format, st.sampled_from(["a", "b", "`", ""]), KINDS)).map(", ".join)
STORED = st.none() | st.integers(-(2**63), 2**63 - 1) | TEXTS | st.binary(max_size=20) | st.floats()
COLUMNS = [*StateHeader.COLUMNS.split(", "), "made"]


@given(DECLARED)
def test_any_text_of_declared_fields_is_read_or_refused(text: str) -> None:
    with suppress(TridentError):
        declared_fields(text)


def _filled(path: Path) -> None:
    factory = SQLiteState(path, table="counts")
    told = factory.for_fields(StructType(schema_of("word string").fields), schema_of("n bigint").fields[0])
    state = told.make_state(TridentConfig(), Metrics(), 0, 1)
    state.recover(TOPOLOGY, 1)
    begin(state, transaction(1))
    state.multi_merge([("a",)], [1], Adding())
    state.commit_group()
    state.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(COLUMNS), STORED | DECLARED)
def test_any_value_in_a_row_of_the_books_is_read_or_refused(tmp_path: Path, column: str, value: Any) -> None:
    path = tmp_path / "s.db"
    path.unlink(missing_ok=True)
    for beside in ("-wal", "-shm"):
        Path(f"{path}{beside}").unlink(missing_ok=True)
    _filled(path)
    with closing(sqlite3.connect(path)) as client:
        try:
            client.execute(f"UPDATE _trident SET {column} = ?", [value])  # noqa: S608 - one of ours
        except (sqlite3.IntegrityError, UnicodeEncodeError):
            return
        client.commit()
    factory = SQLiteState(path, table="counts")
    told = factory.for_fields(StructType(schema_of("word string").fields), schema_of("n bigint").fields[0])
    state = told.make_state(TridentConfig(), Metrics(), 0, 1)
    with suppress(TridentError):
        state.recover(TOPOLOGY, 2)
        state.multi_get([("a",)])
    state.close()
    with suppress(TridentError):
        reader = TableReader.opened(SQLiteDatabase(path), "counts")
        reader.get_tuples()
        reader.close()


ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.datetimes()
TAGS = st.sampled_from(["float", "decimal", "timestamp", "date", "time", "interval", "bytes", "struct"])
KEYS = st.lists(st.recursive(ATOMS, lambda part: st.lists(part, max_size=3), max_leaves=5), max_size=3)


@given(KEYS)
def test_any_key_has_a_text_that_stands_for_it_or_is_refused(key: list[Any]) -> None:
    with suppress(TridentError):
        assert encode_key(decode_key(encode_key(key))) == encode_key(key)


JSON = st.recursive(
    st.none() | st.integers() | TEXTS, lambda part: st.lists(part) | st.dictionaries(TEXTS | TAGS, part)
)


@given(TEXTS | JSON.map(json.dumps))
def test_any_text_of_a_key_is_read_or_refused(text: str) -> None:
    with suppress(TridentError):
        decode_key(text)
