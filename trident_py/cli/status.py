"""``trident status``: where topologies are, and who leads them, as it is stored."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from coordinators.coordination import Coordination, TopologyDescription
from coordinators.errors import MetadataError
from coordinators.record import CoordinatorRecord
from coordinators.transaction_time import MILLIS
from coordinators.wishes import Hold, Standing
from trident_py.cli.coordination import existing
from trident_py.cli.failing import details, failing, headline
from trident_py.cli.progress_line import FOLD_COLUMNS
from trident_py.cli.usage import config_of
from trident_py.cli.wish import limits


def run(arguments: Namespace) -> int:
    """Show one topology, or all; returns 1 if the record of one can't be read."""
    config = config_of(arguments)
    with existing(config) as coordination:
        if arguments.name is not None:
            shown = [_facts(coordination.describe(arguments.name))]
        else:
            shown = [_facts_or_error(name, coordination) for name in coordination.topologies()]
    if arguments.json:
        print(json.dumps(shown[0] if arguments.name is not None else shown, indent=2))
    elif arguments.name is not None:
        _print_one(shown[0])
    else:
        _print_all(shown, f"{config.root} at {config.zookeeper or config.state_dir}")
    return 1 if any("error" in facts for facts in shown) else 0


def _facts_or_error(name: str, coordination: Coordination) -> dict[str, Any]:
    try:
        return _facts(coordination.describe(name))
    except MetadataError as error:
        return {"name": name, "error": str(error)}


def _facts(description: TopologyDescription) -> dict[str, Any]:
    record = description.record or CoordinatorRecord(epoch=0)
    leader = description.leader
    return {
        "name": description.identity.name,
        "uuid": description.identity.uuid,
        "incarnation": description.identity.incarnation,
        "epoch": description.epoch,
        "leader": {"host": leader.host, "pid": leader.pid, "since": leader.started} if leader else None,
        "current_txid": record.current_txid,
        "committed": record.current_txid - 1,
        "success_upto": record.success_upto,
        "attempt_ids": {
            str(txid): attempt_id
            for txid, attempt_id in sorted(record.attempt_ids.items())
            if txid >= record.current_txid
        },
        "states": dict(record.states),
        "spouts": sorted({spout for definitions in record.metadata.values() for spout in definitions}),
        "failing": failing(record),
        "standing": record.standing.to_json(),
        "wishes": [str(wish.action or "unknown") for wish in description.wishes],
        "seconds_ahead": max(0.0, max(record.times.values(), default=0) / MILLIS - time.time()),
        "record_writes": record.seq,
    }


def _leader(facts: dict[str, Any]) -> str:
    leader = facts["leader"]
    return f"pid {leader['pid']} on {leader['host']}" if leader else "not running"


def _held(facts: dict[str, Any]) -> str:
    """Return what stands and what waits by the wishes of operators; empty if nothing does."""
    stands = Standing.from_json(facts["standing"])
    hold = "" if stands.hold is Hold.NOTHING else str(stands.hold)
    said = " and ".join(text for text in (hold, limits(stands.rate)) if text)
    held = f"{said}; `trident resume {facts['name']}` lifts that" if said else ""
    waits = f"to be carried out: {', '.join(facts['wishes'])}" if facts["wishes"] else ""
    return "; ".join(text for text in (held, waits) if text)


def _state(facts: dict[str, Any]) -> str:
    hold = Hold(facts["standing"]["hold"])
    if not facts["failing"] and facts["leader"] and hold is not Hold.NOTHING:
        return str(hold)
    if not facts["failing"]:
        return "running" if facts["leader"] else "not running"
    return headline(facts["failing"][0], is_led=facts["leader"] is not None, now=datetime.now(UTC))


def _print_failing(facts: dict[str, Any], indent: str) -> None:
    for entry in facts["failing"]:
        for line in details(entry, is_led=facts["leader"] is not None, now=datetime.now(UTC)):
            print(f"{indent}{line}")


def _print_one(facts: dict[str, Any]) -> None:
    attempts = ", ".join(f"{txid}:{attempt_id}" for txid, attempt_id in facts["attempt_ids"].items())
    lines = {
        "topology": f"{facts['name']} (incarnation {facts['incarnation']}, uuid {facts['uuid']})",
        "state": _state(facts),
        "leader": f"{_leader(facts)}, epoch {facts['epoch']}",
        "committed": f"{facts['committed']} transactions, success delivered up to {facts['success_upto']}",
        "last attempts": attempts or "none beyond that",
        "spouts": ", ".join(facts["spouts"]) or "none yet",
        "states": ", ".join(f"{name} (since transaction {txid})" for name, txid in facts["states"].items()) or "none",
    }
    if held := _held(facts):
        lines["operators"] = held
    if facts["seconds_ahead"] >= 1:
        lines["time"] = f"of transactions is {facts['seconds_ahead']:,.0f} s ahead of this machine's clock"
    for title, text in lines.items():
        print(f"{title + ':':<15}{text}")
    _print_failing(facts, "")


def _row(facts: dict[str, Any]) -> dict[str, str]:
    """Return what the table of all topologies says of this one beside its name, by the head of each column."""
    if "error" in facts:
        return {"state": "unreadable", "leader": "", "epoch": "", "committed": "", "last attempts": facts["error"]}
    return {
        "state": _state(facts),
        "leader": _leader(facts) if facts["leader"] else "",
        "epoch": str(facts["epoch"]),
        "committed": str(facts["committed"]),
        "last attempts": " ".join(f"{txid}:{attempt_id}" for txid, attempt_id in facts["attempt_ids"].items()),
    }


def _print_all(shown: list[dict[str, Any]], where: str) -> None:
    if not shown:
        print(f"no topology was ever started under {where}")
        return
    console = Console()
    if console.width < FOLD_COLUMNS:
        for facts in shown:
            print("\n  ".join([facts["name"], *(f"{head}: {text}" for head, text in _row(facts).items() if text)]))
    else:
        name = Column("topology", no_wrap=True, overflow="fold")
        table = Table(name, *_row(shown[0]), box=None, pad_edge=False)
        for facts in shown:
            table.add_row(facts["name"], *_row(facts).values())
        console.print(table)
    for facts in shown:
        if facts.get("failing"):
            print(f"\n{facts['name']}:")
            _print_failing(facts, "  ")
