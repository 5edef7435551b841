"""Fields of log lines, such as topology and transaction: from the running code or a logged error, not from the text.

A component that begins work sets them by `logging_about`. Calls that other threads make for this work inherit them with
the context. So the lines of users' code on the driver have them, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, TypedDict, Unpack

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import TridentError


class LogFields(TypedDict, total=False):
    """The known fields: for a transaction its ``txid``, or its ``attempt``."""

    topology: str | None
    epoch: int | None
    txid: int | None
    attempt: TransactionAttempt | None


_known: ContextVar[Mapping[str, Any]] = ContextVar("trident_log_fields", default={})  # noqa: B039 - it never changes


def log_about(**fields: Unpack[LogFields]) -> None:
    """Set these fields for the following log lines of this context; other fields stay."""
    _known.set(_with(_known.get(), fields))


def logging_about(**fields: Unpack[LogFields]) -> AbstractContextManager[None]:
    """Set these fields for the log lines inside; other fields stay."""
    return _LoggingAbout(fields)


class _LoggingAbout(AbstractContextManager[None]):
    """Not a generator, because it is entered several times a transaction."""

    __slots__ = ("_fields", "_token")

    def __init__(self, fields: LogFields) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _known.set(_with(_known.get(), self._fields))

    def __exit__(self, *_: object) -> None:
        _known.reset(self._token)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the known fields of a line, for JSON; call it on the thread that has logged the line.

    The attributes of a logged error have precedence; it may name a ``spout`` or ``state``, too.
    """
    found = _known.get()
    for error in _errors_of(record):
        about = {name: getattr(error, name) for name in ("topology", "txid", "attempt", "spout", "state")}
        found = _with(found, {name: value for name, value in about.items() if value is not None})
    return {name: str(each) if name == "attempt" else each for name, each in found.items() if each is not None}


def _with(known: Mapping[str, Any], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return both; an attempt sets its transaction too, and another transaction removes the attempt."""
    attempt = fields.get("attempt")
    txid = attempt.txid if attempt else fields.get("txid")
    if txid is None or (attempt is None and txid == known.get("txid")):
        return {**known, **{name: each for name, each in fields.items() if name not in ("txid", "attempt")}}
    return {**known, **fields, "txid": txid, "attempt": attempt}


def _errors_of(record: logging.LogRecord) -> list[TridentError]:
    raised = record.exc_info[1] if record.exc_info else None
    given = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
    return [error for error in (*given, raised) if isinstance(error, TridentError)]
