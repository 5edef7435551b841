"""The two halves of a spout over a spool: batches are ranges of its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa
from attrs import define, field

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.batch_coordinator import CursorCoordinator
from coordinators.values.canonical import Json
from trident_py.errors import FailedException, SpoutError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter
from trident_py.spouts.spool.files import SpoolDirectory
from trident_py.spouts.spool.log import Position, SpoolRange, end_of
from trident_py.spouts.spool.records import DamagedSpoolError, Record, range_hash, read_range
from trident_py.spouts.spool.spool import Spool, check_identity


class SpoolBatch(TypedDict):
    """A batch: ranges of the files of a spool, which ``spool`` identifies."""

    spool: str
    ranges: list[SpoolRange]


@define(kw_only=True)
class SpoolCoordinator(CursorCoordinator[SpoolBatch]):
    """Defines batches of the records in a spool.

    The first batch of all is empty: its definition names the spool. Nothing is accepted before it is stored. So a later
    leader knows which spool it must find.

    Attributes:
        spool: of this leadership.
        lag_name: the name of the source in the lag.
        bytes_max: the most bytes of a batch, unless one record has more.
    """

    spool: Spool
    lag_name: str
    bytes_max: int
    _token: str | None = field(default=None, init=False)  # of the spool, as stored
    _found: str | None = field(default=None, init=False)  # the same, once it is open
    _position: Position = field(factory=Position, init=False)
    _rows_max: int | None = field(default=None, init=False)

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Continue after the last batch."""
        stored: Any = cursors
        self._token = stored.get("spool")
        self._position = Position(*stored.get("position", ("", 0)))

    def moved(self, metadata: SpoolBatch) -> Mapping[str, Json]:
        """Return the identity of the spool, and the end of the batch."""
        end = end_of(metadata["ranges"])
        return {"spool": metadata["spool"], **({"position": [end.file, end.offset]} if end else {})}

    def limit_batches(self, max_rows: int | None) -> None:
        """Limit batches to ``max_rows`` rows, unless one record has more."""
        self._rows_max = max_rows

    def lag(self) -> Mapping[str, int]:
        """Return the number of rows that no batch has."""
        return {self.lag_name: self.spool.unread_rows}

    def is_ready(self, txid: int) -> bool:
        """Return whether something was received, or the spool isn't named yet."""
        self._opened()
        return self._token is None or self.spool.has_unread

    def initialize_transaction(
        self, txid: int, prev_metadata: SpoolBatch | None, curr_metadata: SpoolBatch | None
    ) -> SpoolBatch:
        if curr_metadata is not None:
            self.spool.define(txid, curr_metadata["ranges"])
            return curr_metadata
        is_first, self._token = self._token is None, self._opened()
        ranges = [] if is_first else self.spool.take(txid, self.bytes_max, self._rows_max)
        return SpoolBatch(spool=self._token, ranges=ranges)

    def success(self, txid: int) -> None:
        """Remove files that are no longer needed."""
        self.spool.succeed(txid)

    def close(self) -> None:
        self.spool.close()

    def _opened(self) -> str:
        """Open the spool at the first call; return its token."""
        if self._found is None:
            self._found = self.spool.open(self._token, self._position)
            if self._token is not None:
                self.spool.accept()
        return self._found


def spool_directory(directory: Path | None, name: str, conf: TridentConfig, topology: str) -> SpoolDirectory:
    """Return the files of the spool ``name``, in ``directory`` or in the ``state_dir``."""
    return SpoolDirectory((directory or conf.state_dir) / f"{topology}-spool" / name)


def ensure_same_spool(files: SpoolDirectory, cursors: Mapping[str, Json], context: TopologyContext) -> None:
    """Check that a standby sees the spool of the leader with these cursors.

    Raises:
        SpoutError: it doesn't.
    """
    if token := cursors.get("spool"):
        check_identity(f"topology {context.topology!r}, spout {context.tx_state_id!r}", files, str(token))


@define(kw_only=True)
class SpoolEmitter(Emitter[SpoolBatch]):
    """Emits ranges of a spool, which the driver reads.

    Attributes:
        read: returns the rows of records.
    """

    spool: Spool
    read: Callable[[Sequence[Record]], Iterable[pa.Table]]

    def emit_batch(self, attempt: TransactionAttempt, metadata: SpoolBatch, collector: TridentCollector) -> None:
        self.spool.accept()  # a definition that names the spool is stored
        tables = self.read([record for each in metadata["ranges"] for record in self._records(each)])
        for _, alike in groupby(tables, key=attrgetter("schema")):  # another version may have stored other fields
            collector.emit_arrow(pa.concat_tables(alike))

    def _records(self, each: SpoolRange) -> Sequence[Record]:
        where = f"{self.spool.where}: spool file {each['file']!r} in {self.spool.files.place}"
        fix = "to fix this: restore it from a backup"
        try:
            data = self.spool.files.read(each["file"], each["begin"], each["end"])
        except FileNotFoundError as error:
            raise SpoutError(f"{where} is missing, and a batch has rows of it; {fix}") from error
        except OSError as error:
            raise FailedException(f"{where} can't be read: {error}") from error
        try:
            records = read_range(each["file"], data, each["begin"])
        except DamagedSpoolError as error:
            raise SpoutError(f"{self.spool.where}: {error}") from error
        if range_hash(record.hash for record in records) != each["hash"]:
            raise SpoutError(
                f"{where} has changed between bytes {each['begin']} and {each['end']} since a batch was defined with "
                f"them; {fix}"
            )
        return records
