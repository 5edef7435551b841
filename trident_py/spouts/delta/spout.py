"""`DeltaSpout`: the rows that are added to a Delta table; each batch is a range of its versions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import Factory, define, field

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from coordinators.values.canonical import Json
from trident_py.errors import ConfigError, FailedException, SpoutError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout
from trident_py.rows.schema import schema_of, shown
from trident_py.spouts.dataframe import DataFrameCoordinator, Range

if TYPE_CHECKING:
    from trident_py.sinks.delta.handle import DeltaHandle
    from trident_py.spouts.delta.log import DataFile, DeltaLog

BATCH_BYTES = 1 << 30
"""The maximum size of a batch's files; a batch has one version at least."""

DRIVER_BYTES = 256 << 10
"""The maximum size of files that are read on the driver, because a Spark job would take longer."""


class DeltaSpout(ITridentSpout[Range]):
    """Emits the rows that are added to a Delta table, by the library ``deltalake``.

    A batch is a range of versions. A version never changes, so a batch is exact. Compactions add no rows, and are
    skipped. If a version removes or changes rows, the topology ends with an error that names it. Spark's tasks read the
    files. The page `docs/how-to/delta.md` says more.

    Args:
        uri: of the table, which must exist: a path that all machines see, or a URL.
        start_version: the first version to emit rows of. None: the first batch has all rows of the table.
        storage_options: options of the store for ``deltalake``. They are sent to Spark's tasks, and nowhere else.

    Raises:
        TopologyError: there is no such table, or an argument can't work.
        ConfigError: ``deltalake`` is not installed.
    """

    gives_again: ClassVar[bool] = True

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        start_version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        try:
            from trident_py.sinks.delta.staging import Storage
            from trident_py.spouts.delta.log import DeltaLog
        except ImportError as error:
            raise ConfigError(f"DeltaSpout needs deltalake ({error}): pip install 'trident-py[delta]'") from error
        if not isinstance(uri, str | os.PathLike) or not os.fspath(uri):
            raise TopologyError(f"a table is a path or a URL that is not empty, not {shown(uri)}")
        if start_version is not None and (not isinstance(start_version, int) or start_version < 0):
            raise TopologyError(f"start_version must be a version from 0 on, or None, not {shown(start_version)}")
        text = os.fspath(uri)
        storage = Storage(text if "://" in text else os.path.abspath(text), dict(storage_options or {}))
        self._log, self._start_version = DeltaLog(storage), start_version
        if not self._log.exists():
            raise TopologyError(
                f"there is no Delta table at {storage.uri!r}; its fields are needed to declare a stream"
            )
        if start_version is not None and start_version > 1 + (newest := self._log.table().version()):
            raise TopologyError(
                f"the table {storage.uri!r} is at version {newest}, before start_version={start_version}"
            )
        self.output_schema = schema_of(self._log.fields())

    def __repr__(self) -> str:
        return f"DeltaSpout({self._log.storage.uri!r})"

    def details(self) -> Mapping[str, Json]:
        """Return the address of the table; the table's id detects another table there."""
        return {"table": self._log.storage.uri}

    def get_coordinator(
        self, tx_state_id: str, conf: TridentConfig, context: TopologyContext
    ) -> BatchCoordinator[Range]:
        """Return a coordinator that looks for new versions."""
        versions = Versions(tx_state_id, self._log)
        start: Json = None if self._start_version is None else versions.offset(self._start_version - 1)
        return DataFrameCoordinator(
            tx_state_id, None, lambda _: versions.latest(), lambda _, start, latest: versions.upto(start, latest), start
        )

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> DeltaEmitter:
        """Return an emitter that reads the files of a range."""
        return DeltaEmitter(tx_state_id, self._log, schema_of(self.output_schema))


class DeltaSnapshotSpout(DeltaSpout):
    """Emits all rows of a Delta table in each batch, as of one version: for a join with a table that changes.

    The newest version is pinned in the definition of a batch before anything is emitted. So each attempt has the same
    rows, even if the table changes meanwhile. It starts no batch by itself: it takes part in those of the other spouts
    of the topology. `docs/how-to/delta.md` has an example.

    The rows are read again for each batch. If a vacuum removes the files of a version that a batch still needs, the
    topology stops and names the file.

    Args:
        uri: as for `DeltaSpout`.
        storage_options: as for `DeltaSpout`.

    Raises:
        TopologyError: there is no such table, or an argument can't work.
        ConfigError: ``deltalake`` is not installed.
    """

    def __init__(self, uri: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(uri, storage_options=storage_options)

    def __repr__(self) -> str:
        return f"DeltaSnapshotSpout({self._log.storage.uri!r})"

    def get_coordinator(
        self, tx_state_id: str, conf: TridentConfig, context: TopologyContext
    ) -> BatchCoordinator[Range]:
        """Return a coordinator that pins the newest version."""
        return PinnedVersions(Versions(tx_state_id, self._log))


@define
class PinnedVersions(BatchCoordinator[Range]):
    """Defines each batch as all rows of the newest version."""

    versions: Versions

    def is_ready(self, txid: int) -> bool:
        return False

    def initialize_transaction(self, txid: int, prev_metadata: Range | None, curr_metadata: Range | None) -> Range:
        return curr_metadata or {"start": None, "end": self.versions.latest()}


@define
class Versions:
    """The versions of a table. An offset is a version and the table's id, which a table in its place would not have."""

    tx_state_id: str
    log: DeltaLog
    _handle: DeltaHandle | None = None

    def latest(self) -> Json:
        """Return the newest version; if another table has replaced the first one, its newest version."""
        from trident_py.sinks.delta.handle import TableReplacedError

        try:
            self._opened().look()
        except TableReplacedError:
            self._handle = None
        return self.offset(self._opened().table.version())

    def offset(self, version: int) -> Json:
        """Return the offset of a version of this table."""
        return {"table": str(self._opened().table.metadata().id), "version": version}

    def _opened(self) -> DeltaHandle:
        from trident_py.sinks.delta.handle import DeltaHandle

        if self._handle is None:
            self._handle = DeltaHandle.open(self.log.storage)
        return self._handle

    def upto(self, start: Any, latest: Any) -> Json:
        """Return the last version of the next batch.

        Raises:
            SpoutError: another table has replaced this one, or an older version was restored.
        """
        if start is None:
            return self.offset(latest["version"])
        if latest["table"] != start["table"] or latest["version"] < start["version"]:
            raise SpoutError(
                f"spout {self.tx_state_id!r}: the Delta table {self.log.storage.uri!r} was at version "
                f"{start['version']} of {start['table']}, and is at version {latest['version']} of {latest['table']}: "
                f"it was replaced; to fix this: restore it, or read the new one with a new topology",
                spout=self.tx_state_id,
            )
        end, size = start["version"], 0
        while end < latest["version"] and size <= BATCH_BYTES:
            size += sum(file.size for file in self.log.added(end + 1))
            if size <= BATCH_BYTES or end == start["version"]:
                end += 1
        return self.offset(end)


@define
class DeltaEmitter(Emitter[Range]):
    """Emits the rows of the files that a range of versions has added, read by tasks."""

    tx_state_id: str
    log: DeltaLog
    fields: Any
    _versions: Versions = field(default=Factory(lambda self: Versions(self.tx_state_id, self.log), True), init=False)

    def emit_batch(self, attempt: TransactionAttempt, metadata: Range, collector: TridentCollector) -> None:
        """Emit the rows of the range, if it belongs to the table that is there.

        Raises:
            SpoutError: another table is there now, or a file is gone.
            FailedException: the table can't be reached.
        """
        from trident_py.spouts.delta.log import FileReader

        try:
            files = self._files(metadata["start"], metadata["end"])
        except SpoutError:
            raise
        except Exception as error:
            self._check_id(metadata["end"])
            raise FailedException(f"the log of {self.log.storage.uri!r} can't be read just now: {error}") from error
        self._check_id(metadata["end"])  # ids are never reused, so the log that was read is this table's
        small = sum(file.size for file in files) <= DRIVER_BYTES
        collector.emit_splits(files, FileReader(self.log.storage, self.fields), on_driver=small)

    def _check_id(self, end: Any) -> None:
        if end is None:
            return
        try:
            found: Any = self._versions.latest()
        except Exception as error:
            raise FailedException(f"the Delta table {self.log.storage.uri!r} can't be read: {error}") from error
        if found["table"] != end["table"]:
            raise SpoutError(
                f"spout {self.tx_state_id!r}: the Delta table {self.log.storage.uri!r} was removed and made again: a "
                f"batch is of the table with the id {end['table']}, and {found['table']} is there; to fix this: "
                f"restore the first one, or read the new one with a new topology"
            )

    def _files(self, start: Any, end: Any) -> list[DataFile]:
        if end is None or start == end:
            return []
        if start is None:
            return self.log.snapshot(end["version"])
        versions = range(start["version"] + 1, end["version"] + 1)
        return [file for version in versions for file in self.log.added(version)]
