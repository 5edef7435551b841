"""Leaders that write words to a table of an open format: what tasks stage, without Spark, and what a contract needs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pytest
from attrs import define, field

from trident_py import CommitToken, SinkTransaction, TopologyKey, TransactionAttempt, TransactionKey
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.sinks.tables.staging import StagedFile, WriteTask
from trident_py.sinks.tables.transactions import TableTransactions

TOPOLOGY = TopologyKey("words", "a-uuid", 1)
SCHEMA = "word string, n bigint"
A, B, C = ("a", 1), ("b", 2), ("c", 3)

EVERY_TYPE = (
    "word string, n bigint, b boolean, at timestamp, local timestamp_ntz, day date, price decimal(7, 2), "
    "ratio double, data binary, tags array<string>, seen map<string, int>, s struct<a: int, b: string>"
)
NOON = datetime(2026, 7, 1, 12, 30, 15, 123456)  # noqa: DTZ001 - a local time has no zone
EVERY_VALUE = (
    "wört",
    -1,
    True,
    NOON.replace(tzinfo=UTC),
    NOON,
    date(1900, 1, 1),
    Decimal("1.25"),
    float("inf"),
    b"\x00",
    ["x", None],
    {"a": None},
    (1, None),
)
"""A row of `EVERY_TYPE`."""


def transaction(txid: int, attempt_id: int = 0, epoch: int = 1) -> SinkTransaction:
    key = TransactionKey(TOPOLOGY.uuid, TOPOLOGY.incarnation, txid)
    return SinkTransaction(key, TransactionAttempt(txid, attempt_id), epoch)


@define
class TableLeader:
    """One that writes words to the table at ``path``; it has recovered."""

    path: Path
    epoch: int = 1
    topology: TopologyKey = TOPOLOGY
    schema: str = SCHEMA
    partition_by: tuple[str, ...] = ()
    transactions: TableTransactions[Any] = field(init=False)
    last: CommitToken | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.transactions = self.made()
        self.transactions.fields = schema_of(self.schema)
        self.last = self.transactions.recover(self.topology, self.epoch)

    @abstractmethod
    def made(self) -> TableTransactions[Any]: ...

    @abstractmethod
    def write(self, tx: SinkTransaction, rows: Sequence[tuple[Any, ...]]) -> list[StagedFile]:
        """What one task reports that writes these rows."""

    def staged(self, tx: SinkTransaction, *rows: tuple[Any, ...]) -> list[StagedFile]:
        """What two tasks report that have written every second row."""
        return [file for part in (rows[::2], rows[1::2]) for file in self.write(tx, part)]

    def commit(self, txid: int, *rows: tuple[Any, ...], attempt: int = 0) -> SinkTransaction:
        tx = transaction(txid, attempt, self.epoch)
        self.transactions.commit(tx, self.staged(tx, *rows))
        return tx


class Tables(Protocol):
    """What the module of each format's tables has."""

    @property
    def Leader(self) -> Callable[..., TableLeader]:  # noqa: N802 - a class there
        """One that writes to the table at a path; it has recovered."""

    @property
    def undoes_rewriting(self) -> bool:
        """Whether rows that somebody else has put into other files can be replaced."""

    def untold(self, path: Path) -> TableTransactions[Any]:
        """The transactions of a leader that nobody has told the fields."""

    def rows_in(self, path: Path) -> list[tuple[Any, ...]]:
        """What a reader sees, sorted."""

    def files_in(self, path: Path) -> set[str]:
        """The data files that are there, whether the table knows them or not."""

    def files_of(self, path: Path) -> set[str]:
        """The files of the table."""

    def commits(self, path: Path) -> int:
        """How many commits the table has had."""

    def append(self, path: Path, *rows: tuple[str, int]) -> None:
        """Add rows, as somebody else does."""

    def set_property(self, path: Path) -> None:
        """Change a property of the table, as somebody else does."""

    def rewrite(self, path: Path) -> None:
        """Put the rows into other files, as somebody else does."""

    def clean_up(self, path: Path) -> None:
        """Delete all files that the table doesn't know, whoever still needs them."""

    def lose_answers(self, patch: pytest.MonkeyPatch) -> None:
        """Have each commit be done, and its answer be lost."""


def reports_of(task: WriteTask, rows: Sequence[tuple[Any, ...]], schema: str) -> list[StagedFile]:
    """What ``task`` reports that writes these rows."""
    reports = task(iter(arrow_table(rows, schema_of(schema)).to_batches()))
    return [StagedFile.of(each) for report in reports for each in report.to_pylist()]


def between(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Call ``then()`` once, between the next look at a table and the commit by it."""
    ensure, waiting = TableTransactions._ensure_staged, [then]

    def ensured(self: TableTransactions[Any], *arguments: Any) -> None:
        ensure(self, *arguments)
        if waiting:
            waiting.pop()()

    monkeypatch.setattr(TableTransactions, "_ensure_staged", ensured)
