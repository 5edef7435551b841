"""An Iceberg table for a sink, by pyiceberg: read and committed to, and refused if a commit would not be safe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from attrs import define, field, frozen
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.types import IcebergType, ListType, MapType, StructType
from pyspark.sql import types as t

from trident_py.errors import FailedException, SinkError
from trident_py.interfaces.sinks import CommitToken
from trident_py.rows.schema import arrow_schema
from trident_py.sinks.iceberg.staging import IcebergStorage, PartitionColumn, data_file, made_of
from trident_py.sinks.iceberg.verdicts import catalog_errors
from trident_py.sinks.tables.staging import StagedFile
from trident_py.sinks.tables.table import Conflict, SinkTable
from trident_py.sinks.token import TableToken


@frozen
class StoredToken:
    """A token as a table stores it: the property ``trident.U``, a JSON object, for the topology with the uuid ``U``.

    Each snapshot of ours sets it in the same commit. The summaries of snapshots have it too, for people. Nothing is
    decided by them: snapshots expire, and other programs add their own in between.

    Attributes:
        token: the token.
        snapshot: the id of the snapshot that was committed with it.
    """

    token: TableToken
    snapshot: int

    @classmethod
    def read(cls, uuid: str, properties: Mapping[str, str]) -> StoredToken | None:
        """Return the token of a topology; None: it has no token here.

        Raises:
            SinkError: another program has damaged it.
        """
        text = properties.get(_name(uuid))
        if text is None:
            return None
        try:
            known = json.loads(text)
            return cls(TableToken.of(known), known["snapshot"])
        except (ValueError, TypeError, KeyError) as error:
            raise SinkError(
                f"the table's property {_name(uuid)!r} can't be read ({error!r}), nothing was changed: {text!r}; "
                f"to fix this: restore it"
            ) from error

    def properties(self, uuid: str) -> dict[str, str]:
        """Return the properties in which the table stores the token."""
        return {_name(uuid): json.dumps({**self.token.numbers(), "snapshot": self.snapshot})}


def summary(uuid: str, token: TableToken) -> dict[str, str]:
    """Return the summary of a snapshot."""
    numbers = token.numbers()
    told = {f"trident.{name}": str(numbers[name]) for name in ("txid", "epoch", "attempt", "fence")}
    return {"trident.topology": uuid, **told}


def removed_name(uuid: str) -> str:
    """Return the name of the property by which an operator states that a transaction's rows were removed."""
    return f"{_name(uuid)}.removed"


def shown_commit(commit: CommitToken) -> str:
    """Return a text that identifies one commit of a transaction, and no later one."""
    return f"{commit.txid}:{commit.epoch}:{commit.attempt_id}"


def _name(uuid: str) -> str:
    return f"trident.{uuid}"


FORMAT_VERSION = 2
"""The only supported version. In version 1, and in 3 as pyiceberg checks it, a table that was rolled back accepts the
commit of a late leader."""

EXPIRED_MAX = 1000
"""The maximum number of snapshots that expire with one commit: pyiceberg searches all snapshots for each of them."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@define
class IcebergSinkTable(SinkTable):
    """The table, as of the last look.

    Attributes:
        name: its name in the catalog.
        catalog: changes the table's state, by comparing and swapping.
        expire_after: the age of snapshots that a commit removes; None: none are removed.
    """

    name: str
    catalog: Catalog
    expire_after: timedelta | None = None
    _table: Table = field(init=False)

    @classmethod
    def open(cls, name: str, catalog: Catalog, expire_after: timedelta | None = None) -> IcebergSinkTable | None:
        """Return the table as it is now; None: it does not exist."""
        found = cls(name, catalog, expire_after)
        try:
            found._table = found._loaded()
        except NoSuchTableError:
            return None
        return found

    def _loaded(self) -> Table:
        with catalog_errors(self.name):
            return self.catalog.load_table(self.name)

    @property
    def files(self) -> IcebergStorage:
        """The storage of the table's data."""
        return IcebergStorage.of(self._table.metadata, self._table.io.properties)

    @property
    def layout(self) -> str:
        """An identifier of the table's fields and partitions, for which a file was written."""
        metadata = self._table.metadata
        return f"{metadata.table_uuid}/{metadata.current_schema_id}/{metadata.default_spec_id}"

    @property
    def schema(self) -> Schema:
        return self._table.schema()

    @property
    def partitions(self) -> tuple[PartitionColumn, ...]:
        """The partitions of the table."""
        return PartitionColumn.all_of(self._table.spec(), self._table.schema())

    @property
    def required(self) -> list[str]:
        """The fields that are NOT NULL."""
        return [each.name for each in self._table.schema().fields if each.required]

    def look(self) -> None:
        """Read the commits since the last look; raises `SinkError` if the table is gone."""
        try:
            self._table = self._loaded()
        except NoSuchTableError as error:
            raise SinkError(
                f"the Iceberg table {self.name!r} is gone; to fix this: restore it, or `trident reset` the topology"
            ) from error

    def token(self, uuid: str) -> TableToken | None:
        """Return the token of a topology, from the table's property; None: no token.

        Raises:
            SinkError: the snapshot that was committed with it was rolled back.
        """
        stored = StoredToken.read(uuid, self._table.metadata.properties)
        if stored is None:
            return None
        if self._is_rolled_back(stored.snapshot):
            raise SinkError(
                f"the Iceberg table {self.name!r} was rolled back to before snapshot {stored.snapshot}, and rows that "
                f"this topology has committed are gone; to fix this: make that snapshot the current one again, or "
                f"start the topology under a new name and write to another table"
            )
        return stored.token

    def _is_rolled_back(self, snapshot_id: int) -> bool:
        """Return whether a snapshot exists, but is neither the current one nor an ancestor of it.

        False if snapshots in between have expired.
        """
        known = {each.snapshot_id: each for each in self._table.metadata.snapshots}
        wanted = known.get(snapshot_id)
        if wanted is None:
            return False
        number = wanted.sequence_number or 0
        at = self._table.current_snapshot()
        while at is not None and (at.sequence_number or 0) > number:
            if at.parent_snapshot_id is not None and at.parent_snapshot_id not in known:
                return False
            at = known.get(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
        return at is None or at.snapshot_id != snapshot_id

    def _data_files(self) -> dict[str, DataFile]:
        snapshot, begin = self._table.current_snapshot(), f"{self.files.uri}/"
        manifests = snapshot.manifests(self._table.io) if snapshot else []
        entries = [
            entry
            for manifest in manifests
            if manifest.content == ManifestContent.DATA
            for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
        ]
        paths = {entry.data_file.file_path: entry.data_file for entry in entries}
        return {path.removeprefix(begin): each for path, each in paths.items() if path.startswith(begin)}

    def is_removed(self, uuid: str, commit: CommitToken | None) -> bool:
        """Return whether an operator states that the rows of exactly this commit were removed from the table."""
        return commit is not None and self._table.metadata.properties.get(removed_name(uuid)) == shown_commit(commit)

    def removal_advice(self, uuid: str, commit: CommitToken) -> str:
        """Return instructions for an operator to remove rows of a transaction that the sink can't find."""
        snapshots = [
            each.snapshot_id
            for each in self._table.metadata.snapshots
            if each.summary is not None
            and each.summary.additional_properties.get("trident.topology") == uuid
            and each.summary.additional_properties.get("trident.txid") == str(commit.txid)
        ]
        where = f"which snapshot {snapshots[0]} has added, " if snapshots else ""
        return (
            f"to fix this: delete its rows, {where}by table.delete(…), then table.transaction().set_properties("
            f"{{{removed_name(uuid)!r}: {shown_commit(commit)!r}}}).commit_transaction() says that they are "
            f"removed; then start the topology again"
        )

    @property
    def paths(self) -> list[str]:
        """The files of the current snapshot that are below the folder of its data."""
        return list(self._data_files())

    def rows_of(self, paths: Sequence[str]) -> int:
        files = self._data_files()
        return sum(files[path].record_count for path in paths)

    def commit(self, uuid: str, token: TableToken, staged: Sequence[StagedFile], removed: Sequence[str] = ()) -> None:
        """Make a snapshot that adds files and removes others, and set the token, in one change of the table's state.

        The catalog checks that no other snapshot has become the current one. So a snapshot is made even without rows.

        Raises:
            Conflict: another snapshot has become the current one.
            ConnectionError: the catalog does not answer; the commit may have been made.
            FailedException: the table's fields or partitions have changed since the files were written.
        """
        if any(each.about["layout"] != self.layout for each in staged):
            raise FailedException(
                f"the fields or partitions of the Iceberg table {self.name!r} were changed after rows were written "
                f"for it; they are written again"
            )
        table = _without_retries(self._table)
        files = {path: each for path, each in self._data_files().items() if path in removed} if removed else {}
        transaction = table.transaction()
        update = transaction.update_snapshot(snapshot_properties=summary(uuid, token))
        with update.overwrite() if files else update.merge_append() as snapshot:
            for path in removed:
                snapshot.delete_data_file(files[path])
            for each in staged:
                snapshot.append_data_file(data_file(each, self.files.uri, table.metadata))
        transaction.set_properties(StoredToken(token, snapshot.snapshot_id).properties(uuid))
        self._expire(transaction)
        try:
            with catalog_errors(self.name):
                transaction.commit_transaction()
        except ValueError as error:
            # the state that the catalog has by now doesn't take a snapshot with this number, or a snapshot that should
            # expire is gone; where the state is the same, it is an error of its own
            if self._loaded().metadata_location == self._table.metadata_location:
                raise
            raise Conflict(str(error)) from error

    def _expire(self, transaction: Transaction) -> None:
        """Remove old snapshots in the same change: the oldest first, so the remaining ones are consecutive."""
        if self.expire_after is None:
            return
        metadata, before = self._table.metadata, datetime.now(UTC) - self.expire_after
        kept = {each.snapshot_id for each in metadata.refs.values()}
        ages = [
            _EPOCH + timedelta(milliseconds=each.timestamp_ms)
            for each in metadata.snapshots
            if each.snapshot_id not in kept
        ]
        if old := sorted(age for age in ages if age < before)[:EXPIRED_MAX]:
            ExpireSnapshots(transaction).older_than(old[-1] + timedelta(milliseconds=1)).commit()

    # --- whether rows may be written here -----------------------------------------------------------------------------

    def check(self, partition_by: Sequence[str]) -> None:
        """Check that the table refuses late leaders, and has these partitions; an empty ``partition_by`` accepts any.

        Raises:
            SinkError: one of them is not so.
        """
        version = self._table.metadata.format_version
        if version != FORMAT_VERSION:
            raise SinkError(
                f"the Iceberg table {self.name!r} has format version {version}, in which a rollback would let a late "
                f"leader commit; to fix this: write to a table of version {FORMAT_VERSION}"
            )
        names = [each.name for each in self.schema.fields]
        found = [(each.name, str(each.field.transform)) for each in self.partitions]
        if partition_by and found != [made_of(each, names) for each in partition_by]:
            shown = [str(each) for each in self.partitions]
            raise SinkError(
                f"the Iceberg table {self.name!r} is partitioned by {shown}, not by {list(partition_by)}; to fix "
                f"this: leave partition_by out, or give partition_by={shown!r}"
            )

    def fit(self, fields: t.StructType) -> None:
        """Check that rows of these fields fit the table.

        Raises:
            SinkError: they don't.
        """
        there = {each.name: each for each in self.schema.fields}
        lacking = [each for each in fields.names if each not in there]
        if lacking:
            raise SinkError(
                f"field {lacking[0]!r} is not in the Iceberg table {self.name!r}, which has {list(there)}; to fix "
                f"this: leave it out, or add the column to the table"
            )
        try:
            wanted = pyarrow_to_schema(arrow_schema(fields), self.schema.name_mapping).fields
        except (ValueError, TypeError) as error:
            raise SinkError(f"rows don't fit into the Iceberg table {self.name!r}: {error}") from error
        for each in wanted:
            if not _fits(each.field_type, there[each.name].field_type):
                raise SinkError(
                    f"field {each.name!r} is {each.field_type}, and {there[each.name].field_type} in the Iceberg "
                    f"table {self.name!r}; to fix this: cast it, or give the sink another table"
                )
        self._check_columns(fields)

    def _check_columns(self, fields: t.StructType) -> None:
        for name in self.required:
            if name not in fields.names:
                raise SinkError(f"column {name!r} of the Iceberg table {self.name!r} is NOT NULL, and rows have none")
        for partition in self.partitions:
            if partition.name not in fields.names:
                raise SinkError(
                    f"the Iceberg table {self.name!r} is partitioned by {partition}, and rows have no field "
                    f"{partition.name!r}"
                )


def _without_retries(table: Table) -> Table:
    """Return the same table without retries, so that a late commit is refused with any properties of the table.

    With retries, pyiceberg 0.12 silently repeats a late commit on top of the other commits, even after a new leader has
    taken over.
    """
    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)


def _fits(rows: IcebergType, column: IcebergType) -> bool:
    """Return whether values of one type are values of another, apart from ids and comments."""
    match rows, column:
        case ListType(), ListType():
            return rows.element_required >= column.element_required and _fits(rows.element_type, column.element_type)
        case MapType(), MapType():
            return (
                rows.value_required >= column.value_required
                and _fits(rows.key_type, column.key_type)
                and _fits(rows.value_type, column.value_type)
            )
        case StructType(), StructType():
            pairs = list(zip(rows.fields, column.fields, strict=False))
            return len(rows.fields) == len(column.fields) and all(
                ours.name == theirs.name
                and ours.required >= theirs.required
                and _fits(ours.field_type, theirs.field_type)
                for ours, theirs in pairs
            )
    return rows == column
