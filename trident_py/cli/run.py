"""``trident run TARGET``: run a topology until it is interrupted, or once."""

from __future__ import annotations

import json
from argparse import Namespace

from trident_py.cli.target import load
from trident_py.cli.usage import config_of
from trident_py.cli.watch import Watch
from trident_py.query import counted


def run(arguments: Namespace) -> int:
    """Run it; the first Ctrl-C or SIGTERM lets what is being processed commit, the second stops at once."""
    config = config_of(arguments)
    target = load(arguments.target)
    watch = Watch.starting(
        lambda: target.topology.start(config, code=target.code, standby=arguments.standby), debug=arguments.debug
    )
    drained = watch.until_end(once=arguments.once)
    done = watch.summary()
    if arguments.json:
        print(json.dumps(done, indent=2))
    else:
        print(
            f"{done['name']}: {counted(done['committed_transactions'], 'transaction')}, "
            f"{counted(done['total_input_rows'], 'row')} in {done['seconds']} s; "
            f"the next transaction is {done['next_txid']}"
        )
    return 0 if drained else 1
