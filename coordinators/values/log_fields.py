"""What a line of the log is about: known by the code that runs, or by an error that is logged, not from its text.

Whoever begins something says so by `logging_about`, and calls that other threads make for it take it along in their
context. So what users' own code logs on the driver has it, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypedDict, Unpack

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import TridentError


class LogFields(TypedDict, total=False):
    """What is known: of a transaction, its ``txid``, or which ``attempt`` of it."""

    topology: str | None
    epoch: int | None
    txid: int | None
    attempt: TransactionAttempt | None


_known: ContextVar[Mapping[str, Any]] = ContextVar("trident_log_fields", default={})  # noqa: B039 - it never changes


def log_about(**fields: Unpack[LogFields]) -> None:
    """Say what is logged from now on in this context: about this, and for the rest about what it was before."""
    _known.set(_with(_known.get(), fields))


@contextmanager
def logging_about(**fields: Unpack[LogFields]) -> Iterator[None]:
    """Say what is logged inside: about this, and for the rest about what is outside."""
    token = _known.set(_with(_known.get(), fields))
    try:
        yield
    finally:
        _known.reset(token)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a line is about, as far as it is known, for JSON; asked on the thread that has logged it.

    An error that it tells of knows best; it may name a ``spout`` or ``state``, too.
    """
    found = _known.get()
    for error in _errors_of(record):
        about = {name: getattr(error, name) for name in ("topology", "txid", "attempt", "spout", "state")}
        found = _with(found, {name: value for name, value in about.items() if value is not None})
    return {name: str(each) if name == "attempt" else each for name, each in found.items() if each is not None}


def _with(known: Mapping[str, Any], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return both; an attempt says which transaction it is of, and another transaction has other attempts."""
    attempt = fields.get("attempt")
    txid = attempt.txid if attempt else fields.get("txid")
    if txid is None or (attempt is None and txid == known.get("txid")):
        return {**known, **{name: each for name, each in fields.items() if name not in ("txid", "attempt")}}
    return {**known, **fields, "txid": txid, "attempt": attempt}


def _errors_of(record: logging.LogRecord) -> list[TridentError]:
    raised = record.exc_info[1] if record.exc_info else None
    given = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
    return [error for error in (*given, raised) if isinstance(error, TridentError)]
