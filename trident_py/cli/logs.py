"""What a command logs on standard error: lines for people, or JSON for programs."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from datetime import UTC, datetime
from types import TracebackType

from coordinators.log_fields import fields_of

TEXT, JSON = "text", "json"

log = logging.getLogger(__name__)


def set_up(log_format: str, *, debug: bool) -> None:
    """Log on standard error from now on; with ``debug`` what happens, else what goes wrong."""
    if log_format == JSON:
        handler = _json_handler()
    else:
        handler = _StandardError()
        detailed = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        handler.setFormatter(logging.Formatter(detailed if debug else "trident: %(message)s"))
    logging.basicConfig(level=logging.INFO if debug else logging.WARNING, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of each of its sockets
    if not debug:
        # What ends a topology is told once: as the error of the command.
        for source in ("coordinators.loop", "kazoo"):
            logging.getLogger(source).setLevel(logging.CRITICAL)


def _json_handler() -> logging.Handler:
    """Have all that comes to standard error from this process and its children be JSON."""
    log.setLevel(logging.INFO)
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    # Of its own: what Spark's JVM writes while it starts is caught where standard error usually is.
    handler = logging.StreamHandler(os.fdopen(os.dup(sys.__stderr__.fileno()), "w"))  # type: ignore[union-attr]
    handler.setFormatter(JsonFormatter())
    return handler


def _log_uncaught(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    log.critical("%s: %s", kind.__name__, error, exc_info=error)


class _StandardError(logging.Handler):
    """Logs to what standard error is at that moment, which a live display redirects above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


class JsonFormatter(logging.Formatter):
    """Makes one JSON object of each line, with what it is about: topology, epoch, txid, attempt."""

    def format(self, record: logging.LogRecord) -> str:
        """Return it, with a traceback where there is one."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class LogStream(io.TextIOBase):
    """A text file whose lines are logged."""

    def write(self, text: str) -> int:
        """Log each line that isn't empty."""
        for line in filter(None, map(str.strip, text.splitlines())):
            log.info("%s", line)
        return len(text)
