"""``trident script FILE``: play a protocol trace."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace
from pathlib import Path

from coordinators.script.script import ScriptError, run_script
from trident_py.cli.usage import UsageError


def run(arguments: Namespace) -> int:
    """Print one line for each effect of the script on the coordinator."""
    try:
        lines = run_script(_read(arguments.file))
    except ScriptError as error:
        raise UsageError(str(error), stands_alone=True) from error
    log = logging.getLogger("coordinators")
    level = log.level
    log.setLevel(logging.ERROR)  # in a script, a failure is only a step
    try:
        for line in lines:
            print(line)
    finally:
        log.setLevel(level)
    return 0


def _read(file: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {file}: {error.strerror}") from error
    return raw.decode(errors="replace")  # comments may be in any encoding, steps are ASCII
