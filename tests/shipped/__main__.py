"""Puts all sinks, states and spouts that are shipped through the conformance kit.

    python -m tests.shipped [NAME…]

Each in a process of its own, one after the other, with a server of its own where it needs one: a thousand processes
are killed in a few minutes. Ends with a line for each, and exit code 1 if one has broken a rule.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from tempfile import TemporaryDirectory
from time import monotonic

from tests.shipped.checks import CHECKS


def say(text: str) -> None:
    """Tell whoever runs it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def checked(name: str) -> bool:
    """Check one in a process of its own: what some libraries have begun must not be there where one is forked."""
    began = monotonic()
    with TemporaryDirectory(prefix="trident-shipped-") as directory:
        command = [sys.executable, "-m", "tests.shipped.one", name, directory]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = done.stdout.strip().splitlines() or [""]
    passed = done.returncode == 0
    say(f"{name}, {monotonic() - began:.0f} s: {said[-1] if passed else done.stdout}\n")
    return passed


def main(argv: list[str] | None = None) -> int:
    """Check what is named, or all."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.shipped", description="The conformance kit over all of ours."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CHECKS))
    names = parser.parse_args(argv).names or [*CHECKS]
    if unknown := [name for name in names if name not in CHECKS]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    broken = [name for name in names if not checked(name)]
    say(f"broken: {', '.join(broken)}\n" if broken else f"{len(names)} passed\n")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
