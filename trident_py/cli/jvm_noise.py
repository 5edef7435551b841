"""Keeps log lines of Spark's JVM out of standard error, also the ones at its start that no setting turns off."""

from __future__ import annotations

import logging
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
"""A warning of Spark's own start script, which makes the JVM load that module."""

STANDARD_ERROR = 2
READ_BYTES = 64 * 1024
LAST_WORDS_SECONDS = 1.0

log = logging.getLogger("stderr")
"""The logger for output of Spark's JVM and Python workers."""


@contextmanager
def quiet_spark() -> Iterator[None]:
    """Limit the logs of a JVM started inside to fatal errors; our own errors report everything else, once."""
    quiet = shlex.quote(f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}")
    # Not as an option of the driver: those of spark-defaults.conf would be lost.
    if quiet not in (given := os.environ.get("SPARK_SUBMIT_OPTS", "")):
        os.environ["SPARK_SUBMIT_OPTS"] = f"{given} {quiet}".strip()
    with filtered():
        yield


def filtered() -> AbstractContextManager[None]:
    """Filter `NOISE` out of the standard error of processes started inside, for as long as they live."""
    return _received(partial(_pass_on, os.dup(STANDARD_ERROR)))


def logged() -> AbstractContextManager[None]:
    """Log the standard error of processes started inside, line by line, for as long as they live."""
    return _received(_log_lines)


@contextmanager
def _received(receive: Callable[[int], None]) -> Iterator[None]:
    """Run ``receive`` on a thread; it reads all output to standard error."""
    reading, writing = os.pipe()
    before = os.dup(STANDARD_ERROR)
    receiving = threading.Thread(target=receive, args=(reading,), name="trident-stderr", daemon=True)
    receiving.start()
    os.dup2(writing, STANDARD_ERROR)
    os.close(writing)
    try:
        yield
    except BaseException:
        os.dup2(before, STANDARD_ERROR)
        receiving.join(LAST_WORDS_SECONDS)  # of a JVM that could not start
        raise
    finally:
        os.dup2(before, STANDARD_ERROR)
        os.close(before)


def _log_lines(reading: int) -> None:
    with open(reading, encoding="utf-8", errors="replace") as lines:
        for line in filter(None, map(str.rstrip, lines)):
            log.warning("%s", line)


def _pass_on(to: int, reading: int) -> None:
    kept = b""
    while piece := os.read(reading, READ_BYTES):
        text = (kept + piece).replace(NOISE, b"")
        kept = _beginning_of_noise(text)
        _write(to, text[: len(text) - len(kept)])
    _write(to, kept)
    os.close(reading)
    os.close(to)


def _beginning_of_noise(text: bytes) -> bytes:
    """Return the end of ``text`` that may be the beginning of the noise; the next bytes decide."""
    lengths = range(min(len(text), len(NOISE) - 1), 0, -1)
    return next((NOISE[:length] for length in lengths if text.endswith(NOISE[:length])), b"")


def _write(to: int, text: bytes) -> None:
    while text:
        text = text[os.write(to, text) :]
