"""What the errors of each database mean: comes again, this batch, never; what is not known comes again."""

from __future__ import annotations

import logging
import sqlite3
from typing import Any

import psycopg
import pytest

from trident_py.errors import FailedException, StateError, StoreBusyException
from trident_py.interfaces.verdict import UnknownErrors, Verdict
from trident_py.states.sql import mysql, postgres_client, sqlite_database
from trident_py.states.sql.dialect import ErrorTable

AGAIN, BATCH, NEVER = StoreBusyException, FailedException, StateError


@pytest.mark.parametrize(
    ("table", "codes", "kind"),
    [
        (postgres_client.ERRORS, ["08006", "08"], AGAIN),
        (postgres_client.ERRORS, ["40P01", "40"], AGAIN),
        (postgres_client.ERRORS, ["53100", "53"], AGAIN),
        (postgres_client.ERRORS, ["57P01", "57"], AGAIN),
        (postgres_client.ERRORS, ["55P03", "55"], AGAIN),
        (postgres_client.ERRORS, ["23514", "23"], BATCH),
        (postgres_client.ERRORS, ["22P02", "22"], BATCH),
        (postgres_client.ERRORS, ["P0001", "P0"], BATCH),
        (postgres_client.ERRORS, ["42501", "42"], NEVER),
        (postgres_client.ERRORS, ["25006", "25"], NEVER),
        (postgres_client.ERRORS, ["57P04", "57"], NEVER),
        (postgres_client.ERRORS, ["ZZ999", "ZZ"], AGAIN),
        (mysql.ERRORS, [2013], AGAIN),
        (mysql.ERRORS, [1213], AGAIN),
        (mysql.ERRORS, [1406], BATCH),
        (mysql.ERRORS, [4025], BATCH),
        (mysql.ERRORS, [1142], NEVER),
        (mysql.ERRORS, [1146], NEVER),
        (mysql.ERRORS, [9999], AGAIN),
        (sqlite_database.ERRORS, [sqlite3.SQLITE_BUSY], AGAIN),
        (sqlite_database.ERRORS, [sqlite3.SQLITE_CONSTRAINT], BATCH),
        (sqlite_database.ERRORS, [sqlite3.SQLITE_READONLY], NEVER),
        (sqlite_database.ERRORS, [99], AGAIN),
    ],
)
def test_each_code_comes_again_or_is_of_the_batch_or_ends_the_topology(
    table: ErrorTable, codes: list[Any], kind: type[Exception]
) -> None:
    error = table.error("table 'x'", "what it says", codes)
    assert type(error) is kind
    assert str(error).startswith("table 'x': what it says")


def test_an_error_that_is_not_known_comes_again_with_a_warning_after_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    table = ErrorTable(verdicts={1: Verdict.NEVER}, ways_out={}, unknown=UnknownErrors(lambda: now[0]))
    caplog.set_level(logging.WARNING)
    for second in range(0, 130, 10):
        now[0] = float(second)
        assert isinstance(table.error("table 'x'", "strange", [7]), StoreBusyException)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "an error that trident_py doesn't know has repeated for 60 s" in told[0]
    assert "table 'x': strange (error 7)" in told[0]
    now[0] += 3600
    table.error("table 'x'", "strange", [7])
    assert len(caplog.records) == 2


def test_an_error_without_a_code_is_judged_by_its_class() -> None:
    assert postgres_client.codes_of(psycopg.OperationalError("gone")) == (postgres_client.NO_ANSWER,)
    assert postgres_client.codes_of(psycopg.ProgrammingError("odd")) == (postgres_client.BY_CLIENT,)
    assert postgres_client.codes_of(psycopg.DataError("NUL"))[0] == "22021"
