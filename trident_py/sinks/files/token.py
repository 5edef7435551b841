"""The token of a transaction's directory: a hidden file in it, which becomes visible with the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

from attrs import field, frozen
from pyspark.sql.types import StructType

from coordinators.values.attempt import CommitToken
from coordinators.values.canonical import other_version
from trident_py.errors import SinkError
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.sinks.files.layout import Layout

NAME = "_token"

VERSION = 1
"""Of the format of these files."""


@frozen(kw_only=True)
class FileToken:
    """The attempt that wrote the rows, its topology, and the layout of the files.

    Attributes:
        uuid: the topology's.
        incarnation: the topology's.
        commit: txid, epoch and attempt id.
        rows: the number of rows.
        layout: the layout of the files.
        fields: the fields of the rows.
    """

    uuid: str
    incarnation: int
    commit: CommitToken
    rows: int = field(eq=False)
    layout: Layout = field(eq=False)
    fields: StructType = field(eq=False)

    @classmethod
    def of(cls, tx: SinkTransaction, rows: int, layout: Layout, fields: StructType) -> Self:
        """Return the token of an attempt."""
        key = tx.key
        return cls(uuid=key.uuid, incarnation=key.incarnation, commit=tx.token, rows=rows, layout=layout, fields=fields)

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Return the token in a transaction's directory; None: it has no token.

        Raises:
            SinkError: it can't be read.
        """
        try:
            text = (directory / NAME).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            found = json.loads(text)
            if found.get("version") != VERSION:
                raise ValueError(other_version(found.get("version", 0), VERSION))
            return cls(
                uuid=found["uuid"],
                incarnation=found["incarnation"],
                commit=CommitToken(found["txid"], found["epoch"], found["attempt"]),
                rows=found["rows"],
                layout=Layout(found["format"], found["partition_by"], found["options"]),
                fields=StructType.fromJson(found["fields"]),
            )
        except Exception as error:
            raise SinkError(
                f"{directory / NAME} can't be read ({error!r}); to fix this: restore the directory from a backup"
            ) from error

    def write(self, directory: Path) -> None:
        """Write it into the directory of its transaction."""
        txid, epoch, attempt = self.commit.txid, self.commit.epoch, self.commit.attempt_id
        facts = {
            "version": VERSION,
            "uuid": self.uuid,
            "incarnation": self.incarnation,
            "txid": txid,
            "epoch": epoch,
            "attempt": attempt,
            "rows": self.rows,
            "format": self.layout.format,
            "partition_by": self.layout.partition_by,
            "options": dict(self.layout.options),
            "fields": self.fields.jsonValue(),
        }
        (directory / NAME).write_text(json.dumps(facts) + "\n", encoding="utf-8")
