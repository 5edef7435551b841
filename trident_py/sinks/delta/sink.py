"""`DeltaSink`: each transaction one commit of a Delta table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pyspark.sql import types as t

from coordinators.values.canonical import Json
from trident_py.errors import ConfigError, TopologyError
from trident_py.rows.schema import check_comparable, names_of, select, shown
from trident_py.sinks.changes import MergeFields, stored_fields
from trident_py.sinks.tables.transactions import FormatSink, check_partitions

if TYPE_CHECKING:
    from trident_py.sinks.delta.transactions import DeltaTransactions

_NO_PARTITION = (t.ArrayType, t.MapType, t.StructType, t.BinaryType)


class DeltaSink(FormatSink):
    """Writes each transaction into a Delta table, in one commit of Delta's, by the library ``deltalake``.

    Readers of any kind see whole transactions, each once, at any time. Other programs may write to the table, too. The
    table is made if it does not exist. The page `docs/how-to/delta.md` says how to read and maintain it.

    Args:
        uri: of the table: a path that all machines see, or a URL such as ``s3://bucket/events``.
        partition_by: fields that the table is partitioned by.
        mode: ``append``; or ``merge``, with which a row replaces the one with the same ``keys``, or is added. Then a
            transaction must have each key once, and no spout of the stream may be opaque. There is one exception: rows
            that are the new values of a SQL state, directly after it and by its own keys. The driver merges.
        keys: the fields by which ``merge`` compares rows; null is a value of theirs.
        sequence_by: for ``merge`` of rows that are changes, as a `PostgresChangesSpout` emits them: the fields that
            give their order. Each replaces or deletes the row of its key. Fields whose names begin with an underscore
            say what a change means, and are not stored.
        deletes: with ``sequence_by``, the condition of the rows that delete, such as ``"_op = 'delete'"``. A row whose
            field of this condition is ``truncate`` empties the table. None: no row deletes.
        merge_schema: whether fields of the rows that the table lacks are added to it.
        compact_every: the number of transactions after which small files of this topology are compacted, on a separate
            thread; None: never. Not with ``merge``.
        storage_options: options of the store for ``deltalake``. They are sent to Spark's tasks, and nowhere else.

    Raises:
        TopologyError: an argument can't work.
        ConfigError: ``deltalake`` is not installed.
    """

    _transactions: DeltaTransactions

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        partition_by: str | Sequence[str] = (),
        mode: Literal["append", "merge"] = "append",
        keys: str | Sequence[str] = (),
        sequence_by: str | Sequence[str] = (),
        deletes: str | None = None,
        merge_schema: bool = False,
        compact_every: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        try:
            from trident_py.sinks.delta.staging import Storage
            from trident_py.sinks.delta.transactions import DeltaTransactions
        except ImportError as error:
            raise ConfigError(f"DeltaSink needs deltalake ({error}): pip install 'trident-py[delta]'") from error
        if mode not in ("append", "merge"):
            raise TopologyError(f"mode must be 'append' or 'merge', not {shown(mode)}")
        if (mode == "merge") != bool(keys):
            raise TopologyError("give keys with mode='merge', by which rows replace others, and with no other mode")
        if mode != "merge" and (sequence_by or deletes):
            raise TopologyError("sequence_by= and deletes= are for mode='merge' only")
        _check_compaction(compact_every, mode)
        if not isinstance(uri, str | os.PathLike) or not os.fspath(uri):
            raise TopologyError(f"a table is a path or a URL that is not empty, not {shown(uri)}")
        text = os.fspath(uri)
        storage = Storage(text if "://" in text else os.path.abspath(text), dict(storage_options or {}))
        changes = MergeFields.of(names_of(sequence_by), deletes) if sequence_by or deletes else None
        self.replaces_by = () if changes else names_of(keys)
        self._transactions = DeltaTransactions(
            names_of(partition_by), storage, merge_schema, names_of(keys), changes, compact_every
        )

    def __repr__(self) -> str:
        return f"DeltaSink({self._transactions.storage.uri!r})"

    @property
    def needs_exact_replays(self) -> bool:  # type: ignore[override]
        """Whether it merges: replaced rows can't be restored."""
        return bool(self._transactions.keys)

    def identity(self) -> Mapping[str, Json]:
        """Return the partitions and the keys of the table, neither of which can change."""
        return {
            "partitions": ", ".join(self._transactions.partition_by),
            "keys": ", ".join(self._transactions.keys),
        }

    def details(self) -> Mapping[str, Json]:
        """Return the address of the table, which may change between two starts.

        A takeover fails if the committed transactions were not moved there.
        """
        return {"table": self._transactions.storage.uri}

    def check_fields(self, fields: t.StructType) -> None:
        """Check that a table of these fields can have the partitions and keys."""
        if self._transactions.changes:
            self._transactions.changes.check(fields, self._transactions.keys)
            fields = stored_fields(fields)
        check_comparable(keys := select(fields, self._transactions.keys))
        _check_keys(keys)
        partitions = select(fields, self._transactions.partition_by).fields
        check_partitions(partitions, _NO_PARTITION)
        if len(partitions) == len(fields.fields):
            raise TopologyError(f"all fields are in partition_by; leave one for the files, of {fields.names}")
        self._transactions.fields = fields

    def close(self) -> None:
        """Wait for a running compaction, for some seconds if it writes many rows."""
        self._transactions.close()


def _check_keys(keys: t.StructType) -> None:
    for each in keys.fields:
        if isinstance(each.dataType, t.ArrayType | t.StructType):
            raise TopologyError(
                f"field {each.name!r} is {each.dataType.simpleString()}, and deltalake can't merge by such a key; to "
                f"fix this: merge by its parts, or by a text of it, as by to_json"
            )


def _check_compaction(every: int | None, mode: str) -> None:
    if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
        raise TopologyError(f"compact_every is a number of transactions, 1 or more, not {shown(every)}")
    if every is not None and mode == "merge":
        raise TopologyError(
            "compact_every goes with mode='append': merging writes other files; to fix this: compact the table by "
            "deltalake's optimize.compact(), one at a time"
        )
