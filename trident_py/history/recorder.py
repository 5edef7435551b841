"""Records the history of one start of a topology, as events come in; no transaction waits for it, or needs it.

Each leadership is recorded with the program that runs it, including a hash of the user's code.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

from attrs import define, evolve, field

from coordinators.status.listener import EndedEvent, SucceededEvent, TopologyEvent
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from coordinators.values.error_text import quoted
from coordinators.values.secret import Secret
from trident_py.engine.monitoring.listeners import EventThread, Listeners
from trident_py.errors import HistoryError
from trident_py.history.database import HistoryDatabase, history_at
from trident_py.history.entries import AttemptEntry, Change, Entries, LeadershipEntry, Program, WishEntry

log = logging.getLogger(__name__)


Code: TypeAlias = Path | Sequence[Path]

HEX_DIGITS = 12
_OURS = ("trident_py", "coordinators")


def code_version(code: Code = ()) -> str:
    """Return the first digits of a hash of the user's code; empty without code files, as in a notebook.

    The hash covers ``code``, and each loaded module that is neither Python's own, nor installed, nor of trident_py. The
    place of the files doesn't matter, so the same code has the same name on each machine.

    Args:
        code: files, archives, and directories of packages.
    """
    given = [code] if isinstance(code, Path) else code
    digests = sorted({_digest(file) for file in {*_loaded(), *_files(given)}} - {""})
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:HEX_DIGITS] if digests else ""


def _loaded() -> Iterator[Path]:
    installed = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or name.partition(".")[0] in _OURS:
            continue
        path = Path(file).absolute()
        if "site-packages" in path.parts or "dist-packages" in path.parts:
            continue
        if not any(path.is_relative_to(root) for root in installed):
            yield path


def _files(given: Iterable[Path]) -> Iterator[Path]:
    for path in given:
        yield from (path.absolute().rglob("*.py") if path.is_dir() else [path.absolute()])


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:  # the file has been deleted since it was loaded
        return ""


GATHER_SECONDS = 0.5
"""Seconds between two writes, so that many transactions are written as one."""

AGAIN_SECONDS = 5.0
"""Seconds until a failed write is tried again."""

UNWRITTEN_MAX = 10_000
"""The limit of attempts that wait for a failing database; above it, the oldest are left out."""

PRUNE_EVERY = 1_000
"""The number of written attempts after which the oldest are deleted."""


@define(eq=False)
class Recorder:
    """Turns events into entries, and stores them.

    Attributes:
        trouble: why the history can't be written just now; empty if it can. Safe to read from any thread.
    """

    topology: str
    database: HistoryDatabase
    entries: Entries
    trouble: str = field(default="", init=False)
    _leadership: LeadershipEntry | None = field(default=None, init=False)  # this and the following are not written yet
    _attempts: dict[TransactionAttempt, AttemptEntry] = field(factory=dict, init=False)
    _succeeded: list[SucceededEvent] = field(factory=list, init=False)
    _wishes: list[WishEntry] = field(factory=list, init=False)
    _again_at: float = field(default=0.0, init=False)
    _until_prune: int = field(default=0, init=False)

    def receive(self, events: Sequence[TopologyEvent]) -> None:
        """Store the events; never raises. Called on one thread."""
        try:
            change = self.entries.take(events)
            self._keep(change)
            is_ending = any(isinstance(event, EndedEvent) for event in events)
            if change.life is not None and (is_ending or time.monotonic() >= self._again_at):
                self._write(change)
            if is_ending:
                self.database.close()
        except Exception as error:
            self._forget()
            log.error(
                "topology %s: a part of its history is lost; the topology continues",
                self.topology,
                exc_info=quoted(error),
            )

    def _keep(self, change: Change) -> None:
        self._leadership = change.leadership or self._leadership
        self._attempts |= {each.attempt: each for each in change.attempts}
        self._succeeded += change.succeeded
        for attempt in list(self._attempts)[:-UNWRITTEN_MAX]:
            del self._attempts[attempt]
        self._wishes += change.wishes
        del self._succeeded[:-UNWRITTEN_MAX]
        del self._wishes[:-UNWRITTEN_MAX]

    def _write(self, change: Change) -> None:
        attempts, wishes = tuple(self._attempts.values()), tuple(self._wishes)
        unwritten = Change(change.life, self._leadership, attempts, tuple(self._succeeded), wishes)
        try:
            self.database.write(unwritten)
            self._until_prune -= len(unwritten.attempts)
            if self._until_prune < 0:
                self.database.prune(self.topology)
                self._until_prune = PRUNE_EVERY
        except HistoryError as error:
            if not self.trouble:
                log.warning(
                    "topology %s: %s; the topology continues, and its history is written later", self.topology, error
                )
            self.trouble, self._again_at = str(error), time.monotonic() + AGAIN_SECONDS
            return
        if self.trouble:
            log.warning("topology %s: its history is written again", self.topology)
        self.trouble = ""
        self._forget()

    def _forget(self) -> None:
        self._leadership = None
        self._attempts.clear()
        self._succeeded.clear()
        self._wishes.clear()


MakeProgram: TypeAlias = Callable[[], Program]


def this_program(code: Code, plan: Sequence[Json]) -> Program:
    """Return the program that runs a topology in this process."""
    return Program(
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("trident-py"),
        code=code_version(code),
        plan=tuple(plan),
    )


def recorded(listeners: Listeners, place: Path | Secret | None, topology: str, program: MakeProgram) -> Listeners:
    """Return ``listeners``, and one that keeps the history at ``place``.

    Args:
        listeners: the other listeners.
        place: as in ``TridentConfig.history_place``; None: no history is kept.
        topology: the name of the topology.
        program: returns the program; called only if a history is kept, because it reads the user's code.

    Raises:
        ConfigError: a package for the database isn't installed.
        HistoryError: the URL is invalid.
    """
    if place is None:
        return listeners
    recorder = Recorder(topology, history_at(place), Entries(program()))
    thread = EventThread(
        topology, "the history", recorder.receive, at_once_max=UNWRITTEN_MAX, gather_seconds=GATHER_SECONDS
    )
    return evolve(listeners, others=[*listeners.others, thread], history_error=lambda: recorder.trouble)
