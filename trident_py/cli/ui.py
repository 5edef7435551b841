"""``trident ui [NAME]``: serves the page of a topology from its stored history, whether it runs or not."""

from __future__ import annotations

import signal
import sys
import threading
from argparse import Namespace
from contextlib import ExitStack, closing

from coordinators.backends.coordination import Coordination
from trident_py.cli.coordination import existing
from trident_py.cli.tx import history_of
from trident_py.cli.usage import UsageError, config_of
from trident_py.errors import HistoryError, TridentError
from trident_py.history.database import NoHistoryError, existing_history
from trident_py.interfaces.config import TridentConfig
from trident_py.web.serving import ensure_installed
from trident_py.web.token import token_at


def run(arguments: Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM."""
    config = config_of(arguments)
    ensure_installed()
    from trident_py.web.app import Page  # it needs an optional library
    from trident_py.web.left_out import RowsLeftOut
    from trident_py.web.server import PageServer
    from trident_py.web.stored import StoredTopology

    name = arguments.name or _only(config)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with ExitStack() as resources:
        with closing(history_of(name, config)):
            pass  # the history exists; the page reads it on a separate thread
        topology = StoredTopology(name, config.history_place, _coordination(config, resources))
        server = PageServer(Page(topology, RowsLeftOut(name, config)), config, token_at(config.state_dir))
        server.open()
        resources.callback(server.close)
        print(f"page: {server.url}", file=sys.stderr, flush=True)
        ended.wait()
    return 0


def _coordination(config: TridentConfig, resources: ExitStack) -> Coordination | None:
    try:
        return resources.enter_context(existing(config))
    except TridentError as error:
        print(f"trident: without what is known of the present: {error}", file=sys.stderr)
        return None


def _only(config: TridentConfig) -> str:
    """Return the only topology in the history.

    Raises:
        UsageError: there are several.
        HistoryError: there is no history, or it is empty.
    """
    try:
        database = existing_history(config.history_place)
    except NoHistoryError as error:
        raise HistoryError(f"{error}; name the place with --state-dir, or with --history") from error
    with closing(database):
        names = database.topologies()
    if len(names) > 1:
        raise UsageError(f"name one of the topologies: {', '.join(names)}")
    if not names:
        raise HistoryError(f"the history in {database.shown} knows no topology")
    return names[0]
