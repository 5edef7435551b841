"""``trident watch NAME``: follows a topology of another process, and shows its transactions as they come."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from time import sleep

from attrs import define, field
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.error_text import counted, safe_text
from trident_py.cli.failing import clock_text, local_time
from trident_py.cli.terminal import safe_lines
from trident_py.cli.tx import history_of, seconds_text, table
from trident_py.cli.usage import config_of
from trident_py.history.entries import LeadershipEntry
from trident_py.history.topology import TopologyHistory
from trident_py.history.transactions import AttemptHistory, TransactionHistory

LOOK_AGAIN_SECONDS = 1.0
ENDED = ("committed", "parked", "failed", "abandoned")


def run(arguments: Namespace) -> int:
    """Show transactions until Ctrl-C.

    On a terminal, this is a table; otherwise a line for each transaction that ends; in JSON, a line for each change.
    """
    with closing(history_of(arguments.name, config_of(arguments))) as history:
        try:
            if arguments.json:
                _follow(history, arguments.last, Changes(_json_line, lambda _: True))
            elif Console().is_terminal:
                _show(history, arguments.last)
            else:
                _follow(history, arguments.last, Changes(_line, lambda attempt: attempt.outcome in ENDED))
        except KeyboardInterrupt:
            return 0
    return 0


@define
class Changes:
    """Prints a line for each attempt that is new or has changed.

    Attributes:
        line: formats an attempt.
        concerns: whether an attempt is printed.
    """

    line: Callable[[AttemptHistory], str]
    concerns: Callable[[AttemptHistory], bool]
    _printed: dict[TransactionAttempt, AttemptHistory] = field(factory=dict, init=False)

    def take(self, found: Sequence[TransactionHistory]) -> int:
        """Print the changes; return the first transaction that may still change."""
        attempts = [attempt for each in found for attempt in each.attempts]
        for attempt in attempts:
            if self.concerns(attempt) and self._printed.get(attempt.entry.attempt) != attempt:
                print(self.line(attempt), flush=True)
        self._printed = {attempt.entry.attempt: attempt for attempt in attempts if self.concerns(attempt)}
        return next((each.txid for each in found if not _is_final(each)), found[-1].txid)


def _is_final(transaction: TransactionHistory) -> bool:
    return transaction.last.is_closed and transaction.last.entry.succeeded is not None


def _follow(history: TopologyHistory, transactions_max: int, changes: Changes) -> None:
    found = history.last(transactions_max)
    while True:
        first = changes.take(found) if found else 1
        sleep(LOOK_AGAIN_SECONDS)
        life, history = history.life, history.refreshed()
        found = history.since(first if history.life == life else 1)


def _show(history: TopologyHistory, transactions_max: int) -> None:
    with Live(_screen(history, transactions_max), auto_refresh=False) as live:
        while True:
            sleep(LOOK_AGAIN_SECONDS)
            history = history.refreshed()
            live.update(_screen(history, transactions_max), refresh=True)


def _screen(history: TopologyHistory, transactions_max: int) -> RenderableType:
    found = history.last(transactions_max)
    head = safe_lines(heading(history.leaderships[-1], found))
    return Group(Text(head, overflow="fold"), "", table(found))


def heading(leadership: LeadershipEntry, found: Sequence[TransactionHistory]) -> str:
    """Return a line about the current or last leader, and the time of the last change in the history."""
    now, program = datetime.now(UTC), leadership.program
    leads = "leads" if leadership.ended is None else "led"
    said = f"{leadership.life.name}: epoch {leadership.epoch}, pid {program.pid} on {program.host}, {leads} since "
    said += clock_text(local_time(leadership.since), now)
    if leadership.ended is not None:
        said += f" until {clock_text(local_time(leadership.ended), now)}"
    moments = [moment for each in found for one in each.attempts for moment in (one.entry.emitted, one.entry.ended)]
    if moments:
        said += f"; last change {clock_text(local_time(max(filter(None, moments))), now)}"
    waits = [f"waits for: {each.message(now.timestamp())}" for each in leadership.waits_for]
    return "\n".join(filter(None, [said, leadership.error, *waits]))


def _json_line(attempt: AttemptHistory) -> str:
    return json.dumps(attempt.facts())


def _line(attempt: AttemptHistory) -> str:
    entry = attempt.entry
    when = clock_text(local_time(entry.ended or entry.emitted), datetime.now(UTC))
    took = seconds_text(entry.processing + entry.committing)
    said = [f"{when} {entry.attempt} {attempt.outcome}", counted(entry.rows, "row"), took]
    return safe_text(", ".join(text for text in [*said, entry.error.partition("\n")[0]] if text))
