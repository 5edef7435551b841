"""The rows of windows, kept in a state: all rows that a future window may need.

The last rows of one window, and its progress, are in one value: its head. If rows exceed `SEAL_BYTES`, they move to a
separate slot, which is written again only when no future window needs its rows. So a commit writes one value for each
window that got rows, and seldom another, for windows of any length. Nothing ever has to be removed. Everything is read
from the state in each transaction, so nothing can differ from it after a rollback.

A head is a line of JSON, then rows. Rows are an Arrow record batch without its schema, which preserves every Spark
type. Windows with other rows, or of other sizes, are refused by the name of the column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import evolve, field, frozen
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from trident_py.errors import StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import MapState, State, StateFactory, StateKind
from trident_py.rows.row import Row, rows_of
from trident_py.rows.schema import arrow_schema, arrow_table
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.windows.windows import Advance, ArrivalWindow, Firing, WindowProgress

SEAL_BYTES = 64 * 1024
"""Rows of more bytes go into a slot. Fewer are written with the head, again with each batch."""

KEYS = StructType([StructField("window", StringType(), False), StructField("slot", LongType(), False)])
"""The key fields of a state of windows. ``window`` is the text of the group's values; slot 0 is the head."""

_HEAD = 0
_NAME_CHARS = 24
_JSON = json.JSONEncoder(separators=(",", ":"), check_circular=False)

_Entries: TypeAlias = dict[tuple[str, int], bytes]


@frozen
class _Chunk:
    """Rows stored in a slot."""

    slot: int
    start: int
    stop: int


@frozen
class _Held:
    """The stored content of one window.

    Attributes:
        chunks: the slots in use, in order of their rows.
        slots: the number of slots; a slot in no chunk is free.
        loose: the rows after those of ``chunks``, which are the last ones.
    """

    progress: WindowProgress = WindowProgress()  # noqa: RUF009 - frozen
    chunks: tuple[_Chunk, ...] = ()
    slots: int = 0
    loose: pa.RecordBatch | None = None

    @property
    def loose_start(self) -> int:
        """The number of the first row of ``loose``, counted from the window's first row ever."""
        return self.progress.seen - (self.loose.num_rows if self.loose else 0)

    @property
    def free_slot(self) -> int:
        """The number of a free slot."""
        used = {chunk.slot for chunk in self.chunks}
        return next(slot for slot in range(1, self.slots + 2) if slot not in used)


@frozen(kw_only=True)
class FiredWindows:
    """Windows that fire at once: the trigger and the rows of each, made during iteration.

    A row may be in as many windows as a window has rows, so all at once would need that many times the memory.

    Attributes:
        rows: the rows of all windows.
        first: the number of the first of ``rows``.
    """

    firings: Sequence[Firing] = ()
    rows: Sequence[Row] = ()
    first: int = 0

    def __len__(self) -> int:
        return len(self.firings)

    def __iter__(self) -> Iterator[tuple[int, Sequence[Row]]]:
        for each in self.firings:
            yield each.trigger, self.rows[each.start - self.first : each.stop - self.first]


def value_field(slug: str, made_of: object) -> StructField:
    """Return the value field of a state for windows, with a digest of what their rows depend on in its name."""
    digest = sha256(json.dumps(made_of).encode()).hexdigest()
    return StructField(f"{slug}_{digest[:8]}", BinaryType())


@frozen
class WindowRows:
    """The rows of the windows of one stream, one window for each key.

    Attributes:
        schema: the fields of the rows.
    """

    window: ArrivalWindow
    schema: StructType
    _arrow: pa.Schema = field(init=False, repr=False, eq=False)

    @_arrow.default
    def _arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema)

    @property
    def value(self) -> StructField:
        """The value field of the state, named after the windows' kind and sizes, and a digest of the rows' fields."""
        fields = [(each.name, each.dataType.simpleString()) for each in self.schema.fields]
        return value_field(self.window.slug, fields)

    def feed(
        self, state: MapState[bytes], batch: Mapping[str, Sequence[Sequence[Any]]], now: int
    ) -> dict[str, FiredWindows]:
        """Add rows to windows, and fire those that are due.

        Args:
            state: a state with the fields `KEYS` and `value`, in a transaction.
            batch: the rows for each key; empty if only time passes.
            now: the time in microseconds since the epoch.

        Returns:
            The windows that fired, for each key of ``batch``, in order.
        """
        held = self._heads(state, list(batch))
        steps = {key: self.window.advance(held[key].progress, len(rows), now) for key, rows in batch.items()}
        sealed = self._sealed(state, held, steps)
        fired: dict[str, FiredWindows] = {}
        entries: _Entries = {}
        for key, new in self._tables(batch).items():
            before, step = held[key], steps[key]
            loose = [*([before.loose] if before.loose else []), *new]
            fired[key] = self._fired(step, [*sealed[key], *loose])
            if new or step.after != before.progress:
                entries |= self._kept(key, before, step, loose)
        if entries:
            state.multi_put(list(entries), list(entries.values()))
        return fired

    def next_firing_at(self, state: MapState[bytes], key: str) -> int | None:
        """Return when the rows of ``key`` fire next if no more come; None if they don't fire by time."""
        return self.window.next_firing_at(self._heads(state, [key])[key].progress)

    def _tables(self, batch: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, list[pa.RecordBatch]]:
        """Convert the rows of each key to Arrow at once: with few rows for each key, it takes a third of the time."""
        whole = arrow_table(list(chain.from_iterable(batch.values())), self.schema)
        found, start = {}, 0
        for key, rows in batch.items():
            found[key] = whole.slice(start, len(rows)).to_batches() if rows else []
            start += len(rows)
        return found

    def _heads(self, state: MapState[bytes], keys: Sequence[str]) -> dict[str, _Held]:
        stored = state.multi_get([(key, _HEAD) for key in keys])
        return {key: self._head(value) if value else _Held() for key, value in zip(keys, stored, strict=True)}

    def _head(self, value: bytes) -> _Held:
        line, _, rows = bytes(value).partition(b"\n")
        found = json.loads(line)
        return _Held(
            WindowProgress(
                found["seen"],
                found["time"],
                tuple((time, first) for time, first in found["panes"]),
                found.get("ahead", 0),
            ),
            tuple(_Chunk(*chunk) for chunk in found["chunks"]),
            found["slots"],
            self._batch(rows) if rows else None,
        )

    def _sealed(
        self, state: MapState[bytes], held: Mapping[str, _Held], steps: Mapping[str, Advance]
    ) -> dict[str, list[pa.RecordBatch]]:
        """Return the stored chunks of each key that have rows of firing windows."""
        wanted = [
            (key, chunk.slot)
            for key, step in steps.items()
            for chunk in held[key].chunks
            if step.fired and chunk.stop > min(firing.start for firing in step.fired)
        ]
        found: dict[str, list[pa.RecordBatch]] = {key: [] for key in steps}
        for (key, slot), value in zip(wanted, state.multi_get(wanted) if wanted else [], strict=True):
            if value is None:
                raise StateError(f"window {key}: rows {slot} that its head names are gone; restore the state")
            found[key].append(self._batch(value))
        return found

    def _fired(self, step: Advance, batches: list[pa.RecordBatch]) -> FiredWindows:
        """Return the windows that fire; ``batches`` end with the last row of all."""
        if not step.fired:
            return FiredWindows()
        rows = [row for each in batches for row in rows_of(each)]
        return FiredWindows(firings=step.fired, rows=rows, first=step.after.seen - len(rows))

    def _kept(self, key: str, before: _Held, step: Advance, batches: list[pa.RecordBatch]) -> _Entries:
        """Return the values to store for ``key``; ``batches`` are its loose rows, then the new ones."""
        entries: _Entries = {}
        chunks = tuple(chunk for chunk in before.chunks if chunk.stop > step.keep)
        loose = self._joined(batches, step.keep - before.loose_start)
        after = _Held(step.after, chunks, before.slots, loose)
        if loose is not None and loose.nbytes > SEAL_BYTES:
            chunk = _Chunk(after.free_slot, after.loose_start, step.after.seen)
            entries[key, chunk.slot] = _bytes(loose)
            after = _Held(step.after, (*chunks, chunk), max(before.slots, chunk.slot))
        entries[key, _HEAD] = _stored(after)
        return entries

    def _joined(self, batches: list[pa.RecordBatch], drop: int) -> pa.RecordBatch | None:
        """Return all rows except the first ``drop``, in one batch; None if no row is left."""
        table = pa.Table.from_batches(batches, self._arrow).slice(max(0, drop)).combine_chunks()
        return table.to_batches()[0] if table.num_rows else None

    def _batch(self, value: bytes) -> pa.RecordBatch:
        return pa.ipc.read_record_batch(pa.py_buffer(value), self._arrow)


def _stored(held: _Held) -> bytes:
    progress = held.progress
    line = {
        "seen": progress.seen,
        "time": progress.time,
        "panes": progress.panes,
        "chunks": [(chunk.slot, chunk.start, chunk.stop) for chunk in held.chunks],
        "slots": held.slots,
        **({"ahead": progress.ahead} if progress.ahead else {}),
    }
    rows = _bytes(held.loose) if held.loose is not None else b""
    return _JSON.encode(line).encode() + b"\n" + rows


def _bytes(batch: pa.RecordBatch) -> bytes:
    stored: bytes = batch.serialize().to_pybytes()
    return stored


@frozen
class LocalWindows(StateFactory):
    """Keeps windows in ``<topology>-windows.db`` of the ``state_dir``, by `SQLiteState`, with a table for each name."""

    guarantee = "exactly-once"
    kind = StateKind.FENCED

    topology: str
    name: str
    _fields: tuple[StructType, StructField] | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"SQLiteState({self.topology}-windows.db in the state_dir, table={self.table!r})"

    @property
    def table(self) -> str:
        """The table for ``name``; each name has a different table."""
        readable = re.sub(r"[^a-z0-9]", "_", self.name.lower())[:_NAME_CHARS]
        return f"w_{readable}_{sha256(self.name.encode()).hexdigest()[:8]}"

    def for_fields(self, keys: StructType, value: StructField) -> LocalWindows:
        return evolve(self, fields=(keys, value))

    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> State:
        """Return the state; its directory is created if it is missing."""
        if self._fields is None:
            raise StateError(f"{self!r} keeps windows only; only window() tells it which")
        conf.state_dir.mkdir(parents=True, exist_ok=True)
        factory = SQLiteState(conf.state_dir / f"{self.topology}-windows.db", table=self.table)
        return factory.for_fields(*self._fields).make_state(conf, metrics, partition_index, num_partitions)
