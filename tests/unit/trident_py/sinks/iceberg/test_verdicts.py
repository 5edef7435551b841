"""What the errors of pyiceberg and of its catalogs mean to a sink."""

from __future__ import annotations

import inspect
import sqlite3
from pathlib import Path

import pytest
from pyiceberg import exceptions as ice
from sqlalchemy import exc as sql

from tests.unit.trident_py.sinks.iceberg.tables import Leader, rows_in
from tests.unit.trident_py.sinks.tables.leaders import A
from trident_py import SinkError
from trident_py.errors import StoreBusyException
from trident_py.sinks.iceberg.verdicts import BY_CLASS


def test_the_table_has_each_class_that_pyiceberg_has() -> None:
    classes = {each for _, each in inspect.getmembers(ice, inspect.isclass) if issubclass(each, Exception)}
    assert {each for each in classes if each.__module__ == ice.__name__} <= BY_CLASS.keys()


def test_the_table_has_each_class_of_errors_of_databases() -> None:
    classes = {each for _, each in inspect.getmembers(sql, inspect.isclass) if issubclass(each, sql.DBAPIError)}
    assert classes <= BY_CLASS.keys()


def numbered(number: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("what it says decides nothing")
    error.sqlite_errorcode = number
    return error


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (ice.ForbiddenError("no"), SinkError, "refuses: ForbiddenError: no; to fix this: give the user of the catalog"),
        (ice.UnauthorizedError("no"), SinkError, "refuses: UnauthorizedError"),
        (ice.ServiceUnavailableError("soon"), StoreBusyException, "can't be reached, and the attempt is retried: soon"),
        (ice.CommitStateUnknownException("who knows"), StoreBusyException, "who knows"),
        (sql.OperationalError("select", {}, numbered(5)), StoreBusyException, "can't be reached"),
        (sql.OperationalError("select", {}, numbered(8)), SinkError, "refuses: OperationalError"),
        (sql.ProgrammingError("select", {}, Exception("no such table")), SinkError, "refuses: ProgrammingError"),
        (ice.CommitFailedException("too late"), StoreBusyException, "20 commits of this sink came too late"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_stays_stops_by_name_and_what_may_pass_is_tried_again(
    tmp_path: Path, error: Exception, raised: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(tmp_path)

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("pyiceberg.table.Transaction.commit_transaction", fail)
        with pytest.raises(raised, match=message):
            leader.commit(1, A)
    leader.commit(1, A, attempt=1)
    assert rows_in(tmp_path) == [A]


def test_a_value_error_is_a_conflict_only_where_the_table_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(tmp_path)

    def fail(*_: object) -> None:
        raise ValueError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr("pyiceberg.table.Transaction.commit_transaction", fail)
        with pytest.raises(ValueError, match="a defect"):
            leader.commit(1, A)
    leader.commit(1, A, attempt=1)
    assert rows_in(tmp_path) == [A]
