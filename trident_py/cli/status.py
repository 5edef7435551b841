"""``trident status``: shows the stored state and the leader of topologies."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from attrs import field, frozen
from rich.console import Console
from rich.table import Column, Table

from coordinators.backends.coordination import Coordination
from coordinators.record.record import CoordinatorRecord
from coordinators.record.wishes import Hold
from coordinators.status.description import TopologyDescription
from coordinators.status.status import TopologyStatus
from coordinators.values.error_text import counted, safe_text
from coordinators.values.errors import MetadataError
from trident_py.cli.coordination import existing
from trident_py.cli.failing import clock_text, details, failing, headline, local_time
from trident_py.cli.progress_line import FOLD_COLUMNS
from trident_py.cli.terminal import cell
from trident_py.cli.tx import history_of
from trident_py.cli.usage import config_of
from trident_py.errors import HistoryError
from trident_py.interfaces.config import TridentConfig
from trident_py.wishing import limits


def run(arguments: Namespace) -> int:
    """Show one topology, or all; return 1 if the record of one can't be read."""
    config = config_of(arguments)
    with existing(config) as coordination:
        if arguments.name is not None:
            description = coordination.describe(arguments.name)
            one = Readable(description, standstill_of(description, config))
            print(json.dumps(one.facts(), indent=2) if arguments.json else one.text())
            return 0
        shown = [_read(name, coordination) for name in coordination.topologies()]
    if arguments.json:
        print(json.dumps([each.facts() for each in shown], indent=2))
    else:
        _print_all(shown, f"{config.root} at {config.zookeeper or config.state_dir}")
    return 0 if all(isinstance(each, Readable) for each in shown) else 1


@frozen
class Unreadable:
    """A topology with an unreadable record, and the reason."""

    name: str
    error: str
    failures: str = ""

    def facts(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        return {"name": self.name, "error": self.error}

    def row(self) -> dict[str, str]:
        """Return its row in the table of all topologies, by column title."""
        return {"state": "unreadable", "leader": "", "epoch": "", "committed": "", "last attempts": self.error}


@frozen
class Readable:
    """A topology, formatted for programs and people.

    Attributes:
        description: its stored record.
        waits_for: the reasons of a stall, a sentence each; empty if the topology makes progress.
        status: the status of the topology by that record.
    """

    description: TopologyDescription
    waits_for: tuple[str, ...] = ()
    status: TopologyStatus = field(init=False)

    @status.default
    def _now(self) -> TopologyStatus:
        return self.description.status(time.time())

    @property
    def name(self) -> str:
        """The name of the topology."""
        return self.status.topology

    @property
    def _record(self) -> CoordinatorRecord:
        return self.description.record or CoordinatorRecord(epoch=0)

    @property
    def _spouts(self) -> list[str]:
        return sorted({spout for definitions in self._record.metadata.values() for spout in definitions})

    @property
    def _failing(self) -> list[dict[str, Any]]:
        return failing(self.status, self._record.definition)

    @property
    def _wishes(self) -> list[str]:
        return [str(wish.action or "unknown") for wish in self.description.wishes]

    @property
    def _last_attempts(self) -> list[str]:
        return [str(each.attempt) for each in self.status.transactions]

    def facts(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        status, leader = self.status, self.description.leader
        return {
            "name": self.name,
            "uuid": self.description.identity.uuid,
            "incarnation": self.description.identity.incarnation,
            "epoch": status.epoch,
            "leader": leader.facts() if leader else None,
            "current_txid": status.current_txid,
            "committed": status.last_committed,
            "success_upto": self._record.success_upto,
            "attempt_ids": {str(each.txid): each.attempt.attempt_id for each in status.transactions},
            "states": dict(self._record.states),
            "spouts": self._spouts,
            "failing": self._failing,
            "waits_for": list(self.waits_for),
            "standing": status.standing.to_json(),
            "wishes": self._wishes,
            "parked": [each.to_json() for each in status.parked],
            "parking": status.parking,
            "seconds_ahead": status.seconds_ahead,
            "record_writes": self._record.seq,
        }

    # --- for people ---------------------------------------------------------------------------------------------------

    def row(self) -> dict[str, str]:
        """Return its row in the table of all topologies, by column title."""
        return {
            "state": self.state,
            "leader": self._leader if self.status.is_active else "",
            "epoch": str(self.status.epoch),
            "committed": str(self.status.last_committed),
            "last attempts": " ".join(self._last_attempts),
        }

    def text(self) -> str:
        """Return all facts, a line for each."""
        status, record, identity = self.status, self._record, self.description.identity
        committed = counted(record.current_txid - 1, "transaction")
        states = (f"{name} (since transaction {txid})" for name, txid in record.states.items())
        lines = {
            "topology": f"{self.name} (incarnation {identity.incarnation}, uuid {identity.uuid})",
            "state": self.state,
            "leader": f"{self._leader}, epoch {status.epoch}",
            "committed": f"{committed}, success delivered up to {record.success_upto}",
            "last attempts": ", ".join(self._last_attempts) or "none beyond that",
            "spouts": ", ".join(self._spouts) or "none yet",
            "states": ", ".join(states) or "none",
        }
        if held := self.held:
            lines["operators"] = held
        if status.parked:
            first = status.parked[0]
            since = clock_text(local_time(min(each.since for each in status.parked)), datetime.now(UTC))
            lines["parked"] = (
                f"{counted(len(status.parked), 'transaction')}, the first {first.txid}, since {since}; "
                f"`trident tx {self.name} list` lists them, release counts them"
            )
        if status.seconds_ahead >= 1:
            lines["time"] = f"of transactions is {status.seconds_ahead:,.0f} s ahead of this machine's clock"
        said = [(f"{title}:", text) for title, text in lines.items()]
        said += [("" if number else "waits for:", text) for number, text in enumerate(self.waits_for)]
        return "\n".join([*(f"{title:<15}{safe_text(text)}" for title, text in said), *self.failures.splitlines()])

    @property
    def state(self) -> str:
        """Its activity or problem, in a few words."""
        if failures := self._failing:
            return headline(failures[0], is_led=self.status.is_active, now=datetime.now(UTC))
        if not self.status.is_active:
            return "not running"
        if self.status.standing.hold is not Hold.NOTHING:
            return str(self.status.standing.hold)
        return "paused" if self.status.is_paused else "running"

    @property
    def held(self) -> str:
        """The operator's commands in effect, and those that wait for the leader; may be empty."""
        stands = self.status.standing
        hold = "" if stands.hold is Hold.NOTHING else str(stands.hold)
        said = " and ".join(text for text in (hold, limits(stands.rate)) if text)
        held = f"{said}; `trident resume {self.name}` lifts that" if said else ""
        held += f" ({stands.reason})" if held and stands.reason else ""
        waits = f"to be carried out: {', '.join(self._wishes)}" if self._wishes else ""
        return "; ".join(text for text in (held, waits) if text)

    @property
    def failures(self) -> str:
        """The transactions that failed or wait for their source, with remedies; may be empty."""
        now, is_led = datetime.now(UTC), self.status.is_active
        told = (line for each in self._failing for line in details(each, is_led=is_led, now=now))
        return "\n".join(map(safe_text, told))

    @property
    def _leader(self) -> str:
        leader = self.description.leader
        return f"pid {leader.pid} on {leader.host}" if leader else "not running"


def standstill_of(description: TopologyDescription, config: TridentConfig) -> tuple[str, ...]:
    """Return the reasons of a stall by the topology's history, a sentence each; or why they aren't known."""
    if description.leader is None:
        return ()
    try:
        with closing(history_of(description.identity.name, config)) as history:
            leadership = history.leaderships[-1]
    except HistoryError as error:
        return (f"not known here: {error}",)
    if (leadership.life, leadership.epoch) != (description.identity, description.epoch):
        return ("not known yet",)
    now = time.time()
    return tuple(each.message(now) for each in leadership.waits_for)


def _read(name: str, coordination: Coordination) -> Readable | Unreadable:
    try:
        return Readable(coordination.describe(name))
    except MetadataError as error:
        return Unreadable(name, str(error))


def _print_all(shown: Sequence[Readable | Unreadable], where: str) -> None:
    if not shown:
        print(f"no topology was ever started under {where}")
        return
    console = Console()
    if console.width < FOLD_COLUMNS:
        for each in shown:
            said = (f"{head}: {text}" for head, text in each.row().items() if text)
            print("\n  ".join(map(safe_text, [each.name, *said])))
    else:
        name = Column("topology", no_wrap=True, overflow="fold")
        table = Table(name, *shown[0].row(), box=None, pad_edge=False)
        for each in shown:
            table.add_row(*map(cell, map(safe_text, [each.name, *each.row().values()])))
        console.print(table)
    for each in shown:
        if each.failures:
            print("\n  ".join([f"\n{safe_text(each.name)}:", *each.failures.splitlines()]))
