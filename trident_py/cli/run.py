"""``trident run TARGET``: run a topology until it is interrupted, or once."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import ExitStack
from typing import Any

from coordinators.values.error_text import counted, safe_text
from trident_py.cli import halt, logs
from trident_py.cli.target import Target, load
from trident_py.cli.terminal import json_text
from trident_py.cli.usage import RunError, UsageError, config_of
from trident_py.cli.watch import Watch
from trident_py.errors import TridentError
from trident_py.interfaces.config import TridentConfig
from trident_py.query import TridentQuery
from trident_py.spark.cluster import SparkCluster
from trident_py.spark.session import ensure_session_possible, session_on


def run(arguments: Namespace) -> int:
    """Run the topology; the first Ctrl-C or SIGTERM commits the batches in flight, the second stops at once."""
    config = config_of(arguments)
    halt.check(arguments.on_halt)
    target: Target | None = None
    try:
        cluster = _cluster_of(arguments)
        target = load(arguments.target)
        done, drained = _run(target, config, cluster, arguments)
    except (UsageError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if arguments.on_halt is not None:
            halt.tell(arguments.on_halt, target.topology.name if target else None, error)
        if isinstance(error, TridentError):
            raise
        raise RunError from error
    if arguments.json:
        print(json_text(done, indent=2))
    else:
        print(
            f"{safe_text(done['name'])}: {counted(done['committed_transactions'], 'transaction')}, "
            f"{counted(done['total_input_rows'], 'row')} in {done['seconds']} s; "
            f"the next transaction is {done['next_txid']}"
        )
    return 0 if drained else 1


def _run(
    target: Target, config: TridentConfig, cluster: SparkCluster | None, arguments: Namespace
) -> tuple[dict[str, Any], bool]:
    """Run the topology until it ends; return its summary, and whether it reached its end."""
    code = (target.code, *arguments.py_files)
    with ExitStack() as resources:

        def start() -> TridentQuery:
            spark = resources.enter_context(session_on(cluster, target.topology.name)) if cluster else None
            return target.topology.start(config, spark=spark, code=code, standby=arguments.standby)

        watch = Watch.starting(start, debug=arguments.debug, log_format=arguments.log_format)
        _show_page(watch.query.page, arguments.log_format)
        drained = watch.until_end(once=arguments.once)
        return watch.summary(), drained


def _show_page(url: str, log_format: str) -> None:
    """Print the URL of the page; in a JSON log, which goes elsewhere, without the token."""
    if url and log_format == logs.JSON:
        logs.log.info("page: %s", url.partition("?")[0])
    elif url:
        print(f"page: {url}", file=sys.stderr, flush=True)


def _cluster_of(arguments: Namespace) -> SparkCluster | None:
    """Return the Spark cluster of the options, if it answers; None: Spark's own setting, or the file's session."""
    missing = [str(file) for file in arguments.py_files if not file.exists()]
    if missing:
        raise UsageError(f"--py-files: there is no {', '.join(missing)}")
    if arguments.driver_host and not arguments.master:
        raise UsageError("--driver-host is for executors of a --master")
    if not (arguments.master or arguments.remote):
        return None
    cluster = SparkCluster.found(arguments.master, arguments.remote, arguments.driver_host)
    ensure_session_possible(None, cluster)
    cluster.ensure_there()
    return cluster
