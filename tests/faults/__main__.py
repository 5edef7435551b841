"""Does the faults, one after the other, and prints what came of each.

python -m tests.faults [--only NAME …] [--one-crash] [--list] [--json FILE] [--keep]
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import re
import sys
from pathlib import Path

from attrs import asdict
from rich.console import Console
from rich.table import Table

from tests.faults.all import FAULTS
from tests.faults.catalogue import Fault, Result, do
from tests.faults.world import World, say


def table(results: list[Result]) -> Table:
    """The results for people."""
    shown = Table("fault", "fired", "checked", "held", "seconds", "takeover", "next commit")
    for each in results:
        if each.skipped:
            shown.add_row(each.fault, "skipped", "", each.skipped)
            continue
        held = "yes" if each.is_good else "no"
        times = (
            f"{each.seconds:.0f}",
            *("" if time is None else f"{time:.1f}" for time in (each.takeover, each.recovery)),
        )
        shown.add_row(each.fault, "yes" if each.fired else "no", str(each.checked), held, *times)
    return shown


def matching(name: str) -> list[Fault]:
    """The faults that a name with wildcards means."""
    return [fault for fault in FAULTS.values() if fnmatch.fnmatch(fault.name, name)]


def one_crash_of_each(faults: list[Fault]) -> list[Fault]:
    """All faults, but of crashes that differ only in the point, one at random."""
    crash = re.compile(r"(.*)crash-(?:before|after)\b")
    random.shuffle(faults)
    found = {(kind[1] if (kind := crash.match(fault.name)) else fault.name): fault for fault in faults}
    return list(found.values())


def main(argv: list[str] | None = None) -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description="Break things, and look whether every word is counted once.")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=["*"], help="also with wildcards, in this order")
    parser.add_argument("--one-crash", action="store_true", help="of crashes that differ in the point, one at random")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", action="store_true", help="leave logs, journals and data below /tmp/trident-faults-…")
    arguments = parser.parse_args(argv)
    chosen = list(dict.fromkeys(fault for name in arguments.only for fault in matching(name)))
    if arguments.one_crash:
        chosen = one_crash_of_each(chosen)
    if arguments.list or not chosen:
        say("\n".join(fault.name for fault in chosen or FAULTS.values()))
        return 0 if chosen else 2
    results = []
    with World.running(keep=arguments.keep) as world:
        for fault in chosen:
            world.prepare(3)  # the third gets warm while the fault is done
            results.append(result := do(world, fault))
            say(f"{result.fault}: {'good' if result.is_good else 'BAD'} after {result.seconds:.0f} s")
            for trouble in [*result.broken, *filter(None, [result.error])]:
                say(f"  {trouble}")
            if arguments.json:
                arguments.json.write_text(json.dumps([asdict(each) for each in results], indent=2))
    Console(width=120).print(table(results))
    return 0 if all(each.is_good for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
