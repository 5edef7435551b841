"""What a commit changes to take a transaction away that comes again with other rows, also where it was compacted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
from attrs import evolve
from deltalake import DeltaTable

from coordinators.values.canonical import Fingerprint
from trident_py.sinks.delta.staging import Storage, partition_text
from trident_py.sinks.delta.token import app_id
from trident_py.sinks.delta.undo import Entry, History, NotUndoneError, undone
from trident_py.sinks.tables.staging import StagedFile, missing, of_transaction


def taken_away(
    storage: Storage, table: DeltaTable, uuid: str, txid: int
) -> tuple[int, Sequence[str], Sequence[StagedFile]]:
    """Return what takes a transaction of a topology away whose files were compacted since it was committed.

    Returns:
        The version of its commit, the paths of files to remove, and the files that come back in their place.

    Raises:
        NotUndoneError: its rows can't be told from others any more.
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
    """Return the files that a table consists of, but for those of which rows are deleted."""
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
    """Return the files that a version has added, but for those of which it deletes rows."""
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
