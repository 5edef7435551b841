"""A Delta table for a sink, by delta-rs: made, read, committed to, and refused if plain files would break it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from attrs import define, evolve
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql.types import StructType

from coordinators.values.canonical import Fingerprint
from trident_py.errors import SinkError
from trident_py.rows.schema import arrow_schema
from trident_py.sinks.delta.handle import DeltaHandle, TableReplacedError
from trident_py.sinks.delta.merging import DELETE, INSERT, KIND, WRITE, MergeSource
from trident_py.sinks.delta.staging import Storage, partition_text
from trident_py.sinks.delta.undo import Entry, History, NotUndoneError, undone
from trident_py.sinks.tables.staging import StagedFile, missing, of_transaction
from trident_py.sinks.tables.table import Conflict, SinkTable
from trident_py.sinks.token import TableToken


def read_token(uuid: str, version_of: Callable[[str], int | None]) -> TableToken | None:
    """Return the token of a topology; None: the topology was never here.

    A Delta table keeps it as versions of application transactions, which each commit writes anew. For the topology with
    the uuid ``U`` they are::

        trident:U              txid of the last transaction; 0: there was none
        trident:U:epoch        the leadership that committed it,
        trident:U:attempt      and the attempt
        trident:U:rows         how many rows it has,
        trident:U:hash         and a hash of them
        trident:U:fence        the epoch of the newest leader
        trident:U:sink         a number that the sink of this leader has drawn
        trident:U:incarnation  of the topology
        trident:U:version      of this format

    Delta refuses a commit if one of them has changed since the sink read the table.

    Args:
        uuid: of the topology.
        version_of: returns the version of an application transaction, or None.

    Raises:
        SinkError: another version of trident_py has stored it.
    """
    found = {name: version_of(app_id(uuid, name)) for name in _NAMES}
    if found["fence"] is None:
        return None
    try:
        return TableToken.of({name: version or 0 for name, version in found.items()})
    except ValueError as error:
        raise SinkError(f"the token of the Delta table can't be read: {error}; nothing was changed") from error


def versions(uuid: str, token: TableToken) -> Mapping[str, int]:
    """Return the version of each application transaction."""
    return {app_id(uuid, name): version for name, version in token.numbers().items()}


_NAMES = ("version", "txid", "epoch", "attempt", "rows", "hash", "fence", "sink", "incarnation")


def app_id(uuid: str, name: str = "txid") -> str:
    """Return the name of an application transaction."""
    return f"trident:{uuid}" if name == "txid" else f"trident:{uuid}:{name}"


def taken_away(
    storage: Storage, table: DeltaTable, uuid: str, txid: int
) -> tuple[int, Sequence[str], Sequence[StagedFile]]:
    """Return the change that removes the rows of a transaction with files that were compacted since.

    Returns:
        The version of its commit, the paths of files to remove, and the files that are restored in their place.

    Raises:
        NotUndoneError: its rows can't be separated from others any more.
    """
    newest, paths = table.version(), [each.path for each in whole_files(table)]
    history = History.read(
        storage,
        newest,
        lambda entry: entry.transactions.get(app_id(uuid)) == txid and bool(of_transaction(uuid, txid, entry.added)),
    )
    try:
        removed, back = undone(history, of_transaction(uuid, txid, history.commit.added), paths)
        known = {each.path: each for entry in history.later for each in _added(entry)}
        if back - known.keys():
            known |= {each.path: each for each in _files_at(storage, history.version)}
        there = [evolve(known[path], path=unquote(path)) for path in back & known.keys()]
        if lost := [*(back - known.keys()), *missing(storage, there)]:
            raise NotUndoneError(f"a vacuum has removed {lost[0]!r}, which was compacted with it")
    except NotUndoneError as error:
        raise NotUndoneError(f"{error}; {_advice(storage, history.version, newest)}") from error
    return history.version, sorted(removed), [known[path] for path in sorted(back)]


def whole_files(table: DeltaTable) -> list[StagedFile]:
    """Return the files of a table, except files with deleted rows."""
    vectors = pa.table(table.deletion_vectors())["filepath"].to_pylist()
    deleted = {path.rpartition("/")[2] for path in vectors}
    actions = pa.table(table.get_add_actions())
    told = [name for name in ("path", "size_bytes", "num_records", "partition") if name in actions.column_names]
    return [
        StagedFile(
            path=row["path"],
            size=row["size_bytes"],
            content=Fingerprint(row["num_records"] or 0, 0),
            about={
                "partition": {name: partition_text(each) for name, each in (row.get("partition") or {}).items()},
                "stats": json.dumps({"numRecords": row["num_records"] or 0}),
            },
        )
        for row in actions.select(told).to_pylist()
        if row["path"].rpartition("/")[2] not in deleted
    ]


def _files_at(storage: Storage, version: int) -> list[StagedFile]:
    return whole_files(DeltaTable(storage.uri, version=version, storage_options=dict(storage.options)))


def _added(entry: Entry) -> list[StagedFile]:
    """Return the files that a version has added, except files with deleted rows."""
    return [
        StagedFile(
            path=path,
            size=each["size"],
            content=Fingerprint(json.loads(each.get("stats") or "{}").get("numRecords", 0), 0),
            about={"partition": each.get("partitionValues") or {}, "stats": each.get("stats")},
        )
        for path, each in entry.added.items()
        if not each.get("deletionVector")
    ]


def _advice(storage: Storage, version: int, newest: int) -> str:
    return (
        f"to fix this: deltalake's `DeltaTable({storage.uri!r}).restore({version - 1})` takes the table back to before "
        f"the transaction, and with it what others have changed in versions {version + 1} to {newest}, which they have "
        f"to do again; then start the topology again"
    )


RETENTION_DAYS_MIN = 7
"""The minimum retention of tokens, in days; a topology that is stopped for longer than a table's retention can't be
started again."""

_WRITABLE = {
    "appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "generatedColumns",
    "identityColumns", "invariants", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck",
}  # fmt: skip
"""Features of a table that plain new files respect, unless one of `_UNWRITABLE` is active."""

_UNWRITABLE = ("delta.columnMapping.mode", "delta.enableRowTracking", "delta.enableInCommitTimestamps")
_OFF = (None, "", "none", "false")
_FIELD_RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.start", "CURRENT_DEFAULT")
_UNITS_IN_DAYS = {"day": 1.0, "hour": 1 / 24, "minute": 1 / 1440, "second": 1 / 86400, "week": 7.0}


@define
class DeltaSinkTable(SinkTable):
    """The table, as of the last look.

    Attributes:
        storage: the place of the table.
    """

    storage: Storage
    _handle: DeltaHandle

    @classmethod
    def open(cls, storage: Storage) -> DeltaSinkTable | None:
        """Return the table as it is now; None: it does not exist."""
        try:
            return cls(storage, DeltaHandle.open(storage))
        except TableNotFoundError:
            return None

    @property
    def _table(self) -> DeltaTable:
        return self._handle.table

    @classmethod
    def create(cls, storage: Storage, fields: StructType, partition_by: Sequence[str]) -> None:
        """Make an empty table.

        Raises:
            Conflict: another program has made it meanwhile.
        """
        schema = Schema.from_arrow(arrow_schema(StructType([_nullable(each) for each in fields.fields])))
        try:
            DeltaTable.create(
                storage.uri, schema, partition_by=list(partition_by), storage_options=dict(storage.options)
            )
        except Exception as error:
            if cls.open(storage) is not None:
                raise Conflict(str(error)) from error
            raise

    @property
    def files(self) -> Storage:
        """The storage of the table."""
        return self.storage

    def look(self) -> None:
        """Read the commits since the last look. If another table has replaced it, read that one, which has no token.

        Raises:
            SinkError: the table is gone.
        """
        try:
            try:
                self._handle.look()
            except TableReplacedError:
                self._handle = DeltaHandle.open(self.storage)
        except TableNotFoundError as error:
            raise SinkError(
                f"the Delta table {self.storage.uri!r} is gone; to fix this: restore it, or `trident reset` the "
                f"topology and give the sink another table"
            ) from error

    def token(self, uuid: str) -> TableToken | None:
        """Return the token of a topology, from its application transactions; None: no token."""
        return read_token(uuid, self._table.transaction_version)

    @property
    def paths(self) -> list[str]:
        """The paths of its files, as written in the log, except files with deleted rows."""
        return [each.path for each in self.whole_files()]

    def rows_of(self, paths: Sequence[str]) -> int:
        """Return the number of rows in its files among ``paths``."""
        actions, wanted = pa.table(self._table.get_add_actions()), set(paths)
        found = zip(actions["path"].to_pylist(), actions["num_records"].to_pylist(), strict=True)
        return sum(rows or 0 for path, rows in found if path in wanted)

    @property
    def required(self) -> list[str]:
        """The fields that are NOT NULL."""
        return [each.name for each in self._table.schema().fields if not each.nullable]

    def commit(self, uuid: str, token: TableToken, staged: Sequence[StagedFile], removed: Sequence[str] = ()) -> None:
        """Add files, remove others, and write the token, in one transaction.

        Raises:
            Conflict: the token has changed since the last look, or another commit conflicts with this one.
        """
        # delta-rs lets files be removed that a compaction has removed already, and its rows would stay
        properties = _properties(uuid, token, only_as_looked_at=bool(removed))
        self._write(staged, removed, properties, data_change=True)

    def _write(
        self, staged: Sequence[StagedFile], removed: Sequence[str], properties: CommitProperties, *, data_change: bool
    ) -> None:
        now = _milliseconds()  # deltalake quotes the paths that it is given, and those of the log are quoted
        adds = [
            AddAction(
                unquote(each.path),
                each.size,
                dict(each.about["partition"]),
                now,
                data_change,
                stats=each.about["stats"],
            )
            for each in staged
        ]
        actions: list[AddAction | RemoveAction] = [
            *(RemoveAction(unquote(path), data_change, now) for path in removed),
            *adds,
        ]
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                partition_by=self._table.metadata().partition_columns,
                commit_properties=properties,
            )
        except CommitFailedError as error:
            raise Conflict(str(error)) from error

    def before(self, uuid: str, txid: int) -> tuple[int, Sequence[str], Sequence[StagedFile]]:
        """Return the change that removes a transaction with files that were compacted since; see `taken_away`."""
        return taken_away(self.storage, self._table, uuid, txid)

    # --- compaction ---------------------------------------------------------------------------------------------------

    @property
    def file_fields(self) -> StructType:
        """The fields in its files: all except the partition fields."""
        fields, partitions = json.loads(self._table.schema().to_json()), self._table.metadata().partition_columns
        return StructType([each for each in StructType.fromJson(fields).fields if each.name not in partitions])

    def whole_files(self) -> list[StagedFile]:
        """Return the files of the table, except files with deleted rows."""
        return whole_files(self._table)

    def compact(self, added: Sequence[StagedFile], removed: Sequence[str]) -> None:
        """Replace files by others with the same rows, if there was no commit since the last look.

        Raises:
            Conflict: there was one; or this compaction was committed, and the commit was sent twice.
        """
        properties = CommitProperties(max_commit_retries=0, custom_metadata={"trident": "compaction"})
        self._write(added, removed, properties, data_change=False)

    def merge(self, uuid: str, token: TableToken, source: MergeSource) -> None:
        """Merge rows or changes, and write the token, in one transaction.

        Raises:
            Conflict: the token has changed since the last look, or rows were changed.
        """
        try:
            has_committed = _has_committed(self._table, source, _properties(uuid, token))
        except CommitFailedError as error:
            raise Conflict(str(error)) from error
        if not has_committed:
            self.commit(uuid, token, [])

    # --- whether rows may be written here -----------------------------------------------------------------------------

    def check(self) -> None:
        """Check that plain files may be added, and that the table keeps the token.

        Raises:
            SinkError: one of them is not so.
        """
        protocol, configuration = self._table.protocol(), self._table.metadata().configuration
        unknown = sorted(set(protocol.writer_features or ()) - _WRITABLE)
        active = [name for name in _UNWRITABLE if configuration.get(name) not in _OFF]
        active += [name for name in configuration if name.startswith("delta.constraints.")]
        active += [
            f"{rule} of field {each.name!r}"
            for each in self._table.schema().fields
            for rule in _FIELD_RULES
            if rule in each.metadata
        ]
        if found := unknown + active:
            raise SinkError(
                f"the Delta table {self.storage.uri!r} has {', '.join(found)}, which rows that are written as plain "
                f"files don't respect; to fix this: write to a table without them, and copy from there by Spark"
            )
        self._check_retention(configuration)

    def _check_retention(self, configuration: Mapping[str, str]) -> None:
        retention = configuration.get("delta.setTransactionRetentionDuration")
        if retention is not None and _days(retention) < RETENTION_DAYS_MIN:
            raise SinkError(
                f"the Delta table {self.storage.uri!r} forgets the tokens of its writers after {retention!r} "
                f"(delta.setTransactionRetentionDuration), and with them which transactions of this topology are "
                f"committed; to fix this: set it to {RETENTION_DAYS_MIN} days or more, or to as long as the topology "
                f"may be stopped"
            )

    def check_layout(self, partition_by: Sequence[str]) -> None:
        """Check that the table has these partitions.

        Raises:
            SinkError: it has others.
        """
        found = list(self._table.metadata().partition_columns)
        if found != list(partition_by):
            raise SinkError(
                f"the Delta table {self.storage.uri!r} is partitioned by {found}, not by {list(partition_by)}; to fix "
                f"this: give the sink partition_by={found!r}"
            )

    def fit(self, fields: StructType, *, merge_schema: bool) -> None:
        """Check that rows of these fields fit the table; with ``merge_schema``, add fields that it lacks.

        Raises:
            SinkError: they don't fit.
        """
        wanted = Schema.from_arrow(arrow_schema(StructType([_nullable(each) for each in fields.fields]))).fields
        there = {each.name: each for each in self._table.schema().fields}
        other = [each for each in wanted if each.name in there and _type(each) != _type(there[each.name])]
        if other:
            name = other[0].name
            raise SinkError(
                f"field {name!r} is {_shown(other[0])}, and {_shown(there[name])} in the Delta table "
                f"{self.storage.uri!r}; to fix this: cast it, or give the sink another table"
            )
        if missing := [name for name in self.required if name not in fields.names]:
            raise SinkError(
                f"column {missing[0]!r} of the Delta table {self.storage.uri!r} is NOT NULL, and rows have no such "
                f"field; to fix this: add it to the rows, or let the column have nulls"
            )
        lacking = [each for each in wanted if each.name not in there]
        if not lacking:
            return
        if not merge_schema:
            raise SinkError(
                f"field {lacking[0].name!r} is not in the Delta table {self.storage.uri!r}, which has {list(there)}; "
                f"to fix this: leave it out, or add it to the table by merge_schema=True"
            )
        try:
            self._table.alter.add_columns(lacking)
        except CommitFailedError as error:
            raise Conflict(str(error)) from error
        self.look()


def _has_committed(table: DeltaTable, source: MergeSource, properties: CommitProperties) -> bool:
    """Merge; return whether this was committed. A merge that changes no row is not."""
    merger = table.merge(
        source.rows, source.condition, source_alias="source", target_alias="target", commit_properties=properties
    )
    merger = merger.when_matched_delete(f"source.{KIND} = '{DELETE}'")
    merger = merger.when_matched_update(dict(source.updates), f"source.{KIND} <> '{DELETE}'")
    merger = merger.when_not_matched_insert(dict(source.inserts), f"source.{KIND} IN ('{WRITE}', '{INSERT}')")
    if source.empties:
        merger = merger.when_not_matched_by_source_delete()
    done = merger.execute()
    return bool(done["num_target_files_added"] or done["num_target_files_removed"])


def _properties(uuid: str, token: TableToken, *, only_as_looked_at: bool = False) -> CommitProperties:
    now = _milliseconds()  # without a time, a table with a retention forgets it at once
    return CommitProperties(
        app_transactions=[Transaction(name, version, now) for name, version in versions(uuid, token).items()],
        max_commit_retries=0 if only_as_looked_at else None,
    )


def _milliseconds() -> int:
    return int(time.time() * 1000)


def _nullable(each: Any) -> Any:
    return type(each)(each.name, each.dataType, True)


def _type(each: Any) -> Any:
    return _plain(json.loads(each.to_json())["type"])


def _shown(each: Any) -> str:
    kind = _type(each)
    return kind if isinstance(kind, str) else str(kind["type"])


def _plain(kind: Any) -> Any:
    """Return a type without its nullability and metadata."""
    if isinstance(kind, list):
        return [_plain(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    return {
        name: _plain(value)
        for name, value in kind.items()
        if name not in {"nullable", "containsNull", "valueContainsNull", "metadata"}
    }


def _days(interval: str) -> float:
    """Return the length in days of an interval of Delta's, such as ``interval 2 weeks``; 0: unknown."""
    parts = re.findall(r"(\d+)\s*([a-z]+?)s?\b", interval.lower())
    return sum(int(count) * _UNITS_IN_DAYS.get(unit, 0.0) for count, unit in parts)
