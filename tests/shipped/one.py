"""Checks one of what is shipped, in this process: ``python -m tests.shipped.one NAME DIRECTORY``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from tests.shipped.checks import CHECKS


def main(name: str, directory: str) -> int:
    """Check it on a store in ``directory``, which is empty."""
    logging.disable(logging.WARNING)
    Path(directory).chmod(0o711)  # a server's user has to get through
    report = CHECKS[name](Path(directory))
    sys.stdout.write(f"{report}\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
