"""Events, as a topology tells them."""

from __future__ import annotations

from typing import Any

from coordinators.record.store import TopologyIdentity
from coordinators.status.listener import (
    CommittedEvent,
    EmittedEvent,
    EndedEvent,
    FailedEvent,
    LeadingEvent,
    ProcessedEvent,
    SucceededEvent,
    TopologyEvent,
)
from coordinators.values.attempt import TransactionAttempt
from trident_py.history.entries import Program

LIFE = TopologyIdentity(name="wc", uuid="u", incarnation=1)
PROGRAM = Program(host="vm", pid=42, version="0.1.0", code="c0de")


def attempt(text: str) -> TransactionAttempt:
    txid, attempt_id = text.split(":")
    return TransactionAttempt(int(txid), int(attempt_id))


def leading(epoch: int = 1, current_txid: int = 1, at: float = 100.0) -> LeadingEvent:
    return LeadingEvent(topology="wc", at=at, epoch=epoch, current_txid=current_txid, uuid="u", incarnation=1)


def emitted(which: str, at: float = 101.0) -> EmittedEvent:
    return EmittedEvent(topology="wc", at=at, attempt=attempt(which), number=1, definition={"lines": [0, 2]})


def processed(which: str, **known: Any) -> ProcessedEvent:
    return ProcessedEvent(topology="wc", at=102.0, attempt=attempt(which), number=1, **known)


def committed(which: str, **known: Any) -> CommittedEvent:
    return CommittedEvent(topology="wc", at=103.0, attempt=attempt(which), number=1, **known)


def succeeded(which: str) -> SucceededEvent:
    return SucceededEvent(topology="wc", at=104.0, attempt=attempt(which), number=1)


def failed(which: str, error: BaseException, by: str = "") -> FailedEvent:
    return FailedEvent(topology="wc", at=103.0, attempt=attempt(which), error=error, failed=attempt(by or which))


def ended(error: BaseException | None = None) -> EndedEvent:
    return EndedEvent(topology="wc", at=105.0, error=error)


ALL_GOOD: tuple[TopologyEvent, ...] = (leading(), emitted("1:0"), processed("1:0"), committed("1:0"), succeeded("1:0"))
