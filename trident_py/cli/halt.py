"""The end of ``trident run`` by an error: the exit code, and the notification of ``--on-halt``."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from coordinators.values.error_text import error_text, safe_text
from coordinators.values.errors import MetadataError, PoisonBatchError, SpoutError, StateError, TridentError
from trident_py.cli.terminal import failure_text
from trident_py.cli.usage import UsageError
from trident_py.errors import SinkError

log = logging.getLogger(__name__)

FAILED, HALTED = 1, 3
"""Exit codes: the first if a restart may succeed, the second if an operator must act first."""

NEEDS_SOMEBODY = (PoisonBatchError, SpoutError, StateError, SinkError, MetadataError)
CALL_SECONDS = 30.0
"""Seconds for the notified command or URL; after that, the call is abandoned."""

END_SECONDS = 1.0
"""Seconds until a killed command must have ended."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of the process: 3 if an operator must act before the next start, else 1."""
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


def tell(target: str, topology: str | None, error: BaseException) -> None:
    """Notify ``target`` of the error that ended the topology; a failure to do so is only logged."""
    facts = facts_of(topology, error)
    try:
        if target.startswith(("http://", "https://")):
            _post(target, facts)
        else:
            _run(target, facts)
    except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - the error that ended the topology matters more
        log.error("topology %s: --on-halt could not be notified: %s", topology, error_text(problem))


def facts_of(topology: str | None, error: BaseException) -> dict[str, Any]:
    """Return the facts of the notification, as JSON."""
    ours = error if isinstance(error, TridentError) else TridentError()
    return {
        "topology": topology or ours.topology,
        "error": type(error).__name__,
        "message": failure_text(error),
        "txid": ours.txid,
        "attempt": None if ours.attempt is None else str(ours.attempt),
        "spout": ours.spout,
        "state": ours.state,
        "exit_code": exit_code(error),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _post(url: str, facts: dict[str, Any]) -> None:
    """Send the facts on a separate thread, because a server may answer a byte now and then, for ever."""
    request = Request(url, json.dumps(facts).encode(), {"Content-Type": "application/json"})  # noqa: S310 - checked
    done: Future[None] = Future()

    def post() -> None:
        try:
            with urlopen(request, timeout=CALL_SECONDS):  # noqa: S310
                done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised by the waiting thread
            if isinstance(error, HTTPError):
                error.close()
            done.set_exception(error)

    threading.Thread(target=post, name="trident-on-halt", daemon=True).start()
    try:
        done.result(CALL_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"no answer within {CALL_SECONDS:g} s") from None


def _run(command: str, facts: dict[str, Any]) -> None:
    """Run the command with the facts on standard input and in the environment; its output goes to ours."""
    told = {f"TRIDENT_{name.upper()}": "" if each is None else safe_text(str(each)) for name, each in facts.items()}
    with tempfile.TemporaryFile() as given:  # unlike a pipe, a file takes all facts even if they are not read
        given.write(json.dumps(facts).encode())
        given.seek(0)
        words, env = shlex.split(command), {**os.environ, **told}
        process = subprocess.Popen(words, stdin=given, env=env, start_new_session=True)  # noqa: S603 - the operator's
    try:
        code = process.wait(CALL_SECONDS)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # together with its child processes
        process.wait(END_SECONDS)
        raise
    if code:
        raise subprocess.CalledProcessError(code, words)
