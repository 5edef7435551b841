"""``trident pause|resume|drain|rate NAME``: sends a command to the leader of a topology, and prints the outcome."""

from __future__ import annotations

import json
from argparse import Namespace
from uuid import uuid4

from coordinators.record.wishes import Action, Rate, Wish
from coordinators.values.error_text import safe_text
from coordinators.values.errors import ConfigError
from trident_py.cli.coordination import existing
from trident_py.cli.usage import UsageError, config_of
from trident_py.wishing import answer_to, seconds_for


def run(arguments: Namespace) -> int:
    """Store the command, and wait for its outcome; return 1 if a leader exists and doesn't carry it out."""
    return send(Wish(uuid4().hex, Action(arguments.action), _rate(arguments), arguments.reason.strip()), arguments)


def send(wish: Wish, arguments: Namespace) -> int:
    """Store ``wish``, wait for its outcome and print it; return 1 if a leader exists and doesn't carry it out."""
    try:
        wish.check()
    except ConfigError as error:
        raise UsageError(str(error)) from error
    with existing(config_of(arguments)) as coordination:
        seconds = seconds_for(wish.action) if arguments.timeout is None else arguments.timeout
        answer = answer_to(wish, arguments.name, coordination, seconds)
    print(json.dumps(answer.facts(), indent=2) if arguments.json else safe_text(answer.text))
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
    return rate
