"""``trident pause|resume|drain|rate NAME``: leave a wish for whoever leads a topology, and tell what came of it."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from typing import Any
from uuid import uuid4

from attrs import frozen

from coordinators.coordination import Coordination
from coordinators.description import TopologyDescription
from coordinators.errors import ConfigError
from coordinators.status import TopologyStatus
from coordinators.wishes import Action, Hold, Outcome, Rate, Standing, Wish
from trident_py.cli.coordination import existing
from trident_py.cli.usage import UsageError, config_of
from trident_py.query import counted

LOOK_AGAIN_SECONDS = 0.2


@frozen
class Answer:
    """What was found out about a wish in the time that there was.

    Attributes:
        outcome: what came of it; None: it was not carried out yet.
        description: the topology as last seen.
        status: where it was then.
    """

    wish: Wish
    outcome: Outcome | None
    description: TopologyDescription
    status: TopologyStatus

    @property
    def standing(self) -> Standing:
        """What stands now."""
        return self.status.standing

    @property
    def under_way(self) -> int:
        """How many transactions were begun and are not committed."""
        return len(self.status.transactions)

    @property
    def is_forgotten(self) -> bool:
        """Whether it is neither carried out nor waits to be."""
        return self.outcome is None and self.wish not in self.description.wishes

    @property
    def is_final(self) -> bool:
        """Whether waiting adds nothing."""
        drains = self.wish.action is Action.DRAIN and self.standing.hold is Hold.DRAINING
        done = self.outcome is not None and not drains
        return done or self.is_forgotten or self.description.leader is None

    @property
    def is_as_wished(self) -> bool:
        """Whether it is carried out, or will be before anything else happens."""
        if self.wish.action is Action.DRAIN and (self.standing.hold is Hold.DRAINING or self.outcome is None):
            return False
        waits = not self.is_forgotten and self.description.leader is None
        return waits if self.outcome is None else self.outcome.action is not None


def run(arguments: Namespace) -> int:
    """Leave the wish, and wait for its outcome; returns 1 if it isn't carried out, although somebody leads."""
    wish = Wish(uuid4().hex, Action(arguments.action), _rate(arguments))
    with existing(config_of(arguments)) as coordination:
        coordination.wish(arguments.name, wish)
        answer = _answer(coordination, arguments.name, wish, arguments.timeout)
    print(json.dumps(_facts(answer), indent=2) if arguments.json else _told(answer, arguments.timeout))
    return 0 if answer.is_as_wished else 1


def _rate(arguments: Namespace) -> Rate:
    if arguments.action != Action.RATE:
        return Rate()
    rate = Rate(
        batches_per_second=arguments.batches_per_second, pending=arguments.pending, max_batch=arguments.max_batch
    )
    if rate == Rate():
        raise UsageError(
            "a rate needs a limit: --batches-per-second, --pending or --max-batch; `trident resume` lifts them"
        )
    try:
        rate.check()
    except ConfigError as error:
        raise UsageError(str(error)) from error
    return rate


def _answer(coordination: Coordination, topology: str, wish: Wish, seconds: float) -> Answer:
    until = time.monotonic() + seconds
    while True:
        description = coordination.describe(topology)
        outcomes = description.record.outcomes if description.record else ()
        outcome = next((each for each in outcomes if each.wish == wish.id), None)
        answer = Answer(wish, outcome, description, description.status(time.time()))
        if answer.is_final or time.monotonic() >= until:
            return answer
        time.sleep(LOOK_AGAIN_SECONDS)


def _facts(answer: Answer) -> dict[str, Any]:
    leader = answer.description.leader
    return {
        "topology": answer.description.identity.name,
        "wish": answer.wish.id,
        "action": answer.wish.action,
        "carried_out": answer.outcome is not None and answer.outcome.action is not None,
        "waits": answer.wish in answer.description.wishes,
        "standing": answer.standing.to_json(),
        "under_way": answer.under_way,
        "leader": {"host": leader.host, "pid": leader.pid, "since": leader.started} if leader else None,
    }


def _told(answer: Answer, seconds: float) -> str:
    name, leader = answer.description.identity.name, answer.description.leader
    topology = f"topology {name!r}"
    if answer.outcome is None:
        if answer.is_forgotten:
            return f"{topology} was reset meanwhile, which forgot the wish"
        if leader is None:
            return f"nobody leads {topology}: the wish stands, whoever leads next carries it out before anything else"
        return f"{leader} leads {topology}, and has not carried out the wish within {seconds:g} s; the wish stands"
    if answer.outcome.action is None:
        return f"{topology} is led by a release that doesn't know this wish; nothing was changed"
    return f"{topology} {_done(answer, name)}"


def _done(answer: Answer, name: str) -> str:
    lifted = f"; `trident resume {name}` lifts that"
    match answer.wish.action:
        case Action.PAUSE:
            return f"is paused{_with(answer.under_way, 'under way, and commit')}{lifted}"
        case Action.DRAIN if answer.standing.hold is Hold.DRAINING:
            ends = "" if answer.description.leader else ", as soon as somebody leads it again"
            return f"drains{_with(answer.under_way, 'to be committed')}; then it is paused{ends}"
        case Action.DRAIN:
            return f"is drained, and paused{lifted}"
        case Action.RATE:
            return f"{limits(answer.standing.rate)}{lifted}"
    return "goes on, and nothing is held back"


def _with(transactions: int, what: str) -> str:
    if not transactions:
        return ""
    return f", with {counted(transactions, 'transaction')} {what}"


def limits(rate: Rate) -> str:
    """Return what ``rate`` limits, as the end of a sentence; empty where it limits nothing."""
    said = []
    if rate.batches_per_second is not None:
        said.append(f"starts at most {rate.batches_per_second:g} new batches per second")
    if rate.pending is not None:
        said.append(f"has at most {counted(rate.pending, 'transaction')} pending")
    if rate.max_batch is not None:
        said.append(f"takes at most {counted(rate.max_batch, 'row')} in a batch from spouts that can limit it")
    return " and ".join(said)
