"""The inventory of a spout: each file that was read or left out, in shards that only grow in number and are merged.

A shard is a file that never changes, in a place that all leaders see. Its name has the hash of its content. The record
of the topology has only the names of the shards, in the metadata of each batch and in the cursors. So the record stays
small, however many files were read.

A batch adds a shard before its definition is stored. So a crash leaves at most shards that no record names. Small
shards are merged with the new one, as in a log-structured merge tree. The former ones are removed when the batch has
succeeded, because until then a new leader might continue from the batch before.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

from attrs import define, field, frozen

from coordinators.values.canonical import Json
from trident_py.errors import FailedException, SpoutError

log = logging.getLogger(__name__)

SHARD_BYTES_MAX = 8 * 1024 * 1024
"""Larger shards are not merged: some 80 000 names, which take 30 MB of memory while they are read."""

_DIGEST_BYTES = 16
_OWNER_BYTES = 6

Entries = Mapping[str, str]
"""For each path, the `mark` of the file that was read; empty: it was left out."""


class ShardFiles(Protocol):
    """Files that appear whole and never change. Every method may raise an `OSError` or a `FailedException`."""

    @property
    def place(self) -> str:
        """Where they are, for people."""
        ...

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def write_new(self, name: str, data: bytes) -> bool:
        """Make a file with this content, durable before its name appears; return False if there is one already."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...


@frozen
class Shard:
    """A shard: the name of its file, ``<owner>-<epoch>-<hash>``, and its size in bytes.

    The epoch keeps it apart from a file with the same content that an earlier leader has left, and that is removed.
    """

    name: str
    size: int

    @classmethod
    def of(cls, owner: str, epoch: int, data: bytes) -> Shard:
        """Return the shard with this content, which the leader of ``epoch`` writes."""
        return cls(f"{owner}-{epoch:010}-{blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()}", len(data))

    @property
    def owner(self) -> str:
        """The token of the inventory."""
        return self.name.partition("-")[0]

    def has(self, data: bytes) -> bool:
        """Return whether this is its content."""
        owner, epoch, _ = self.name.split("-")
        return Shard.of(owner, int(epoch), data) == self


def merged_shards(shards: Sequence[Shard], size: int) -> int:
    """Return how many of the last shards to merge with ``size`` bytes of new entries.

    Afterwards, each small shard has more than twice the bytes of the next one. So there are few shards, and an entry is
    written a few times only.
    """
    count = 0
    for shard in reversed(shards):
        if shard.size > 2 * size or shard.size + size > SHARD_BYTES_MAX:
            break
        size += shard.size
        count += 1
    return count


@define(kw_only=True)
class Inventory:
    """The shards of one spout, as one leader sees them. Used by one thread.

    Attributes:
        where: names topology and spout in errors.
        epoch: of the leadership.
        shards: those of the last batch that was defined, in the order in which their entries were added.
    """

    where: str
    files: ShardFiles
    epoch: int
    shards: Sequence[Shard] = ()
    _unneeded: dict[int, list[str]] = field(factory=dict, init=False)
    """By transaction, the files that are not needed after its success."""
    _has_looked: bool = field(default=False, init=False)

    @property
    def stored(self) -> list[Json]:
        """The form in the metadata of a batch."""
        return [[shard.name, shard.size] for shard in self.shards]

    def restore(self, stored: Json) -> None:
        """Continue from the shards of the last batch.

        Raises:
            SpoutError: this isn't their stored form.
        """
        self.shards = parse_shards(self.where, stored)

    def entries(self) -> Iterator[Entries]:
        """Yield the entries of each shard, in the order in which they were added.

        Raises:
            SpoutError: a shard is missing or damaged.
            FailedException: it can't be read now.
        """
        for shard in self.shards:
            yield self._read(shard)

    def add(self, txid: int, entries: Entries) -> None:
        """Store the entries of the batch of ``txid``. If it fails, nothing was added.

        Raises:
            SpoutError: a shard is missing or damaged.
            FailedException: they can't be stored now.
        """
        if not entries:
            return
        kept = len(self.shards) - merged_shards(self.shards, len(_encoded(entries)))
        replaced = self.shards[kept:]
        whole = dict[str, str]()
        for shard in replaced:
            whole |= self._read(shard)
        data = _encoded({**whole, **entries})
        owner = self.shards[0].owner if self.shards else secrets.token_hex(_OWNER_BYTES)
        new = Shard.of(owner, self.epoch, data)
        try:
            orphans = [] if self._has_looked else self._orphans()
            self.files.write_new(new.name, data)
        except OSError as error:
            raise FailedException(f"{self.where}: {self.files.place} can't be written: {error}") from error
        self._has_looked = True
        self._unneeded[txid] = [*orphans, *(shard.name for shard in replaced)]
        self.shards = [*self.shards[:kept], new]

    def succeed(self, txid: int) -> None:
        """Remove the files that are not needed after the success of ``txid``, the record of which is durable."""
        try:
            for each in [each for each in self._unneeded if each <= txid]:
                for name in self._unneeded[each]:
                    self.files.remove(name)
                del self._unneeded[each]
        except (OSError, FailedException) as error:  # the next success tries again
            log.warning("%s: files that nothing needs stay in %s: %s", self.where, self.files.place, error)

    def check(self) -> None:
        """Check that all shards are here.

        Raises:
            SpoutError: one isn't.
            FailedException: the place can't be read now.
        """
        try:
            here = set(self.files.names()) if self.shards else set()
        except OSError as error:
            raise FailedException(f"{self.where}: {self.files.place} can't be read: {error}") from error
        for shard in self.shards:
            if shard.name not in here:
                raise self._missing(shard)

    def _orphans(self) -> list[str]:
        """Return files of earlier leaders that no record names.

        If a newer leader has files already, the definition of this batch is refused. So it never succeeds, and they
        stay.
        """
        if not self.shards:
            return []
        needed = {shard.name for shard in self.shards}
        ours = f"{self.shards[0].owner}-"
        return [name for name in self.files.names() if name.startswith(ours) and name not in needed]

    def _read(self, shard: Shard) -> dict[str, str]:
        try:
            data = self.files.read(shard.name)
        except FileNotFoundError as error:
            raise self._missing(shard) from error
        except OSError as error:
            raise FailedException(
                f"{self.where}: {shard.name!r} in {self.files.place} can't be read: {error}"
            ) from error
        if not shard.has(data):
            raise SpoutError(
                f"{self.where}: {shard.name!r} in {self.files.place}, which has the names of files that were read, was "
                f"damaged; to fix this: restore it from a backup"
            )
        found: dict[str, str] = json.loads(data)
        return found

    def _missing(self, shard: Shard) -> SpoutError:
        return SpoutError(
            f"{self.where}: {self.files.place} lacks {shard.name!r}, which has the names of files that were read; to "
            f"fix this: restore it from a backup, or, if another machine has it, give FileSpout a directory that all "
            f"machines share on which the topology may run"
        )


def parse_shards(where: str, stored: Json) -> list[Shard]:
    """Return the shards with this stored form.

    Raises:
        SpoutError: it is no such form.
    """
    found = list[Shard]()
    for each in stored if isinstance(stored, list) else [stored]:
        match each:
            case [str() as name, int() as size]:
                found.append(Shard(name, size))
            case _:
                raise unreadable(where, stored)
    return found


def unreadable(where: str, stored: Json) -> SpoutError:
    """Return the error for a position that can't be read."""
    return SpoutError(
        f"{where}: the names of files that were read are stored as {stored!r}, which this version cannot read; to fix "
        f"this: `trident reset` the topology"
    )


def _encoded(entries: Entries) -> bytes:
    return json.dumps(dict(entries), ensure_ascii=False, separators=(",", ":")).encode()
