"""What happens when ``trident run`` ends by an error: the exit code, and who is told."""

from __future__ import annotations

import json
import logging
import os
import shlex
import socket
import subprocess
from datetime import UTC, datetime
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from coordinators.errors import MetadataError, PoisonBatchError, SpoutError, StateError, TridentError
from trident_py.cli.usage import UsageError
from trident_py.errors import SinkError

log = logging.getLogger(__name__)

FAILED, HALTED = 1, 3
"""Exit codes: of what another start may mend, and of what needs somebody first."""

NEEDS_SOMEBODY = (PoisonBatchError, SpoutError, StateError, SinkError, MetadataError)
CALL_SECONDS = 30.0
"""For whoever is told; then it is given up."""


def exit_code(error: TridentError) -> int:
    """Return what the process ends with."""
    return HALTED if isinstance(error, NEEDS_SOMEBODY) else FAILED


def check(target: str | None) -> None:
    """Return if ``target`` is a URL or a command.

    Raises:
        UsageError: it is neither.
    """
    try:
        if target is not None and not shlex.split(target):
            raise UsageError("--on-halt is a command, or a URL that begins with http:// or https://")
    except ValueError as error:
        raise UsageError(f"--on-halt can't be read as a command: {error}") from error


def tell(target: str, topology: str, error: TridentError) -> None:
    """Tell ``target`` what has ended the topology; whatever comes of it is logged, and changes nothing."""
    facts = facts_of(topology, error)
    try:
        if target.startswith(("http://", "https://")):
            _post(target, facts)
        else:
            _run(target, facts)
    except (OSError, URLError, ValueError, subprocess.SubprocessError) as problem:
        log.error("topology %s: --on-halt was not told: %s", topology, problem)


def facts_of(topology: str, error: TridentError) -> dict[str, Any]:
    """Return what is told, as JSON."""
    return {
        "topology": topology,
        "error": type(error).__name__,
        "message": str(error),
        "txid": error.txid,
        "attempt": None if error.attempt is None else str(error.attempt),
        "spout": error.spout,
        "state": error.state,
        "exit_code": exit_code(error),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _post(url: str, facts: dict[str, Any]) -> None:
    request = Request(url, json.dumps(facts).encode(), {"Content-Type": "application/json"})  # noqa: S310 - checked
    with urlopen(request, timeout=CALL_SECONDS):  # noqa: S310
        pass


def _run(command: str, facts: dict[str, Any]) -> None:
    """Run it with what is known on standard input, and in the environment; what it prints goes where ours does."""
    told = {f"TRIDENT_{name.upper()}": "" if each is None else str(each) for name, each in facts.items()}
    subprocess.run(  # noqa: S603 - the operator's own command
        shlex.split(command),
        input=json.dumps(facts),
        text=True,
        env={**os.environ, **told},
        timeout=CALL_SECONDS,
        check=True,
    )
