"""Small sinks, each wrong in the way in which a public one was, and one that is right. All over a SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame

from trident_py import CommitToken, FencedError, SinkTransaction, TopologyKey, TransactionalSink

Rows = list[tuple[Any, ...]]


class Table(TransactionalSink[Rows]):
    """Rows and a token in one database; what to do with them is each sink's own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")

    def create(self) -> None:
        with self.transaction() as db:
            db.execute("CREATE TABLE IF NOT EXISTS words (word TEXT, n INTEGER)")
            db.execute("CREATE TABLE IF NOT EXISTS token (owner TEXT PRIMARY KEY, epoch, txid, by_epoch, attempt)")

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        self.create()
        return None

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> Rows:
        return [tuple(row) for row in frame.collect()]

    def abort(self, tx: SinkTransaction, receipt: Rows | None) -> None:
        pass

    def insert(self, db: sqlite3.Connection, rows: Rows) -> None:
        db.executemany("INSERT INTO words VALUES (?, ?)", rows)

    def store(self, db: sqlite3.Connection, owner: str, tx: SinkTransaction) -> None:
        db.execute(
            "INSERT OR REPLACE INTO token VALUES (?, ?, ?, ?, ?)",
            (owner, tx.epoch, tx.txid, tx.epoch, tx.attempt.attempt_id),
        )

    def stored(self, db: sqlite3.Connection, owner: str) -> CommitToken | None:
        found = db.execute("SELECT txid, by_epoch, attempt FROM token WHERE owner = ?", (owner,)).fetchone()
        return CommitToken(*found) if found and found[0] is not None else None


def read_table(path: Path) -> Sequence[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT word, n FROM words").fetchall()


class RightTable(Table):
    """Rows and token in one transaction, which compares the epoch and the txid."""

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        self.create()
        with self.transaction() as db:
            db.execute("INSERT OR IGNORE INTO token (owner, epoch) VALUES (?, ?)", (topology.uuid, epoch))
            db.execute("UPDATE token SET epoch = ? WHERE owner = ? AND epoch < ?", (epoch, topology.uuid, epoch))
            if db.execute("SELECT epoch FROM token WHERE owner = ?", (topology.uuid,)).fetchone()[0] > epoch:
                raise FencedError("a newer leader writes here")
            return self.stored(db, topology.uuid)

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            if db.execute("SELECT epoch FROM token WHERE owner = ?", (tx.key.uuid,)).fetchone()[0] > tx.epoch:
                raise FencedError("a newer leader writes here")
            last = self.stored(db, tx.key.uuid)
            if last is None or last.txid < tx.txid:
                self.insert(db, receipt)
                self.store(db, tx.key.uuid, tx)


class StagedTable(RightTable):
    """Rows wait in another table for their commit; attempts and leaders leave each other's alone."""

    def create(self) -> None:
        super().create()
        with self.transaction() as db:
            db.execute("CREATE TABLE IF NOT EXISTS staged (txid, epoch, attempt, word, n)")

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> Rows:
        rows = super().prepare(tx, frame)
        with self.transaction() as db:
            db.executemany("INSERT INTO staged VALUES (?, ?, ?, ?, ?)", [(*self.attempt(tx), *row) for row in rows])
        return rows

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with closing(sqlite3.connect(self.path)) as db:
            query = "SELECT word, n FROM staged WHERE txid = ? AND epoch = ? AND attempt = ?"
            rows = db.execute(query, self.attempt(tx)).fetchall()
        super().commit(tx, rows)

    def abort(self, tx: SinkTransaction, receipt: Rows | None) -> None:
        with self.transaction() as db:
            db.execute("DELETE FROM staged WHERE txid = ? AND epoch = ? AND attempt = ?", self.attempt(tx))

    def attempt(self, tx: SinkTransaction) -> tuple[int, int, int]:
        return tx.txid, tx.epoch, tx.attempt.attempt_id


class AbortsWhatIsCommitted(RightTable):
    """An attempt that is given up takes away all rows of its transaction, also those that another one committed."""

    def abort(self, tx: SinkTransaction, receipt: Rows | None) -> None:
        with self.transaction() as db:
            db.execute("DELETE FROM words WHERE word LIKE ?", (f"t{tx.txid}.%",))


class CommitsUnderAFreshName(Table):
    """apache/paimon#9666: each commit has a new random identifier, so nothing recognises a batch that comes again."""

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            self.insert(db, receipt)
            self.store(db, str(uuid4()), tx)


class RemembersInMemory(Table):
    """apache/hudi#6098: the batch is committed, and which one it was is known to the process only."""

    last = 0

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        if tx.txid > self.last:
            with self.transaction() as db:
                self.insert(db, receipt)
            self.last = tx.txid


class NamedByTheJob(Table):
    """apache/iceberg#16008: the last commit is looked up by an identifier of the job, which a restart changes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.job = str(uuid4())

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        self.create()
        with self.transaction() as db:
            return self.stored(db, self.job)

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            last = self.stored(db, self.job)
            if last is None or last.txid < tx.txid:
                self.insert(db, receipt)
                self.store(db, self.job, tx)


class VersionOnly(RightTable):
    """Delta's txnVersion by itself: what is at or below the recorded version is skipped, whoever comes."""

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        self.create()
        with self.transaction() as db:
            return self.stored(db, topology.uuid)

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            last = self.stored(db, tx.key.uuid)
            if last is None or last.txid < tx.txid:
                self.insert(db, receipt)
                self.store(db, tx.key.uuid, tx)


class RestoresRowsOnly(RightTable):
    """delta-io/delta#1813: rows are put back to what they were, and the transaction is still taken for committed."""

    def create(self) -> None:
        super().create()
        with self.transaction() as db:
            db.execute("CREATE TABLE IF NOT EXISTS version (last INTEGER)")

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        token = super().recover(topology, epoch)
        with self.transaction() as db:
            db.execute("DELETE FROM words WHERE rowid > (SELECT coalesce(max(last), 0) FROM version)")
        return token

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        super().commit(tx, receipt)
        with self.transaction() as db:
            db.execute("INSERT INTO version SELECT max(rowid) FROM words")


class InsertsOnly(Table):
    """Storm's JdbcState: rows are inserted, each by itself, and nothing tells of the batch."""

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            for row in receipt:
                db.execute("INSERT INTO words VALUES (?, ?)", row)


class DataThenToken(RightTable):
    """Two transactions, the rows first."""

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            last = self.stored(db, tx.key.uuid)
            if last is None or last.txid < tx.txid:
                self.insert(db, receipt)
        with self.transaction() as db:
            self.store(db, tx.key.uuid, tx)


class TokenThenData(RightTable):
    """Two transactions, the token first."""

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            last = self.stored(db, tx.key.uuid)
            self.store(db, tx.key.uuid, tx)
        if last is None or last.txid < tx.txid:
            with self.transaction() as db:
                self.insert(db, receipt)


class IgnoresToken(RightTable):
    """Rows and token in one transaction, which doesn't look at the token that is there."""

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            self.insert(db, receipt)
            self.store(db, tx.key.uuid, tx)


class SameTxidOnly(RightTable):
    """Skips the last transaction when it comes again, but not the one before that."""

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            last = self.stored(db, tx.key.uuid)
            if last is None or last.txid != tx.txid:
                self.insert(db, receipt)
                self.store(db, tx.key.uuid, tx)


class ForgetsEmptyOnes(RightTable):
    """A batch without rows leaves no token."""

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        if receipt:
            super().commit(tx, receipt)


class VisibleWhenPrepared(RightTable):
    """Rows are written while the batch is processed, and taken away when it is given up."""

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> Rows:
        rows = super().prepare(tx, frame)
        with self.transaction() as db:
            self.insert(db, rows)
        return []

    def abort(self, tx: SinkTransaction, receipt: Rows | None) -> None:
        with self.transaction() as db:
            db.execute("DELETE FROM words WHERE word LIKE ?", (f"t{tx.txid}.%",))


class Waits(RightTable):
    """Commits when somebody says so, which nobody does."""

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        while not self.path.with_suffix(".go").exists():
            pass


class EqualRowsOnce(RightTable):
    """Tells a row that it has by its values, as if no two rows could be equal."""

    def insert(self, db: sqlite3.Connection, rows: Rows) -> None:
        db.execute("CREATE UNIQUE INDEX IF NOT EXISTS one ON words (word, n)")
        db.executemany("INSERT OR IGNORE INTO words VALUES (?, ?)", rows)


class AtLeastOnce(Table):
    """Right as far as it promises: rows come again with a transaction that does."""

    keeps_token = False

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            self.insert(db, receipt)


class LosesReplays(AtLeastOnce):
    """Takes any other attempt than the first for one that it has."""

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        if tx.attempt.attempt_id == 0:
            super().commit(tx, receipt)


class LeavesOut(RightTable):
    """Removes the rows of a transaction that is left out, in the step that stores the token of its empty attempt."""

    def create(self) -> None:
        super().create()
        with self.transaction() as db:
            db.execute("CREATE TABLE IF NOT EXISTS last (n INTEGER)")

    def can_park(self, tx: SinkTransaction) -> bool | None:
        with self.transaction() as db:
            return tx.leaves_nothing(self.stored(db, tx.key.uuid), undoes=True)

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            if db.execute("SELECT epoch FROM token WHERE owner = ?", (tx.key.uuid,)).fetchone()[0] > tx.epoch:
                raise FencedError("a newer leader writes here")
            last = self.stored(db, tx.key.uuid)
            self.ensure_left_out(tx, last)
            if last is not None and tx.parks is not None and last.txid == tx.txid and self.undoes:
                db.execute("DELETE FROM words WHERE rowid IN (SELECT n FROM last)")
                db.execute("DELETE FROM last")
                self.store(db, tx.key.uuid, tx)
            elif last is None or last.txid < tx.txid:
                db.execute("DELETE FROM last")
                before = db.execute("SELECT coalesce(max(rowid), 0) FROM words").fetchone()[0]
                self.insert(db, receipt)
                db.execute("INSERT INTO last SELECT rowid FROM words WHERE rowid > ?", (before,))
                self.store(db, tx.key.uuid, tx)

    undoes = True

    def ensure_left_out(self, tx: SinkTransaction, last: CommitToken | None) -> None:
        tx.ensure_parkable(last, undoes=self.undoes)


class SaysThatItCan(LeavesOut):
    """Says that the rows of a transaction that is left out go, and keeps them."""

    undoes = False

    def ensure_left_out(self, tx: SinkTransaction, last: CommitToken | None) -> None:
        pass


class KeepsWhatIsLeftOut(RightTable):
    """Says that it can't leave a transaction out that it has, and skips the attempt that leaves it out."""

    def can_park(self, tx: SinkTransaction) -> bool | None:
        with self.transaction() as db:
            return tx.leaves_nothing(self.stored(db, tx.key.uuid))


class Replaces(RightTable):
    """A row replaces the one with the same word, also if an earlier attempt of the transaction has written that."""

    replaces_by = ("word",)

    def insert(self, db: sqlite3.Connection, rows: Rows) -> None:
        db.executemany("DELETE FROM words WHERE word = ?", [(word,) for word, _ in rows])
        super().insert(db, rows)

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        with self.transaction() as db:
            if db.execute("SELECT epoch FROM token WHERE owner = ?", (tx.key.uuid,)).fetchone()[0] > tx.epoch:
                raise FencedError("a newer leader writes here")
            last = self.stored(db, tx.key.uuid)
            is_newer = last is not None and last.txid == tx.txid and last < tx.token
            if last is None or last.txid < tx.txid or (tx.replaces and is_newer):
                self.insert(db, receipt)
                self.store(db, tx.key.uuid, tx)


class KeepsTheFirstAttempt(Replaces):
    """Skips each transaction that it has, although its rows are to be replaced."""

    def commit(self, tx: SinkTransaction, receipt: Rows) -> None:
        RightTable.commit(self, tx, receipt)
