"""`SQLSink(mode="merge")`: the table is afterwards as if each change had been made to it, one after the other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trident_py.sinks.changing import FIELDS, Table
from tests.unit.trident_py.states.sql.everywhere import select
from tests.unit.trident_py.states.sql.everywhere import url as url
from tests.unit.trident_py.states.sql.test_sqlite import TOPOLOGY, transaction
from trident_py.errors import TopologyError
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.sinks.sql.sink import SQLSink

ROWS = schema_of(FIELDS)
OPTIONS: dict[str, Any] = {
    "mode": "merge",
    "keys": "id",
    "sequence_by": ("_lsn", "_n"),
    "deletes": "_op = 'delete'",
}


def opened(url: str) -> SQLSink:
    sink = SQLSink(url, "copy", **OPTIONS)
    sink.check_fields(ROWS)
    sink.recover(TOPOLOGY, 1)
    return sink


def write(sink: SQLSink, txid: int, rows: list[tuple[Any, ...]]) -> None:
    tx = transaction(txid)
    sink.commit(tx, sink.keep(tx, arrow_table(rows, ROWS)))


@given(st.data())
@settings(max_examples=25)
def test_the_table_is_as_if_each_change_had_been_made(data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        path, table = Path(directory, "copy.db"), Table()
        with closing(opened(f"sqlite:///{path}")) as sink, closing(sqlite3.connect(path)) as reader:
            for txid in range(1, 4):
                for _ in range(data.draw(st.integers(0, 8))):
                    table.draw(data)
                write(sink, txid, table.batch())
                found = reader.execute("SELECT id, n, doc FROM copy ORDER BY id").fetchall()
                assert {id: (n, doc) for id, n, doc in found} == table.rows


def test_keys_are_exchanged_while_their_large_values_stay_in_every_database(url: str) -> None:
    table = Table()
    with closing(opened(url)) as sink:
        for id in (1, 2, 3, 4):
            table.change("insert", id, id, f"doc {id}")
        write(sink, 1, table.batch())
        table.change("update", 5, 10, old=1, keeps=True)
        table.change("update", 1, 20, old=2, keeps=True)
        table.change("update", 2, 30, old=5, keeps=True)
        table.change("update", 3, 40, keeps=True)
        table.change("delete", 4)
        batch = table.batch()
        write(sink, 2, batch)
        expected = [(1, 20, "doc 2"), (2, 30, "doc 1"), (3, 40, "doc 3")]
        assert select(url, "SELECT id, n, doc FROM copy ORDER BY id") == expected
        write(sink, 2, batch)  # comes again, and is committed already
        table.change("truncate", 0)
        table.change("insert", 1, 1, "new")
        write(sink, 3, table.batch())
        assert select(url, "SELECT id, n, doc FROM copy") == [(1, 1, "new")]


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"sequence_by": ()}, "needs sequence_by="),
        ({"deletes": "_op IN ('delete')"}, "deletes= compares a field with a text"),
        ({"keys": ()}, "or 'merge' needs keys="),
        ({"mode": "upsert"}, "sequence_by= and deletes= are for mode='merge' only"),
        ({"mode": "replace"}, "mode is 'append', 'upsert' or 'merge', not 'replace'"),
        ({"sequence_by": "at"}, "there is no field 'at'"),
        ({"deletes": "op = 'delete'"}, "there is no field 'op'"),
        ({"keys": "_lsn"}, "there is no field '_lsn'"),
    ],
)
def test_arguments_of_a_merge_that_cannot_work_are_refused(options: dict[str, Any], refusal: str) -> None:
    with pytest.raises(TopologyError, match=refusal):
        SQLSink("sqlite:///copy.db", "copy", **{**OPTIONS, **options}).check_fields(ROWS)
