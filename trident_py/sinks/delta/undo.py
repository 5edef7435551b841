"""Undo of compactions that have moved the rows of a transaction, if a replay of the transaction has other rows.

A compaction replaces files by others with the same rows, and the replaced files stay on the disk until a vacuum. So the
commit that replaces the transaction can undo the compaction, too. It removes the compacted files and restores the
replaced files, except the transaction's own. It reads no rows, and changes no rows of other programs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from trident_py.sinks.delta.handle import log_entry
from trident_py.sinks.delta.staging import Storage


class NotUndoneError(Exception):
    """The rows of the transaction can't be separated from others any more."""


@frozen
class Entry:
    """The changes of one version of the log.

    Attributes:
        operation: the name of the operation.
        added: its ``add`` actions by path, as written in the log.
        removed: its ``remove`` actions by path.
        transactions: the versions of application transactions that it has set.
    """

    operation: str
    added: Mapping[str, Mapping[str, Any]]
    removed: Mapping[str, Mapping[str, Any]]
    transactions: Mapping[str, int]

    @classmethod
    def parse(cls, text: str) -> Entry:
        """Return the entry with this text in the log."""
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]

        def of(kind: str) -> dict[str, Mapping[str, Any]]:
            return {each[kind]["path"]: each[kind] for each in actions if kind in each}

        operation = next((each["commitInfo"].get("operation", "") for each in actions if "commitInfo" in each), "")
        transactions = {each["txn"]["appId"]: each["txn"]["version"] for each in actions if "txn" in each}
        return cls(operation, of("add"), of("remove"), transactions)

    @property
    def moves_rows_only(self) -> bool:
        """Whether no row is new and no row is removed."""
        changes = [*self.added.values(), *self.removed.values()]
        return bool(changes) and not any(each.get("dataChange", True) for each in changes)


@define
class Moves:
    """The files with the rows of a transaction, followed through the commits after it.

    Attributes:
        has: the files that have rows of the transaction.
        compactions: the compactions that have moved some of the rows, in order.
    """

    has: set[str]
    compactions: list[Entry] = field(factory=list)
    _known: set[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._known = set(self.has)

    def follow(self, entry: Entry) -> None:
        """Apply the entry of the next version.

        Raises:
            NotUndoneError: it has rewritten files with rows of the transaction.
        """
        taken = self.has & entry.removed.keys()
        if entry.operation == "RESTORE":
            back = self._known & entry.added.keys()
            self.has = (self.has - taken) | back
            self.compactions = [each for each in self.compactions if each.added.keys() & self.has]
        elif taken and entry.moves_rows_only:
            self.has = (self.has - taken) | entry.added.keys()
            self._known |= entry.added.keys()
            self.compactions.append(entry)
        elif taken and entry.added:
            raise NotUndoneError(f"{entry.operation or 'a commit'} has rewritten {sorted(taken)[0]!r}")
        else:
            self.has -= taken  # whole files were removed, and their rows with them

    def undone(self, live: Collection[str]) -> tuple[set[str], set[str]]:
        """Return the ``live`` files that a commit removes, and the files that it restores, to undo the compactions.

        Raises:
            NotUndoneError: a compacted file is not there any more.
        """
        now = set(live)
        for entry in reversed(self.compactions):
            if gone := entry.added.keys() - now:
                raise NotUndoneError(f"{sorted(gone)[0]!r}, which has rows of it, was changed after it was compacted")
            now = (now - entry.added.keys()) | entry.removed.keys()
        return set(live) - now, now - set(live)


@frozen
class History:
    """The log since a commit.

    Attributes:
        version: the version of the commit.
        commit: the entry of the commit.
        later: the entries after it, in order.
    """

    version: int
    commit: Entry
    later: Sequence[Entry]

    @classmethod
    def read(cls, storage: Storage, newest: int, is_wanted: Callable[[Entry], bool]) -> History:
        """Read the log back from its newest version to the last commit for which ``is_wanted`` is true.

        Raises:
            NotUndoneError: the log doesn't have the commit any more.
        """
        later: list[Entry] = []
        for version in range(newest, -1, -1):
            try:
                with storage.files().open_input_stream(log_entry(version)) as stream:
                    entry = Entry.parse(stream.read().decode())
            except FileNotFoundError:
                break
            if is_wanted(entry):
                return cls(version, entry, later[::-1])
            later.append(entry)
        raise NotUndoneError("the table's log doesn't have its commit any more")


def undone(history: History, own: Collection[str], live: Collection[str]) -> tuple[set[str], set[str]]:
    """Return the ``live`` files that a commit removes to remove a transaction, and the other files that it restores.

    Args:
        history: the log since the transaction was committed.
        own: the files that the transaction added.
        live: the current files of the table.

    Raises:
        NotUndoneError: its rows can't be separated from others any more.
    """
    moves = Moves(set(own))
    for entry in history.later:
        moves.follow(entry)
    removed, back = moves.undone(live)
    return removed | (set(own) & set(live)), back - set(own)
