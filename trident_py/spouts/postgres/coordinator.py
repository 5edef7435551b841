"""The coordinator of a `PostgresChangesSpout`: takes the snapshot, then divides the log into batches.

The order of its steps, so that a crash between any two of them loses nothing and repeats nothing:

1. Without a stored origin, drop every slot and snapshot of the spout: nothing was defined with them.
2. Create a slot under a new name; write the rows of its snapshot into a file.
3. Define the first batch, which has the origin: slot, position, publication, and the hash of the file.
4. Define ranges of the file, then ranges of the log.
5. Delete the file and advance the slot only by batches whose success was received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict

from attrs import define, evolve, field

from coordinators.values.batch_coordinator import CursorCoordinator
from coordinators.values.canonical import Json
from trident_py.errors import SpoutError
from trident_py.rows.schema import arrow_schema
from trident_py.spouts.postgres.changes import Change, Cutter, Position, changes_after
from trident_py.spouts.postgres.pgoutput import Relation
from trident_py.spouts.postgres.rows import SNAPSHOT, Layout, TextRow
from trident_py.spouts.postgres.spool import Spool, SpoolFile
from trident_py.spouts.postgres.tables import differences
from trident_py.spouts.rest import Rest

if TYPE_CHECKING:  # it needs psycopg
    from trident_py.spouts.postgres.log import ChangeLog, Look

BATCH_BYTES_MAX = 64 << 20
"""A batch ends with the change that reaches so many bytes."""

RELEASED_BYTES_MIN = 1 << 20
"""While a long log is read, the slot is advanced in steps of so many bytes."""

IDLE_BYTES = 16 << 20
"""If the log has grown by so many bytes without a change of the tables, an empty batch moves the position."""

PORTIONS = 2
"""The number of portions of the snapshot that are written between two answers to the driver."""


class Origin(TypedDict):
    """Where a spout began.

    Attributes:
        slot: the name of the slot, and of the snapshot's file.
        begin: the position of the slot then.
        identity: of the publication then.
        rows: the number of rows of the snapshot.
        sha256: the hash of its file.
    """

    slot: str
    begin: str
    identity: dict[str, Json]
    rows: int
    sha256: str


class Batch(TypedDict, total=False):
    """A batch: rows of the snapshot, or changes of the log; without ``slot``, it is empty.

    Attributes:
        origin: only in the first batch that has a slot.
        rows: numbers of the first row and after the last one, in the snapshot.
        begin, end: positions in the log.
        count: the number of changes between them.
    """

    slot: str
    origin: Origin
    rows: list[int]
    begin: str
    end: str
    count: int


@define(kw_only=True)
class ChangesCoordinator(CursorCoordinator[Batch]):
    """Defines batches.

    Attributes:
        where: names the topology and the spout, in errors.
        prefix: of the names of its slots.
        token: returns a text that was not used before.
        most: the greatest number of changes of a batch.
    """

    where: str
    log: ChangeLog
    spool: Spool
    layout: Layout
    prefix: str
    token: Callable[[], str]
    most: int
    _origin: Origin | None = field(default=None, init=False)
    _row: int = field(default=0, init=False)  # of the snapshot, if the log was not begun
    _position: Position | None = field(default=None, init=False)  # in the log
    _next: Batch | None = field(default=None, init=False)
    _work: _Work = field(factory=lambda: _Work(), init=False)

    def restore(self, cursors: Mapping[str, Json]) -> None:
        """Continue after the last batch."""
        stored: Mapping[str, Any] = cursors
        self._origin = stored.get("origin")
        self._move(stored.get("position", {}))

    def moved(self, metadata: Batch) -> Mapping[str, Json]:
        """Return the end of the batch, and where the spout began if this is the first one."""
        found: dict[str, Any] = {"origin": metadata["origin"]} if "origin" in metadata else {}
        if "rows" in metadata:
            found["position"] = {"row": metadata["rows"][1]}
        elif "end" in metadata:
            found["position"] = {"log": metadata["end"]}
        return found

    def _move(self, position: Mapping[str, Any]) -> None:
        self._row = position.get("row", self._row)
        if "log" in position:
            self._position = Position.of(position["log"])

    def limit_batches(self, max_rows: int | None) -> None:
        """Limit batches to ``max_rows`` changes or rows."""
        self._next, self._work = None, evolve(self._work, limit=max_rows, cutter=None)

    def has_pending_input(self) -> bool:
        """Return whether the snapshot is being written."""
        return self._work.snapshot is not None

    def is_ready(self, txid: int) -> bool:
        """Return whether there is a batch. While the snapshot is written, each call writes a part of it."""
        if self._next is None:
            with self._work.rest.looking():
                try:
                    self._next = self._found()
                except SpoutError as error:
                    raise SpoutError(f"{self.where}: {error}") from error
        return self._next is not None

    def initialize_transaction(self, txid: int, prev_metadata: Batch | None, curr_metadata: Batch | None) -> Batch:
        if curr_metadata is None:
            curr_metadata, self._next = self._next or Batch(), None
            moved: Mapping[str, Any] = self.moved(curr_metadata)
            self._origin = moved.get("origin", self._origin)
            self._move(moved.get("position", {}))
        self._work.defined[txid] = curr_metadata
        return curr_metadata

    def success(self, txid: int) -> None:
        """Remember how far batches are committed; the slot is advanced with the next look."""
        defined = self._work.defined
        for each in [each for each in defined if each <= txid]:
            batch = defined.pop(each)
            if "end" in batch:
                self._work.done = Position.of(batch["end"])
            elif self._origin is not None and batch.get("rows") and batch["rows"][1] == self._origin["rows"]:
                self._work.done = Position.of(self._origin["begin"])

    def close(self) -> None:
        self.log.close()

    def _found(self) -> Batch | None:
        if self._origin is None:
            return self._begun()
        if not self._work.is_swept:
            self._continue(self._origin)
        if self._position is None and self._row < self._origin["rows"]:
            end = min(self._origin["rows"], self._row + self._most)
            return Batch(slot=self._origin["slot"], rows=[self._row, end])
        return self._range(self._origin)

    @property
    def _most(self) -> int:
        return self.most if self._work.limit is None else min(self.most, self._work.limit)

    # --- the beginning ------------------------------------------------------------------------------------------------

    def _begun(self) -> Batch | None:
        if self._work.snapshot is None:
            for slot in self.log.slots():
                self.log.drop(slot)
            self.spool.sweep()
            self._work.snapshot = self._origins()
        try:
            origin = next((each for each in islice(self._work.snapshot, PORTIONS) if each), None)
        except BaseException:
            self._work.snapshot = None
            raise
        if origin is None:
            return None
        self._work.snapshot, self._work.is_swept = None, True
        return Batch(slot=origin["slot"], origin=origin, rows=[0, min(origin["rows"], self._most)])

    def _origins(self) -> Iterator[Origin | None]:
        """Yield the origin at the end; before, None for each portion of the snapshot that was written."""
        slot = f"{self.prefix}{self.token()}"
        snapshot = self.log.create(slot, self.layout)
        file = SpoolFile(self.spool, slot, arrow_schema(self.layout.schema))
        for table, values in snapshot.rows:
            names = self.layout.tables[table].names
            rows = [
                TextRow(
                    op=SNAPSHOT,
                    table=table,
                    at=Position(snapshot.lsn - 1, number),
                    new=dict(zip(names, row, strict=True)),
                )
                for number, row in enumerate(values, file.rows + 1)
            ]
            file.write(self.layout.arrow(rows))
            yield None
        digest = file.complete()
        yield Origin(
            slot=slot,
            begin=str(Position(snapshot.lsn)),
            identity=snapshot.identity,
            rows=file.rows,
            sha256=digest,
        )

    def _continue(self, origin: Origin) -> None:
        for slot in self.log.slots():
            if slot != origin["slot"]:
                self.log.drop(slot)
        self.spool.sweep(keep=origin["slot"])
        if self._position is None and self._row < origin["rows"]:
            self.spool.check(origin["slot"], origin["sha256"])
        self._work.is_swept = True

    # --- the log ------------------------------------------------------------------------------------------------------

    def _range(self, origin: Origin) -> Batch | None:
        begin = self._position or Position.of(origin["begin"])
        try:
            changes = self._checked(self._changes(origin, begin))
        except BaseException:
            self._work.cutter = None
            raise
        end = changes[-1].after if changes else Position(self._work.looked)
        if not changes and end.lsn - begin.lsn < IDLE_BYTES:
            return None
        return Batch(slot=origin["slot"], begin=str(begin), end=str(end), count=len(changes))

    def _changes(self, origin: Origin, begin: Position) -> list[Change]:
        """Return the next changes, of the log that is being read or of what was added since."""
        work = self._work
        if work.cutter is not None:
            if found := work.cutter.next_batch(self._most):
                self._release(origin, RELEASED_BYTES_MIN)
                return found
            work.cutter, work.looked = None, work.upto
        self._release(origin, 1)
        work.upto = self._look(origin, begin).flushed
        if work.upto == work.looked:
            return []
        work.cutter = Cutter(changes_after(begin, self.log.read(origin["slot"])), BATCH_BYTES_MAX)
        found = work.cutter.next_batch(self._most)
        self._look(origin, begin)  # if the slot was moved before it was read, it is noticed now
        if not found:
            work.cutter, work.looked = None, work.upto
        return found

    def _checked(self, changes: list[Change]) -> list[Change]:
        """Return the changes before the first one of a table that doesn't fit any more."""
        for number, change in enumerate(changes):
            try:
                if change.relations is not self._work.relations:
                    for relation in change.relations.values():
                        self.layout.check(relation)
                self._work.relations = change.relations
            except SpoutError:
                if not number:
                    raise
                self._work.cutter = None
                return changes[:number]
        return changes

    def _release(self, origin: Origin, bytes_min: int) -> None:
        done, work = self._work.done, self._work
        if done is not None and done.lsn - work.released >= bytes_min:
            self.log.advance(origin["slot"], done.lsn)
            self.spool.sweep()
            work.released = done.lsn

    def _look(self, origin: Origin, begin: Position) -> Look:
        slot, look = origin["slot"], self.log.look(origin["slot"])
        again = "`trident reset` this topology, which takes a new snapshot"
        if look.identity is None:
            raise SpoutError(f"the publication was dropped, and changes may be missing; to fix this: {again}")
        if look.identity != origin["identity"]:
            altered = "; ".join(differences(origin["identity"], look.identity))
            raise SpoutError(
                f"the publication was altered, and changes may be missing: {altered}; to fix this: {again}"
            )
        if look.confirmed is None:
            raise SpoutError(f"the replication slot {slot} is gone, and changes are missing; to fix this: {again}")
        if look.is_lost:
            raise SpoutError(
                f"the server has removed the log that the replication slot {slot} needs, as max_slot_wal_keep_size "
                f"says; to fix this: {again}, and raise that limit"
            )
        if look.confirmed > begin.lsn:
            raise SpoutError(
                f"the replication slot {slot} was moved to {Position(look.confirmed)} by another program, and changes "
                f"after {begin} are missing; to fix this: {again}, and let no other program use that slot"
            )
        return look


@define
class _Work:
    """The knowledge of a process, next to the positions.

    Attributes:
        rest: the pauses between looks.
        limit: an operator's limit of rows.
        snapshot: the snapshot that is being written.
        is_swept: whether slots and files of earlier beginnings are gone.
        cutter: the log that is being read.
        upto: where the log ended before it was read.
        looked: where the log ended when it was last read to the end.
        relations: the tables that were checked last.
        defined: the batches that have no success yet.
        done: the position that is committed.
        released: the position up to which the slot was advanced.
    """

    rest: Rest = field(factory=Rest)
    limit: int | None = None
    snapshot: Iterator[Origin | None] | None = None
    is_swept: bool = False
    cutter: Cutter | None = None
    upto: int = 0
    looked: int = 0
    relations: Mapping[int, Relation] = field(factory=dict)
    defined: dict[int, Batch] = field(factory=dict)
    done: Position | None = None
    released: int = 0
