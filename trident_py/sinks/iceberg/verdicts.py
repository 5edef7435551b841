"""The meaning of the errors of pyiceberg and of its catalogs: a table of all their classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyiceberg import exceptions as ice

from trident_py.errors import SinkError
from trident_py.interfaces.verdict import Verdict
from trident_py.sinks.tables.table import Conflict

_AGAIN, _NEVER = Verdict.COMES_AGAIN, Verdict.NEVER
BY_CLASS: Mapping[type[Exception], Verdict | None] = {
    ice.AuthorizationExpiredError: _AGAIN,  # pyiceberg gets another token
    ice.BadRequestError: _NEVER,
    ice.CommitFailedException: None,
    ice.CommitStateUnknownException: _AGAIN,
    ice.ConditionalCheckFailedException: None,
    ice.DynamoDbError: _AGAIN,
    ice.ForbiddenError: _NEVER,
    ice.GenericDynamoDbError: _AGAIN,
    ice.NamespaceAlreadyExistsError: None,
    ice.NamespaceNotEmptyError: _NEVER,
    ice.NoSuchIcebergTableError: _NEVER,
    ice.NoSuchIdentifierError: _NEVER,
    ice.NoSuchNamespaceError: _NEVER,
    ice.NoSuchPlanTaskError: _AGAIN,
    ice.NoSuchPropertyException: _NEVER,
    ice.NoSuchTableError: _NEVER,
    ice.NoSuchViewError: _NEVER,
    ice.NotInstalledError: _NEVER,
    ice.OAuthError: _NEVER,
    ice.RESTError: _AGAIN,
    ice.ResolveError: _NEVER,
    ice.ServerError: _AGAIN,
    ice.ServiceUnavailableError: _AGAIN,
    ice.SignError: _NEVER,
    ice.TableAlreadyExistsError: None,
    ice.TooManyRequestsError: _AGAIN,
    ice.UnauthorizedError: _NEVER,
    ice.ValidationError: _NEVER,
    ice.ValidationException: None,
    ice.ViewAlreadyExistsError: _NEVER,
    ice.WaitingForLockException: _AGAIN,
}
"""None: another program has committed meanwhile, so the commit is repeated after another look."""

try:
    from sqlalchemy import exc as sql

    _SQL: Mapping[type[Exception], Verdict] = {
        sql.DBAPIError: _AGAIN,
        sql.DataError: _NEVER,
        sql.DatabaseError: _AGAIN,
        sql.IntegrityError: _AGAIN,
        sql.InterfaceError: _AGAIN,
        sql.InternalError: _AGAIN,
        sql.NotSupportedError: _NEVER,
        sql.OperationalError: _AGAIN,
        sql.ProgrammingError: _NEVER,
    }
except ImportError:
    _SQL = {}
BY_CLASS = {**BY_CLASS, **_SQL}

_SQLITE_NEVER = {3, 8, 11, 23, 26}
"""SQLite's PERM, READONLY, CORRUPT, AUTH and NOTADB, which have the same classes as temporary errors."""


@contextmanager
def catalog_errors(table: str) -> Iterator[None]:
    """Convert errors of a table's catalog into errors that tell whether a retry may succeed.

    Raises:
        NoSuchTableError: the table does not exist.
        SinkError: no retry can succeed.
        ConnectionError: a retry may succeed; whether a commit was made is unknown.
        Conflict: another program has committed meanwhile.
    """
    try:
        yield
    except ice.NoSuchTableError:
        raise
    except tuple(BY_CLASS) as error:
        verdict = verdict_of(error)
        if verdict is None:
            raise Conflict(str(error)) from error
        if verdict is Verdict.COMES_AGAIN:
            raise ConnectionError(str(error)) from error
        raise SinkError(
            f"the catalog of the Iceberg table {table!r} refuses: {type(error).__name__}: {error}; to fix this: give "
            f"the user of the catalog the rights that it needs, or correct the catalog's properties"
        ) from error


def verdict_of(error: Exception) -> Verdict | None:
    """Return the verdict of an error, by its class or the nearest base class in the table; None: a conflict."""
    number = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    if number is not None and number & 0xFF in _SQLITE_NEVER:
        return Verdict.NEVER
    return next(BY_CLASS[kind] for kind in type(error).__mro__ if kind in BY_CLASS)
