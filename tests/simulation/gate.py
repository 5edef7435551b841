"""The scopes that are explored, and the mutation gate: without any one rule, some scope has a counterexample."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from attrs import frozen

from coordinators.record.wishes import Action
from tests.simulation.explore import Explorer
from tests.simulation.rules import Rules
from tests.simulation.scope import Scope
from tests.simulation.stores import StoreKind

UNDO, COMPARE = StoreKind.UNDO, StoreKind.COMPARE
AWAY = {"coordinator fails": 1, "source away": 1}
OLD = {"back up": 1, "old ZooKeeper": 1}
LATE = {"commit lost": 1, "commit lands late": 1}
RESTARTS = {"store restarts": 1}

THREE: dict[str, Any] = {"shares": True, "rows": 3, "max_spout_pending": 3}
"""Two transactions meet in a job, and in a commit, while a third one is on its way."""

REFUSED: dict[str, Any] = {**THREE, "poison": 3, "attempts": 1, "refuses": True, "processes": 1}
"""A store refuses the second of two that commit together."""

TWO: dict[str, Any] = {"shares": True, "rows": 2, "max_spout_pending": 2}
"""Two transactions meet."""

TWO_STORES: dict[str, Any] = {**TWO, "stores": (StoreKind.UNDO, StoreKind.UNDO)}
"""They meet in two stores."""

PARK, RELEASE, BISECT, LETTERS = Action.PARK, Action.RELEASE, Action.BISECT, Action.LETTERS

SINGLE: dict[str, Any] = {"rows": 1, "max_spout_pending": 1, "processes": 1}
BISECTED: dict[str, Any] = {**SINGLE, "rows": 2, "any_size": True}
"""One transaction, in one process."""

ROW = "a row raises"
COLLECTED: dict[str, Any] = {**SINGLE, "rows": 2, "collects": UNDO, "lives": 3}
"""Bad rows go into a store of their own."""

JOIN: dict[str, Any] = {
    "sources": ("left", "right"),
    "stores": (UNDO, UNDO),
    "reads": {"store0": ["right"]},
    "max_spout_pending": 1,
    "processes": 1,
}
"""Two sources and a branch that joins them; the other reads the second, which has nothing for the last transaction."""

SCOPES = {
    scope.name: scope
    for scope in (
        Scope("two silences", {"timeout": 2}),
        Scope("a crash at any step", {"crash at a step": 1}),
        Scope("two crashes at any steps", {"crash at a step": 2}, rows=1, max_spout_pending=1, processes=1, lives=3),
        Scope("a commit that lands late, and a silence", {**LATE, "timeout": 1}, rows=1),
        Scope("a write that lands late", {"write lost": 1}),
        Scope("a lost write, a lost reply and a kill", {"write lost": 1, "reply lost": 1, "kill": 1}, rows=1),
        Scope("a leader that is cut off", {"expiry": 1}, rows=1),
        Scope("a database's lock, and a leader that is cut off", {"expiry": 1}, rows=1, locks=True),
        Scope("a store that restarts, and a silence", {"store restarts": 1, "timeout": 1}, inline=False),
        Scope("changed by tasks: a crash at any step", {"crash at a step": 1}, tasked=True),
        Scope("changed by tasks: a commit that lands late, and a restart", {**LATE, **RESTARTS}, rows=1, tasked=True),
        Scope("changed by tasks, and fed: a late commit", {**LATE}, rows=1, tasked=True, feeds="store0"),
        Scope("changed by tasks, in one database: a late commit", {**LATE}, together=True, tasked=True, **TWO_STORES),
        Scope("batches of any size, and a silence", {"timeout": 1}, any_size=True),
        Scope("two stores, and a crash at any step", {"crash at a step": 1}, stores=(UNDO, COMPARE)),
        Scope("opaque: a silence", {"timeout": 1}, exact=False),
        Scope("opaque: a crash at any step", {"crash at a step": 1}, exact=False),
        Scope("opaque: a commit that lands late", {**LATE}, exact=False),
        Scope("a batch that always fails, and a crash", {"crash at a step": 1}, poison=2, processes=1, lives=3),
        Scope(
            "a batch that is corrected after a failure, and a kill",
            {"user code fails": 1, "kill": 1, "corrected": 1},
            max_spout_pending=1,
            stores=(COMPARE, UNDO),
            processes=1,
            corrects=True,
        ),
        Scope("a source that is away, and a crash", {"crash at a step": 1, **AWAY}, rows=1, processes=1),
        Scope("several messages in a turn, and a crash", {"crash at a step": 1}, max_spout_pending=1, gathers=True),
        Scope("several writes for a record, and a crash", {"crash at a step": 1}, rows=1, learns=True, splits=True),
        Scope(
            "opaque: an old store, and a silence",
            {"back up": 1, "old store": 1, "timeout": 1},
            max_spout_pending=1,
            exact=False,
            any_size=True,
            processes=1,
            lives=2,
        ),
        Scope("learned: a crash at any step", {"crash at a step": 1}, learns=True),
        Scope("learned, opaque: a crash at any step", {"crash at a step": 1}, learns=True, exact=False),
        Scope("shared: a crash at any step", {"crash at a step": 1}, **THREE),
        Scope("shared: a store that can't undo, and a crash", {"crash at a step": 1}, stores=(COMPARE,), **THREE),
        Scope("shared: a commit that lands late", {**LATE}, **THREE),
        Scope("shared: a source more to two rows, and a crash", {"crash at a step": 1}, adds=True, processes=1, **TWO),
        Scope(
            "shared, in steps: a fast commit, and a crash",
            {"crash at a step": 1, "commit at once": 1},
            large_rows=1,
            processes=1,
            **THREE,
        ),
        Scope("tasks that stay: one is lost, and a silence", {"task lost": 1, "timeout": 1}, residents=1, **TWO),
        Scope(
            "tasks that stay: late, and a silence", {"answer late": 1, "timeout": 1}, shares=True, residents=1, rows=1
        ),
        Scope("tasks that stay: a late answer, and twice", {"answer late": 1, "answer twice": 1}, residents=1, **TWO),
        Scope("tasks that stay: a lost one, and a crash", {"task lost": 1, "crash at a step": 1}, residents=2, **TWO),
        Scope("windows: a crash at any step", {"crash at a step": 1}, windows=True),
        Scope("windows, opaque: a silence", {"timeout": 1}, windows=True, exact=False, rows=1),
        Scope("windows, shared, learned: a kill", {"kill": 1}, windows=True, learns=True, shares=True),
        Scope("windows: a source that is away, and a silence", {"timeout": 1, **AWAY}, windows=True, rows=1),
        Scope("shared: rows that fail every job", {"timeout": 1}, poison=2, processes=1, **THREE),
        Scope("shared: rows that a store refuses, and a silence", {"timeout": 1}, **REFUSED),
        Scope(
            "two stores, a reader and a kill",
            {"ask": 1, "kill": 1},
            rows=1,
            max_spout_pending=1,
            stores=(UNDO, UNDO),
            processes=1,
        ),
        Scope("a wish, and a silence", {"wish": 1, "timeout": 1}, rows=1, processes=1),
        Scope("a pause by the leader, and a kill", {"own pause": 1, "kill": 1}, rows=1, processes=1),
        Scope("two wishes", {"wish": 2}, rows=1, max_spout_pending=1, processes=1),
        Scope(
            "a wish, and a server that lags",
            {"wish": 1, "stale read": 2},
            rows=1,
            max_spout_pending=1,
            processes=1,
            lives=1,
            lags=True,
        ),
        Scope("a wish, and a crash at any step", {"wish": 1, "crash at a step": 1}, rows=1, processes=1),
        Scope("parked: a crash at any step", {PARK: 1, "crash at a step": 1}, **SINGLE),
        Scope("parked and released: a kill", {PARK: 1, RELEASE: 1, "kill": 1}, **SINGLE),
        Scope("parked twice, several messages in a turn", {PARK: 2}, gathers=True, **SINGLE),
        Scope("parked and released", {PARK: 1, RELEASE: 1}, **SINGLE),
        Scope("parked, a sink: a commit that lands late", {PARK: 1, **LATE}, stores=(COMPARE,), **SINGLE),
        Scope("parked, a user's state: a kill", {PARK: 1, "kill": 1}, stores=(UNDO, StoreKind.UNFENCED), **SINGLE),
        Scope("parked by policy: a crash at any step", {"crash at a step": 1}, poison=1, parks=True, **SINGLE),
        Scope("bisected: a kill", {BISECT: 1, "kill": 1}, poison=1, parks=True, **BISECTED),
        Scope("bisected and released", {BISECT: 1, RELEASE: 1}, poison=1, parks=True, shares=True, **BISECTED),
        Scope("parked, learned: a crash at any step", {PARK: 1, "crash at a step": 1}, learns=True, **SINGLE),
        Scope("parked and released, learned: a kill", {PARK: 1, RELEASE: 1, "kill": 1}, learns=True, **SINGLE),
        Scope("parked and released, opaque", {PARK: 1, RELEASE: 1}, exact=False, learns=True, **SINGLE),
        Scope("parked, opaque: a kill", {PARK: 1, "kill": 1}, exact=False, **SINGLE),
        Scope("parked and refused: two wishes", {PARK: 2}, stores=(UNDO, StoreKind.UNFENCED), **SINGLE),
        Scope("parked, fed: a kill", {PARK: 1, "kill": 1}, feeds="store0", **SINGLE),
        Scope("parked, windows: a kill", {PARK: 1, "kill": 1}, windows=True, **SINGLE),
        Scope("a row that raises twice, and a kill", {ROW: 2, "kill": 1}, stores=(COMPARE,), **COLLECTED),
        Scope("a row that raises twice, and a late commit", {ROW: 2, **LATE}, stores=(COMPARE,), **COLLECTED),
        Scope("rows that raise, opaque: a kill", {ROW: 2, "kill": 1}, exact=False, stores=(UNDO,), **COLLECTED),
        Scope("letters released: a kill", {ROW: 2, LETTERS: 1, "kill": 1}, **{**COLLECTED, "rows": 1}),
        Scope("letters released twice, and bad again", {ROW: 3, LETTERS: 2}, **{**COLLECTED, "rows": 1}),
        Scope("fed: a crash at any step", {"crash at a step": 1}, feeds="store0"),
        Scope("fed: a kill", {"kill": 1}, feeds="store0"),
        Scope("fed, opaque: a kill", {"kill": 1}, feeds="store0", exact=False),
        Scope("fed, opaque: a commit that lands late", {**LATE}, feeds="store0", exact=False, rows=1),
        Scope("fed: a leader that is cut off", {"expiry": 1}, feeds="store0", rows=1),
        Scope("fed sink: a crash at any step", {"crash at a step": 1}, feeds="store0", fed=StoreKind.COMPARE, rows=1),
        Scope("fed sink: a commit that lands late", {**LATE}, feeds="store0", fed=StoreKind.COMPARE, rows=1),
        Scope("fed, shared: a kill", {"kill": 1}, feeds="store0", processes=1, **THREE),
        Scope("one database: a kill", {"kill": 1}, feeds="store0", together=True, processes=1, **TWO_STORES),
        Scope("one database: a commit that lands late", {**LATE}, together=True, processes=1, **TWO_STORES),
        Scope("fed: a reader, and a silence", {"ask": 1, "timeout": 1}, feeds="store0", rows=1, max_spout_pending=1),
        Scope(
            "a source more behind a user's state, and a crash",
            {"crash at a step": 1},
            adds=True,
            max_spout_pending=1,
            stores=(COMPARE, StoreKind.UNFENCED),
            processes=1,
        ),
        Scope(
            "learned: an old ZooKeeper, and a crash",
            {**OLD, "crash at a step": 1},
            rows=1,
            max_spout_pending=1,
            learns=True,
            processes=1,
            lives=4,
        ),
        Scope("opaque: a store that can't undo", {"crash at a step": 1}, exact=False, stores=(COMPARE, UNDO)),
    )
}
"""What CI explores, all of it, with every rule in force."""

SEARCHED = {
    scope.name: scope
    for scope in (
        Scope("branches: a crash at any step", {"crash at a step": 1}, **JOIN),
        Scope("shared: a source more, and a crash", {"crash at a step": 1}, adds=True, processes=1, **THREE),
        Scope(
            "several writes for a record, a late one, and a crash",
            {"crash at a step": 1, "write lost": 1, "late write first": 1},
            rows=1,
            max_spout_pending=1,
            learns=True,
            splits=True,
            processes=1,
        ),
        Scope(
            "learned, opaque: an old ZooKeeper, and a kill",
            {**OLD, "kill": 1},
            rows=3,
            exact=False,
            learns=True,
            processes=1,
            lives=3,
        ),
        Scope("a wish while a third row waits", {"wish": 1}, rows=3, processes=1),
        Scope(
            "parked twice, several messages in a turn, a server that lags",
            {PARK: 2, "stale read": 1},
            stores=(StoreKind.UNFENCED,),
            gathers=True,
            lags=True,
            lives=1,
            **SINGLE,
        ),
        Scope(
            "a store left out that comes back, and a crash",
            {"roll out": 2, "crash at a step": 1},
            max_spout_pending=1,
            stores=(UNDO, UNDO),
            leaves="store1",
            processes=1,
            lives=4,
        ),
        Scope(
            "opaque: a store left out that comes back, and a kill",
            {"roll out": 2, "kill": 1},
            max_spout_pending=1,
            exact=False,
            stores=(UNDO, UNDO),
            leaves="store0",
            processes=1,
            lives=4,
        ),
        Scope(
            "shared: two stores, a source more, and a kill",
            {"kill": 1},
            adds=True,
            processes=1,
            stores=(UNDO, UNDO),
            **THREE,
        ),
    )
}
"""Too large for that: only the counterexample is looked for."""

GATE = {
    "guarded writes": "a write that lands late",
    "blobs first": "several writes for a record, and a crash",
    "parts still there": "several writes for a record, a late one, and a crash",
    "raised fences": "a leader that is cut off",
    "epoch in token": "a leader that is cut off",
    "attempt in token": "a commit that lands late, and a silence",
    "undo": "opaque: a commit that lands late",
    "compared content": "opaque: a store that can't undo",
    "verified staging": "a store that restarts, and a silence",
    "values as of the one before": "changed by tasks: a commit that lands late, and a restart",
    "store, then announce": "a crash at any step",
    "owed successes": "a crash at any step",
    "standing definitions": "batches of any size, and a silence",
    "all reports": "two silences",
    "attempts compared": "opaque: an old store, and a silence",
    "moved cursors": "learned: a crash at any step",
    "written successes": "several messages in a turn, and a crash",
    "runs in order": "shared: a crash at any step",
    "rows apart": "shared: a crash at any step",
    "known members": "shared: two stores, a source more, and a kill",
    "known groups": "shared, in steps: a fast commit, and a crash",
    "named failures": "shared: rows that fail every job",
    "the one that failed": "shared: rows that a store refuses, and a silence",
    "given back": "tasks that stay: one is lost, and a silence",
    "answers by number": "tasks that stay: a late answer, and twice",
    "late answers dropped": "tasks that stay: a late answer, and twice",
    "reads between commits": "two stores, a reader and a kill",
    "partial at a takeover": "two stores, a reader and a kill",
    "closed at a takeover": "shared: a source more, and a crash",
    "offsets by their intent": "learned, opaque: an old ZooKeeper, and a kill",
    "none joins what comes again": "a source more behind a user's state, and a crash",
    "torn as declared": "shared: two stores, a source more, and a kill",
    "accepted, then passed over": "a store left out that comes back, and a crash",
    "gaps from where they begin": "opaque: a store left out that comes back, and a kill",
    "gaps in the record": "a store left out that comes back, and a crash",
    "corrected where none has it": "a batch that is corrected after a failure, and a kill",
    "ended in its turn": "a batch that always fails, and a crash",
    "cause, then the end": "a batch that always fails, and a crash",
    "kept counts": "a batch that always fails, and a crash",
    "unknown is not done": "a commit that lands late, and a silence",
    "joined inputs": "branches: a crash at any step",
    "every spout hears": "branches: a crash at any step",
    "values one by one": "fed, shared: a kill",
    "values within the commit": "fed: a crash at any step",
    "fed states asked": "fed: a kill",
    "one step for one database": "one database: a kill",
    "kept times": "a crash at any step",
    "windows on time": "windows: a crash at any step",
    "one for each window": "windows: a crash at any step",
    "wishes with their write": "a wish, and a crash at any step",
    "carried out once": "a wish, and a server that lags",
    "wishes that wait": "a wish, and a crash at any step",
    "lasting wishes": "a wish, and a crash at any step",
    "own pause ends": "a pause by the leader, and a kill",
    "paused by operators": "a wish, and a silence",
    "drains begin nothing": "a wish while a third row waits",
    "drained, then paused": "a wish, and a silence",
    "bound for ever": "windows: a crash at any step",
    "outputs asked": "parked, a sink: a commit that lands late",
    "parked, then empty": "parked: a crash at any step",
    "parked over a takeover": "parked: a crash at any step",
    "listed at a takeover": "parked: a crash at any step",
    "released once": "parked and released",
    "released over a takeover": "parked and released: a kill",
    "positions of what is parked": "parked and released, learned: a kill",
    "stored rows released": "parked and released, opaque",
    "parts apart": "bisected and released",
    "bisected as listed": "bisected and released",
    "trials undone": "bisected and released",
    "decided once": "parked twice, several messages in a turn",
    "decided unseen": "parked twice, several messages in a turn, a server that lags",
    "bad rows fixed": "a row that raises twice, and a kill",
    "bad rows with the intent": "a row that raises twice, and a kill",
    "letters taken out": "letters released: a kill",
    "letters released once": "letters released twice, and bad again",
}
"""For each rule that needs no clock, the scope with a counterexample where it is off."""

SEED_GATE: dict[tuple[str, ...], str | None] = {
    ("own deadline",): None,
    ("tail replays",): None,
    ("stored extents",): None,
    ("texts of this moment",): None,
    ("reconciliation", "txids in order"): "a store restored from the past",
    ("kept commits",): "a store loses commits",
}
"""The others are caught by some seed; with the damage that makes them matter. A pair stands in for each other."""


@frozen
class Explored:
    """One scope, perhaps without a rule, and what was found."""

    scope: str
    off: str | None
    violation: str | None
    worlds: int
    steps: int
    seconds: float
    is_complete: bool

    @property
    def is_as_wanted(self) -> bool:
        """Safe with all rules, and to the end; not safe without one."""
        return self.violation is not None if self.off else self.violation is None and self.is_complete

    def __str__(self) -> str:
        found = self.violation or ("safe, and never stuck" if self.is_complete else "not explored to its end")
        without = f', without "{self.off}"' if self.off else ""
        return f"{self.worlds:7} worlds {self.steps:7} steps {self.seconds:6.1f} s  {self.scope}{without}: {found}"


def explored(job: tuple[str, str | None]) -> Explored:
    """Explore one scope, perhaps without a rule."""
    logging.disable(logging.CRITICAL)
    name, off = job
    began, explorer = time.monotonic(), Explorer({**SCOPES, **SEARCHED}[name], Rules([off] if off else []))
    violation = explorer.run()
    seconds = time.monotonic() - began
    found = str(violation) if violation else None
    return Explored(name, off, found, len(explorer.seen), explorer.steps, seconds, explorer.is_complete)


def explore_all(workers: int) -> Iterator[Explored]:
    """Every scope with all rules in force, then each rule switched off in the scope that needs it."""
    jobs: list[tuple[str, str | None]] = [(name, None) for name in SCOPES]
    jobs += [(name, rule) for rule, name in GATE.items()]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(explored, jobs)
