"""``trident tx NAME ACTION``: shows the transactions of a topology and their rows, and mends them."""

from __future__ import annotations

import getpass
import json
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from uuid import uuid4

from rich.console import Console
from rich.table import Column, Table

from coordinators.record.parking import Parked
from coordinators.record.wishes import Action, Wish
from coordinators.values.error_text import counted, safe_text
from coordinators.values.errors import TridentError
from trident_py.cli import rows
from trident_py.cli.coordination import existing
from trident_py.cli.failing import clock_text, local_time
from trident_py.cli.terminal import json_text
from trident_py.cli.usage import UsageError, config_of
from trident_py.cli.wish import send
from trident_py.errors import HistoryError
from trident_py.history.database import NoHistoryError
from trident_py.history.entries import WishEntry
from trident_py.history.topology import TopologyHistory
from trident_py.history.transactions import AttemptHistory, TransactionHistory
from trident_py.interfaces.config import TridentConfig
from trident_py.wishing import rows_text

ERRORS_MAX = 3
STYLES = {
    "committed": "green",
    "parked": "red",
    "failed": "red",
    "abandoned": "red",
    "processed": "yellow",
    "processing": "cyan",
}


def run(arguments: Namespace) -> int:
    """List the last transactions, show one, or send a command to the leader; return 1 if that isn't possible."""
    _check(arguments)
    if arguments.action == "rows":
        return rows.run(arguments, user_name())
    if arguments.action not in ("list", "show"):
        return mend(arguments, Action(arguments.action))
    parked = _parked(arguments)
    with closing(history_of(arguments.name, config_of(arguments))) as history:
        if arguments.action == "list":
            listed = history.last(arguments.last, failed=arguments.failed)
            _print_list(history, listed, as_json=arguments.json)
            if not arguments.json:
                print_lines(parked_lines(parked))
            return 0
        transaction = history.transaction(arguments.txids[0])
        wishes = history.wishes(transaction.txid)
    left_out = [each for each in parked if each.txid == transaction.txid]
    if arguments.json:
        said = [wish_facts(each) for each in wishes]
        parked_now = left_out[0].to_json() if left_out else None
        print(json.dumps({**transaction.facts(), "parked": parked_now, "wishes": said}, indent=2))
    else:
        print_lines(lines(transaction))
        print_lines(wish_lines(wishes))
        print_lines(parked_lines(left_out))
    return 0


def _check(arguments: Namespace) -> None:
    count, action = len(arguments.txids), arguments.action
    takes = {
        "list": (0, 0, "trident tx NAME list takes no transaction; show TXID shows one"),
        "show": (1, 1, "trident tx NAME show TXID shows one transaction, trident tx NAME list the last ones"),
        "rows": (1, 1, "trident tx NAME rows TXID shows the rows of one parked transaction"),
        "park": (1, 1, "trident tx NAME park TXID parks one transaction"),
        "release": (
            0 if arguments.all else 1,
            0 if arguments.all else count,
            "trident tx NAME release TXID …, or trident tx NAME release --all",
        ),
        "skip": (1, count, "trident tx NAME skip TXID … skips these parked transactions"),
        "bisect": (1, 1, "trident tx NAME bisect TXID finds the rows of one parked transaction that fail"),
        "retry": (0, 1, "trident tx NAME retry [TXID] tries one transaction at once"),
    }
    least, most, words = takes[action]
    if not least <= count <= most or (arguments.all and action != "release"):
        raise UsageError(words)


def mend(arguments: Namespace, action: Action, branch: str = "") -> int:
    """Send the leader the command about the transactions that ``arguments`` name; return the exit code of `send`."""
    wish = Wish(
        uuid4().hex,
        action,
        reason=arguments.reason.strip(),
        txids=tuple(arguments.txids),
        branch=branch,
        late=arguments.late,
        by=user_name(),
    )
    return send(wish, arguments)


def user_name() -> str:
    """Return the name of the user of this process, for those who see what was wished."""
    try:
        return safe_text(getpass.getuser())
    except (KeyError, OSError):
        return "an operator"


def _parked(arguments: Namespace) -> tuple[Parked, ...]:
    """Return the parked transactions; none if the topology's record can't be read from here."""
    try:
        with existing(config_of(arguments)) as coordination:
            record = coordination.describe(arguments.name).record
    except TridentError:
        return ()
    return record.parked.entries if record else ()


def parked_lines(parked: Sequence[Parked]) -> Iterator[str]:
    """Yield a line for each parked transaction, and one with its last error."""
    now = datetime.now(UTC)
    for each in parked:
        state = "is being released" if each.released_as else "waits for its release" if each.is_wanted else "is parked"
        why = f": {each.reason}" if each.reason else ""
        what = f"transaction {each.txid}{f', dead letters of {each.letters_of!r},' if each.letters_of else ''}"
        yield f"{what} {state}, since {clock_text(local_time(each.since), now)}, by {each.by}{why}"
        for spout, stored in each.stored.items():
            yield f"  {counted(stored.count, 'row')} of spout {spout!r} in {stored.file}, written on {stored.host}"
        if each.error:
            first, _, _ = each.error.partition("\n")
            yield f"  {counted(each.attempts, 'failure')}, the last: {first}"


def wish_facts(entry: WishEntry) -> dict[str, object]:
    """Return a command as JSON; ``at`` is in seconds since 1970."""
    event = entry.event
    return {
        "at": event.at,
        "action": event.action,
        "txids": list(event.txids),
        "by": event.by,
        "reason": event.reason,
        "refused": event.refused,
        "found": {spout: list(rows) for spout, rows in event.found.items()},
    }


def wish_lines(entries: Sequence[WishEntry]) -> Iterator[str]:
    """Yield a line for each command."""
    now = datetime.now(UTC)
    for event in (each.event for each in entries):
        by = f" by {event.by}" if event.by else ""
        why = f": {event.reason}" if event.reason else ""
        end = f"; refused: {event.refused}" if event.refused else ""
        found = "".join(f"; {rows_text(spout, rows)}" for spout, rows in event.found.items() if rows)
        yield f"{event.action}{by} {clock_text(local_time(event.at), now)}{why}{found}{end}"


def print_lines(lines: Iterable[str]) -> None:
    """Print lines that may contain any text."""
    for line in lines:
        print(safe_text(line))


def history_of(topology: str, config: TridentConfig) -> TopologyHistory:
    """Return the history of ``topology`` at the place that ``config`` names.

    Raises:
        HistoryError: there is no history, or it can't be read; the message says where the topology keeps it, if known.
    """
    try:
        return TopologyHistory.of(topology, config.history_place)
    except NoHistoryError as error:
        raise HistoryError(f"{error}{_elsewhere(topology, config)}") from error


def _elsewhere(topology: str, config: TridentConfig) -> str:
    """Return a hint where the history may be instead."""
    try:
        with existing(config) as coordination:
            leader = coordination.describe(topology).leader
    except TridentError:
        leader = None
    where = f"; pid {leader.pid} on {leader.host} leads the topology, and keeps it there" if leader else ""
    return f"{where}; name the place with --state-dir, or with --history, as the topology's config does"


# --- for people -------------------------------------------------------------------------------------------------------


def _print_list(history: TopologyHistory, listed: Sequence[TransactionHistory], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([each.facts() for each in listed], indent=2))
        return
    topology = history.life.name
    if not listed:
        print(f"no such transaction of {safe_text(topology)} is known")
        return
    Console().print(table(listed))
    failed = [each.own_failure for each in listed if each.own_failure]
    for attempt in failed[-ERRORS_MAX:]:
        first, _, _ = attempt.entry.error.partition("\n")
        print(f"\n{attempt.entry.attempt}: {safe_text(first)}")
    if failed:
        print(f"\n`trident tx {safe_text(topology)} show TXID` says more")


def table(listed: Sequence[TransactionHistory]) -> Table:
    """Return transactions as a table, a row for each; the column widths suit a terminal."""
    numbers = ("tries", "read", "written", "processing", "waiting", "committing")
    counts = [Column(name, justify="right") for name in numbers]
    made = Table(Column("tx", justify="right"), "state", *counts, "when", box=None, pad_edge=False)
    for each in listed:
        entry, outcome = each.last.entry, each.last.outcome
        made.add_row(
            str(each.txid),
            f"[{STYLES[outcome]}]{outcome}[/]",
            str(len(each.attempts)),
            f"{entry.rows:,}",
            f"{sum(entry.written.values()):,}" if entry.written else "",
            *_durations(each.last),
            clock_text(local_time(entry.ended or entry.emitted), datetime.now(UTC)),
        )
    return made


def _durations(attempt: AttemptHistory) -> tuple[str, str, str]:
    entry = attempt.entry
    processing = entry.processing
    if attempt.outcome == "processing":
        processing = time.time() - entry.emitted
    return seconds_text(processing), seconds_text(entry.waiting), seconds_text(entry.committing - entry.waiting)


def seconds_text(seconds: float) -> str:
    """Format a duration for people."""
    if seconds <= 0:
        return ""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"


def lines(transaction: TransactionHistory) -> Iterator[str]:
    """Yield all facts of a transaction, a line for each."""
    last, life = transaction.last, transaction.last.entry.life
    number = "empty, spouts don't know it" if last.entry.number is None else f"batch {last.entry.number} of its spouts"
    facts = {
        "transaction": f"{transaction.txid} of {life.name}, {last.outcome}; {number}",
        "read": counted(last.entry.rows, "row"),
        "written": ", ".join(f"{name} {count:,}" for name, count in last.entry.written.items()),
        "counted": ", ".join(f"{name} {count:,}" for name, count in last.entry.counts.items()),
    }
    for title, text in facts.items():
        if text:
            yield f"{title + ':':<14}{text}"
    for spout, definition in last.entry.definition.items():
        yield f"{'spout:':<14}{spout} {json_text(definition)}"
    for attempt in transaction.attempts:
        yield from ("", *_lines_of(attempt))


def _lines_of(attempt: AttemptHistory) -> Iterator[str]:
    entry, now = attempt.entry, datetime.now(UTC)
    took = zip(("processing", "waiting", "committing"), _durations(attempt), strict=True)
    said = [f"{name} {text}" for name, text in took if text]
    if entry.ended:
        said.append(f"{attempt.outcome} {clock_text(local_time(entry.ended), now)}")
    if attempt.is_closed:
        told = clock_text(local_time(entry.succeeded), now) if entry.succeeded else "not yet, as far as is known"
        said.append(f"spouts told {told}")
    yield f"attempt {entry.attempt}: {attempt.outcome}"
    yield f"  emitted {clock_text(local_time(entry.emitted), now)}{''.join(f', {each}' for each in said)}"
    if attempt.leadership:
        program = attempt.leadership.program
        code = f", code {program.code}" if program.code else ""
        yield f"  epoch {entry.epoch}, pid {program.pid} on {program.host}, trident_py {program.version}{code}"
    if entry.failed and entry.failed != str(entry.attempt):
        yield f"  given up with {entry.failed}, which had failed"
    for line in entry.error.splitlines():
        yield f"  {line}"
