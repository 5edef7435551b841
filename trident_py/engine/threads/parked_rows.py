"""The files with the rows of parked transactions, for spouts that can't emit a batch again later."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import socket
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
from attrs import frozen

from coordinators.record.parking import ParkedList, StoredRows
from coordinators.record.store import TopologyIdentity
from trident_py.interfaces.config import TridentConfig
from trident_py.sinks.files.local_path import make_directory, sync

log = logging.getLogger(__name__)

SUFFIX = ".arrow"


class LostRows(Exception):
    """The rows of a parked transaction can't be read: a failure of its release, which is then parked again."""


def parked_directory(topology: str, config: TridentConfig) -> Path:
    """Return where the files of ``topology`` are."""
    return (config.parked_dir or config.state_dir) / f"{topology}-parked"


@frozen
class ParkedRows:
    """The files of one topology, in Arrow's file format; each is written once, and named by the record or removed.

    Attributes:
        owner: identifies the topology among others with the same name and directory.
        directory: shared by all machines on which the topology may run.
    """

    topology: str
    owner: str
    directory: Path

    @classmethod
    def of(cls, topology: TopologyIdentity, config: TridentConfig) -> ParkedRows:
        """Return the files of ``topology`` at the place that ``config`` names."""
        return cls(topology.name, topology.uuid, parked_directory(topology.name, config))

    def store(self, title: str, spout: str, rows: pa.Table) -> StoredRows:
        """Write rows of ``spout`` to the disk; ``title`` becomes a part of the name."""
        make_directory(self.directory)
        readable = re.sub(r"[^A-Za-z0-9-]+", "-", spout)
        name = f"{self.owner}-{title.replace(':', '-')}-{readable}-{secrets.token_hex(4)}{SUFFIX}"
        path = self.directory / name
        with path.open("xb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        sync(path)
        sync(self.directory)
        return StoredRows(
            file=name, host=socket.gethostname(), bytes=path.stat().st_size, hash=_digest(path), rows=rows.num_rows
        )

    def read(self, spout: str, stored: StoredRows) -> pa.Table:
        """Return the stored rows that belong to the entry.

        Raises:
            LostRows: their file is missing, or has another content.
        """
        path = self.directory / stored.file
        found = "is missing"
        if path.is_file():
            if (path.stat().st_size, _digest(path)) == (stored.bytes, stored.hash):
                with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
                    rows = reader.read_all()
                parts = [rows.slice(first, stop - first) for first, stop in stored.runs]
                return pa.concat_tables([rows.slice(0, 0), *parts])
            found = f"is not what was stored, which had {stored.bytes} bytes"
        raise LostRows(
            f"the file {path} with the rows of spout {spout!r} {found}; it was written on {stored.host}. To fix this: "
            f"restore it, or let parked_dir be a directory that all machines share, then release the transaction "
            f"again; or skip it, and its rows never count"
        )

    def warn_of_missing(self, parked: ParkedList) -> None:
        """Warn of each file that is not here, perhaps because another machine wrote it: a release would fail."""
        for entry in parked.entries:
            for spout, stored in entry.stored.items():
                if not (self.directory / stored.file).is_file():
                    log.warning(
                        "topology %s: the rows of parked transaction %d from spout %r are not here: %s was written on "
                        "%s. To fix this: let parked_dir be a directory that all machines share, and bring the file "
                        "there",
                        *(self.topology, entry.txid, spout, self.directory / stored.file, stored.host),
                    )

    def remove_others(self, named: Collection[str]) -> None:
        """Remove the files that are not ``named``, because no record needs them."""
        for path in self.directory.glob(f"{self.owner}-*{SUFFIX}"):
            if path.name not in named:
                log.info("topology %s: removes %s, which belongs to no parked transaction", self.topology, path)
                path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
