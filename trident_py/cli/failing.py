"""Texts about transactions that have failed and are not committed, or that wait for their source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from coordinators.status.status import TopologyStatus
from coordinators.values.canonical import Json
from trident_py.cli.terminal import json_text


def failing(status: TopologyStatus, definition: Callable[[int], Mapping[str, Json]]) -> list[dict[str, Any]]:
    """Return the transactions that have failed and are not committed, or wait for their source, lowest first.

    Args:
        status: the status of their topology.
        definition: returns a transaction's last definition, by spout.
    """
    sources = {each.txid: each for each in status.sources}
    entries = []
    for txid in sorted({*sources, *status.failures}):
        source, failure = sources.get(txid), status.failures.get(txid)
        trouble = source or status.failures[txid]
        entries.append(
            {
                "txid": txid,
                "tries": max(trouble.tries, failure.count if failure else 0),
                "counted": failure.count if failure else 0,
                "waits_for": source.spout if source else None,
                "cause": trouble.cause,
                "since": local_time(trouble.since).isoformat(),
                "last": local_time(trouble.last).isoformat(),
                "definition": dict(definition(txid)),
            }
        )
    return entries


def headline(entry: dict[str, Any], *, is_led: bool, now: datetime) -> str:
    """Summarise a failing transaction in a few words: since when it waits, or when it last failed.

    Args:
        entry: the transaction, of those that the function above returns.
        is_led: whether the topology has a leader; without one, nothing is tried any more.
        now: the present time.
    """
    last = datetime.fromisoformat(entry["last"])
    if entry["waits_for"] is not None:
        since = datetime.fromisoformat(entry["since"])
        return f"{'waiting' if is_led else 'waited'} for {entry['waits_for']} since {clock_text(since, now)}"
    return f"{'failing' if is_led else 'failed'} {clock_text(last, now)}, {_ago((now - last).total_seconds())}"


def details(entry: dict[str, Any], *, is_led: bool, now: datetime) -> Iterator[str]:
    """Yield the lines of an entry: transaction, reason, number of tries, definition of the batch, and remedy."""
    since, times = clock_text(datetime.fromisoformat(entry["since"]), now), _times(entry["tries"])
    txid, spout = entry["txid"], entry["waits_for"]
    what = (
        f"tried {times} since {since}" if spout is None else f"waits for spout {spout!r}, tried {times} since {since}"
    )
    first, *rest = f"transaction {txid}, {what}: {entry['cause']}".splitlines()
    yield from (first, *(f"  {line}" for line in rest))
    for name, definition in entry["definition"].items():
        yield f"batch of spout {name!r}: {json_text(definition)}"
    yield f"→ {_way_out(txid, spout, is_led)}"


def _way_out(txid: int, spout: str | None, is_led: bool) -> str:
    if spout is not None and is_led:
        return f"check the source of {spout!r}; it is tried again, at least each half minute"
    if spout is not None:
        return f"start the topology again when the source of {spout!r} can be reached"
    if is_led:
        return "it is tried again; if it keeps failing, fix the code or the data"
    return f"fix the code or the data and start the topology again: it continues with transaction {txid}"


def _times(tries: int) -> str:
    return "once" if tries == 1 else f"{tries} times"


def local_time(seconds: float) -> datetime:
    """Return a moment, given in seconds since 1970, in the local time zone."""
    return datetime.fromtimestamp(round(seconds)).astimezone()


def clock_text(moment: datetime, now: datetime) -> str:
    """Format a local time for people; without the date if it is today."""
    is_today = moment.date() == now.astimezone(moment.tzinfo).date()
    return moment.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S")


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"
