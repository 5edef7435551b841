"""The values and timers of keys, kept in a state: a record for each key, an index of timers, and a head.

A record is a line of JSON with the key's timers, then its value as an Arrow record batch, which preserves every Spark
type. The head has the watermark's progress, or the time of the last transaction, and lists the bins of the index.
Everything is read from the state in each transaction, and written under its token.

The index has an entry for the first timer of each key. If that timer is deleted, the entry stays until its time. Then
an entry for the timer that is first by then replaces it. So a timer that is put off with each row costs an entry only
once for each time-out, not for each row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql.types import StructField, StructType

from trident_py.interfaces.states import RemovableMapState
from trident_py.rows.batches import read_batch, write_batch
from trident_py.rows.row import Row, rows_of
from trident_py.rows.schema import arrow_schema, arrow_table
from trident_py.windows.event_store import HEAD, progress_line, progress_of
from trident_py.windows.time_index import StoredBin
from trident_py.windows.watermark import WatermarkProgress
from trident_py.windows.window_store import value_field

_JSON = json.JSONEncoder(separators=(",", ":"), check_circular=False)


@frozen
class KeyedHead:
    """The head of a state of keys.

    Attributes:
        progress: the progress of the watermark, in event time.
        time: the time of the last transaction, in microseconds since the epoch.
        bins: the bins of the index of timers.
    """

    progress: WatermarkProgress = field(factory=WatermarkProgress)
    time: int | None = None
    bins: Mapping[int, StoredBin] = field(factory=dict)

    @property
    def first(self) -> int | None:
        """The time of the first entry of the index, which may be before that of the first timer."""
        return min((each.least for each in self.bins.values()), default=None)


@define
class KeyRecord:
    """The stored data of one key. Times are in microseconds since the epoch.

    Attributes:
        value: the value, or None.
        timers: the times of the timers that are set.
        entries: the times of the key's entries in the index; the least is at or before the first timer.
    """

    value: Row | None = None
    timers: set[int] = field(factory=set)
    entries: set[int] = field(factory=set)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return self.value is None and not self.timers and not self.entries

    @property
    def missing_entry(self) -> int | None:
        """The time of the entry that the index lacks, or None."""
        first = min(self.timers, default=None)
        return None if first is None or first >= min(self.entries, default=first + 1) else first


@frozen(kw_only=True)
class KeyedStore:
    """The records of the keys of one stream.

    Attributes:
        schema: the fields of a value.
        made_of: the facts that the stored data depends on, for the state's name.
    """

    schema: StructType
    made_of: Sequence[Any] = ()
    _arrow: pa.Schema = field(init=False, repr=False, eq=False)

    @_arrow.default
    def _arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema)

    @property
    def value(self) -> StructField:
        """The value field of the state, with a digest of the facts that the stored data depends on."""
        fields = [(each.name, each.dataType.simpleString()) for each in self.schema.fields]
        return value_field("keyed", [fields, *self.made_of])

    def head(self, state: RemovableMapState[bytes]) -> KeyedHead:
        """Return the head, or that of an empty state."""
        (value,) = state.multi_get([HEAD])
        if value is None:
            return KeyedHead()
        found = json.loads(bytes(value))
        bins = {name: StoredBin(full, least) for name, full, least in found["bins"]}
        return KeyedHead(progress_of(found), found["time"], bins)

    def put_head(self, state: RemovableMapState[bytes], head: KeyedHead) -> None:
        """Store the head."""
        bins = [(name, each.full, each.least) for name, each in head.bins.items()]
        line = {**progress_line(head.progress), "time": head.time, "bins": bins}
        state.multi_put([HEAD], [_JSON.encode(line).encode()])

    def read(self, state: RemovableMapState[bytes], keys: Sequence[str]) -> dict[str, KeyRecord]:
        """Return the record of each key."""
        records: dict[str, KeyRecord] = {}
        with_value, batches = [], []
        for key, stored in zip(keys, state.multi_get([(key, 0) for key in keys]), strict=True):
            records[key] = record = KeyRecord()
            if stored is None:
                continue
            line, _, rows = bytes(stored).partition(b"\n")
            record.timers, record.entries = map(set, json.loads(line))
            if rows:
                with_value.append(record)
                batches.append(read_batch(rows, self._arrow))
        for record, value in zip(with_value, rows_of(pa.Table.from_batches(batches, self._arrow)), strict=True):
            record.value = value
        return records

    def check(self, record: KeyRecord) -> None:
        """Check the value of a record.

        Raises:
            TypeError: it doesn't have the declared types.
        """
        arrow_table([] if record.value is None else [record.value], self.schema)

    def write(self, state: RemovableMapState[bytes], records: Mapping[str, KeyRecord]) -> None:
        """Store records, and remove those that are empty.

        Raises:
            TypeError: a value doesn't have the declared types.
        """
        gone = [(key, 0) for key, record in records.items() if record.is_empty]
        left = {(key, 0): record for key, record in records.items() if not record.is_empty}
        values = [record.value for record in left.values() if record.value is not None]
        table, start, entries = arrow_table(values, self.schema), 0, []
        for record in left.values():
            line = _JSON.encode([sorted(record.timers), sorted(record.entries)]).encode() + b"\n"
            if record.value is not None:
                line += write_batch(table.slice(start, 1))
                start += 1
            entries.append(line)
        if entries:
            state.multi_put(list(left), entries)
        if gone:
            state.multi_remove(gone)
