"""``trident explain TARGET``: the plan of a topology, without running it."""

from __future__ import annotations

from argparse import Namespace

from trident_py.cli.target import load


def run(arguments: Namespace) -> int:
    """Print phases, Spark stages and states, with the guarantee of each."""
    print(load(arguments.target).topology.explain())
    return 0
