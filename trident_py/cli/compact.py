"""``trident compact PATH TARGET``: copies the committed rows of a `FileSink` into few files."""

from __future__ import annotations

from argparse import Namespace
from contextlib import nullcontext

from coordinators.values.error_text import counted
from trident_py.cli.jvm_noise import quiet_spark
from trident_py.sinks.files.compaction import compact, compactable
from trident_py.sinks.files.local_path import local_path
from trident_py.spark.session import ensure_session_possible, topology_session


def run(arguments: Namespace) -> int:
    """Copy the rows, and print how many."""
    path, target = local_path(arguments.path), local_path(arguments.target)
    taken = compactable(path, target, arguments.up_to)
    ensure_session_possible(None)
    with nullcontext() if arguments.debug else quiet_spark(), topology_session("compact", None) as session:
        compact(taken, target, session)
    print(
        f"{target} has {counted(taken.rows, 'row')}: transactions {taken.first} to {taken.last.commit.txid} of {path}"
    )
    return 0
