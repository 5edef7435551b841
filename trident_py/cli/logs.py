"""The log of a command on standard error: lines for people, or JSON for programs."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from coordinators.values.error_text import error_text, safe_text
from coordinators.values.log_fields import fields_of
from trident_py.cli.terminal import traceback_text

TEXT, JSON = "text", "json"
MESSAGE_BYTES_MAX = 64 * 1024
"""The largest message of a line in the log, including messages that users' code logs."""

log = logging.getLogger(__name__)


def set_up(log_format: str, *, debug: bool) -> None:
    """Log on standard error from now on: warnings and errors, or with ``debug`` everything."""
    if log_format == JSON:
        handler = _json_handler()
    else:
        handler = _StandardError()
        detailed = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        handler.setFormatter(TextFormatter(detailed if debug else "trident: %(message)s"))
    if not debug:
        handler.addFilter(_is_not_of_py4j)
    logging.basicConfig(level=logging.INFO if debug else logging.WARNING, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs each of its sockets
    if not debug:
        # The error that ends a topology is printed once: as the error of the command.
        for source in ("coordinators.driver.loop", "kazoo"):
            logging.getLogger(source).setLevel(logging.CRITICAL)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return False for records of Py4J, which logs a traceback for each call that Ctrl-C interrupts."""
    return "py4j" not in Path(record.pathname).parts


def _json_handler() -> logging.Handler:
    """Turn all standard error of this process and its children into JSON, and return the handler."""
    log.setLevel(logging.INFO)
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    # A separate descriptor: while Spark's JVM starts, the usual one is redirected to catch its output.
    handler = logging.StreamHandler(os.fdopen(os.dup(sys.__stderr__.fileno()), "w"))  # type: ignore[union-attr]
    handler.setFormatter(JsonFormatter())
    return handler


def _log_uncaught(_: type[BaseException], error: BaseException, __: TracebackType | None) -> None:
    log.critical("%s", error_text(error), exc_info=error)


class _StandardError(logging.Handler):
    """Logs to the current ``sys.stderr``, which a live display redirects above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr)
        except Exception:  # noqa: BLE001 - a failed log line must not stop the command
            self.handleError(record)


def _message(record: logging.LogRecord) -> str:
    """Return the message of ``record``, even if its arguments can't be formatted."""
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - logged objects may be of any class
        return f"{record.msg!r} can't be filled in: {error_text(error)}"


class TextFormatter(logging.Formatter):
    """Formats each message, and each line of a traceback, as one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the traceback, if any."""
        shown = copy(record)
        shown.msg, shown.args, shown.exc_text = safe_text(_message(record), MESSAGE_BYTES_MAX), None, None
        return super().format(shown)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - of the base
        """Return the traceback."""
        return traceback_text(ei[1]) if ei[1] else ""


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object, with its topology, epoch, txid and attempt."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the JSON, with the traceback, if any."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record)[:MESSAGE_BYTES_MAX],
            **fields_of(record),
        }
        if record.exc_info and record.exc_info[1]:
            line["traceback"] = traceback_text(record.exc_info[1])
        return json.dumps(line, default=str)


class LogStream(io.TextIOBase):
    """A text file that logs each line written to it."""

    def write(self, text: str) -> int:
        """Log each line that isn't empty."""
        for line in filter(None, map(str.strip, text.splitlines())):
            log.info("%s", line)
        return len(text)
