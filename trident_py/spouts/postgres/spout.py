"""`PostgresChangesSpout`: the rows of PostgreSQL tables, then each change of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from attrs import define, field

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Json
from coordinators.values.secret import Secret, as_secret
from trident_py.errors import ConfigError, SpoutError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import Emitter, ITridentSpout
from trident_py.rows.schema import arrow_schema, names_of
from trident_py.spouts.postgres.changes import Change, Position, changes_after
from trident_py.spouts.postgres.coordinator import Batch, ChangesCoordinator
from trident_py.spouts.postgres.rows import Layout
from trident_py.spouts.postgres.spool import Spool

if TYPE_CHECKING:
    from trident_py.spouts.postgres.log import ChangeLog, PostgresLog
    from trident_py.states.sql.postgres_client import Target

_NAME_CHARS_MAX = 24


class PostgresChangesSpout(ITridentSpout[Batch]):
    """Emits the rows of the tables of a publication, then each insert, update, delete and truncate, in order of commit.

    The first batches have the rows that were there before: a snapshot at exactly the position at which the replication
    slot begins. Then batches are ranges of PostgreSQL's log. A batch has whole transactions of the database; one that
    is larger than a batch is divided. The slot keeps the log until a batch is committed, so a replay reads the same
    changes again, and the spout is exact.

    Fields: ``_op string``, ``_table string`` if there are several tables, the columns, ``_old struct``, ``_unchanged
    array<string>``, ``_lsn bigint``, ``_n bigint``.

    - ``_op`` is ``snapshot``, ``insert``, ``update``, ``delete`` or ``truncate``.
    - The columns have the values afterwards; a deleted row has its key. Columns of other types, such as arrays and
      ``numeric`` without precision, are strings.
    - ``_old`` has the values before, as far as they are logged: a changed key, or all with ``REPLICA IDENTITY FULL``.
    - ``_unchanged`` names the columns with large values that the update left as they were. These aren't logged.
    - ``_lsn`` is the position of the commit, and ``_n`` the number of the change within the transaction.

    Args:
        dsn: libpq's ``"host=… dbname=…"`` or ``"postgresql://…"``; never printed. The server must be PostgreSQL 15 or
            later with ``wal_level = logical``. The user needs REPLICATION, and SELECT on the tables.
        publication: its name, as in ``CREATE PUBLICATION``. The tables must have a primary key or another replica
            identity, unless only inserts are published.
        max_records_per_batch: the greatest number of changes, or rows of the snapshot, in a batch.
        as_text: columns to read as strings.
        spool: the directory for the snapshot, which every machine sees that may lead. None: ``changes`` in the
            ``state_dir``.

    Raises:
        ConfigError: psycopg is not installed.
        TopologyError: the publication can't be read so.
        StateError: the DSN can't be read, or the database can't be reached.
    """

    def __init__(
        self,
        dsn: str | Secret,
        publication: str,
        *,
        max_records_per_batch: int = 10_000,
        as_text: str | Sequence[str] = (),
        spool: str | Path | None = None,
    ) -> None:
        try:
            from trident_py.spouts.postgres.log import layout_of
            from trident_py.states.sql.postgres_client import Target
        except ImportError as error:
            raise ConfigError(
                f"PostgresChangesSpout needs psycopg ({error}): pip install 'trident-py[changes]'"
            ) from error
        if max_records_per_batch < 1:
            raise TopologyError(f"max_records_per_batch is at least 1, not {max_records_per_batch}")
        self._target: Target = Target(as_secret(dsn))
        self._publication, self._as_text, self._spool = publication, names_of(as_text), spool
        self._most, self._run = max_records_per_batch, uuid4().hex[:12]
        self._layout: Layout = layout_of(self._target, publication, self._as_text)
        self.output_schema = self._layout.schema

    def __repr__(self) -> str:
        return f"PostgresChangesSpout({self._target.shown!r}, {self._publication!r})"

    def identity(self) -> Mapping[str, Json]:
        """Return the publication."""
        return {"publication": self._publication}

    def details(self) -> Mapping[str, Json]:
        """Return the database and the tables."""
        return {"database": self._target.shown, "tables": ", ".join(self._layout.tables)}

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> ChangesCoordinator:
        prefix = _prefix(context.topology, tx_state_id)
        return ChangesCoordinator(
            where=_where(tx_state_id, context),
            log=self._log(tx_state_id, context),
            spool=self._files(prefix, conf),
            layout=self._layout,
            prefix=prefix,
            token=lambda: uuid4().hex[:8],
            most=self._most,
        )

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> ChangesEmitter:
        return ChangesEmitter(
            where=_where(tx_state_id, context),
            log=self._log(tx_state_id, context),
            spool=self._files(_prefix(context.topology, tx_state_id), conf),
            layout=self._layout,
        )

    def _files(self, prefix: str, conf: TridentConfig) -> Spool:
        return Spool(Path(self._spool) if self._spool is not None else conf.state_dir / "changes", prefix)

    def _log(self, tx_state_id: str, context: TopologyContext) -> PostgresLog:
        from trident_py.spouts.postgres.log import PostgresLog

        return PostgresLog(
            where=_where(tx_state_id, context),
            target=self._target,
            publication=self._publication,
            as_text=self._as_text,
            prefix=_prefix(context.topology, tx_state_id),
            run=self._run,
        )


def _where(tx_state_id: str, context: TopologyContext) -> str:
    return f"topology {context.topology!r}, spout {tx_state_id!r}"


def _prefix(topology: str, tx_state_id: str) -> str:
    """Return the beginning of the names of a spout's slots, in the characters that PostgreSQL allows."""
    name = re.sub(r"[^a-z0-9]+", "_", topology.lower())[:_NAME_CHARS_MAX].strip("_")
    digest = blake2b(f"{topology}\0{tx_state_id}".encode(), digest_size=5).hexdigest()
    return f"trident_{name}_{digest}_"


@define(kw_only=True)
class ChangesEmitter(Emitter[Batch]):
    """Emits rows of the snapshot, and changes of the log.

    It continues to read the log where the last batch ended, so a large transaction is decoded once.
    """

    where: str
    log: ChangeLog
    spool: Spool
    layout: Layout
    _changes: Iterator[Change] | None = field(default=None, init=False)  # after `_at`
    _at: Position | None = field(default=None, init=False)

    def emit_batch(self, attempt: TransactionAttempt, metadata: Batch, collector: TridentCollector) -> None:
        try:
            if metadata.get("rows"):
                schema = arrow_schema(self.layout.schema)
                for table in self.spool.read(metadata["slot"], *metadata["rows"]):
                    collector.emit_arrow(table.cast(schema))
            elif metadata.get("count"):
                rows = [row for change in self._read(metadata) for row in self.layout.rows_of(change)]
                collector.emit_arrow(self.layout.arrow(rows))
        except SpoutError as error:
            raise SpoutError(f"{self.where}, attempt {attempt}: {error}") from error

    def close(self) -> None:
        self.log.close()

    def _read(self, batch: Batch) -> list[Change]:
        begin, count, found = Position.of(batch["begin"]), batch["count"], list[Change]()
        try:
            if self._changes is not None and self._at == begin:
                found = list(islice(self._changes, count))
            if len(found) < count:
                begin = found[-1].after if found else begin
                self._changes = changes_after(begin, self.log.read(batch["slot"]))
                found += islice(self._changes, count - len(found))
        except BaseException:
            self._changes = None
            raise
        self._at = found[-1].after if found else None
        if len(found) != count or str(self._at) != batch["end"]:
            raise SpoutError(
                f"the replication slot {batch['slot']} has {len(found)} changes from {batch['begin']} to {self._at}, "
                f"and not {count} to {batch['end']}: another program has moved it; to fix this: `trident reset` this "
                f"topology, which takes a new snapshot, and let no other program use that slot"
            )
        return found
