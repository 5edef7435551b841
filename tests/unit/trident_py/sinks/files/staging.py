"""Transactions for the tests of the directory protocol, written without Spark."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql.types import StructType

from trident_py import SinkTransaction, TopologyKey, TransactionAttempt, TransactionKey
from trident_py.rows.schema import schema_of
from trident_py.sinks.files.directory import TransactionDirectory
from trident_py.sinks.files.layout import Layout
from trident_py.sinks.files.token import FileToken

TOPOLOGY = TopologyKey("words", "9510caa8", 1)
FIELDS: StructType = schema_of("word string")


def transaction(txid: int, attempt: int = 0, epoch: int = 1, topology: TopologyKey = TOPOLOGY) -> SinkTransaction:
    key = TransactionKey(topology.uuid, topology.incarnation, txid)
    return SinkTransaction(key, TransactionAttempt(txid, attempt), epoch)


def token(tx: SinkTransaction, rows: int = 1, layout: Layout | None = None) -> FileToken:
    return FileToken.of(tx, rows, layout or Layout("json"), FIELDS)


def staged(directory: TransactionDirectory, tx: SinkTransaction, *words: str) -> Path:
    """Stage rows as Spark leaves them: a file with its checksum, and a mark that the job has ended."""
    draft = directory.draft(tx)
    draft.mkdir(parents=True)
    for name in ("_SUCCESS", ".part-00000-1.json.crc"):
        (draft / name).touch()
    file = draft / "part-00000-1.json"
    file.write_text("".join(json.dumps({"word": word}) + "\n" for word in words))
    return directory.stage(tx, [file], token(tx, len(words)))


def words(path: Path) -> list[str]:
    """What a reader of ``path`` sees, in order of the transactions."""
    found = sorted(path.glob("txid=*/**/[!_.]*.json"), key=lambda file: int(file.parent.name.removeprefix("txid=")))
    return [json.loads(line)["word"] for file in found for line in file.read_text().splitlines()]
