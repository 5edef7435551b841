"""``trident reset NAME``: deletes a topology's position, after explaining the consequences."""

from __future__ import annotations

import time
from argparse import Namespace

from coordinators.backends.coordination import Coordination
from coordinators.values.errors import MetadataError
from trident_py.cli.coordination import existing
from trident_py.cli.terminal import safe_lines
from trident_py.cli.usage import config_of

AFTERWARDS = """\
The next start begins with transaction 1 and reads every source from its beginning. Tables of its states are set aside
under another name, their rows kept; sinks and states of your own keep what they have, so clear them where it would
count twice."""


def run(arguments: Namespace) -> int:
    """Begin a new incarnation of a topology; return 1 if the user didn't confirm."""
    config = config_of(arguments)
    with existing(config) as coordination:
        print(safe_lines(_what_goes(arguments.name, coordination)))
        print(AFTERWARDS)
        if not arguments.yes and not _confirmed(arguments.name):
            print("nothing was changed")
            return 1
        identity = coordination.reset(arguments.name)
    print(f"topology {identity.name!r} starts over, as incarnation {identity.incarnation}")
    return 0


def _what_goes(name: str, coordination: Coordination) -> str:
    try:
        description = coordination.describe(name)
    except MetadataError as error:
        return f"This forgets the record of topology {name!r}, which can't be read: {error}"
    record = description.record
    if record is None:
        return f"Topology {name!r} has no position yet; this begins another incarnation all the same."
    status = description.status(time.time())
    spouts = sorted({spout for definitions in record.metadata.values() for spout in definitions} | set(record.cursors))
    return (
        f"This forgets where topology {name!r} is: {status.last_committed} committed transactions, "
        f"{len(status.transactions)} in flight, the positions of {', '.join(spouts) or 'no spout'}."
    )


def _confirmed(name: str) -> bool:
    try:
        return input(f"Type {name} to continue: ").strip() == name
    except EOFError:
        print()
        return False
