"""Where a topology's nodes are in ZooKeeper, and what the small ones hold. Pure.

::

    <root>/<topology>/identity   uuid and incarnation
    <root>/<topology>/epoch      who claimed the topology last; never removed, its version is the fence
    <root>/<topology>/leader     who leads at this moment; ephemeral
    <root>/<topology>/record     the head of the record
    <root>/<topology>/blobs/…    what the head names
"""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import quote

from attrs import asdict, field, frozen
from attrs.validators import instance_of

from coordinators.errors import MetadataError

C = TypeVar("C")


@frozen
class TopologyPaths:
    """The nodes of one topology, all below ``base``."""

    base: str

    @property
    def identity(self) -> str:
        """Holds a `StoredIdentity`."""
        return f"{self.base}/identity"

    @property
    def epoch(self) -> str:
        """Holds an `EpochClaim`."""
        return f"{self.base}/epoch"

    @property
    def leader(self) -> str:
        """Holds a `Leader`."""
        return f"{self.base}/leader"

    @property
    def record(self) -> str:
        """Holds the head of the record."""
        return f"{self.base}/record"

    @property
    def blobs(self) -> str:
        """The parent of every blob."""
        return f"{self.base}/blobs"

    def blob(self, name: str) -> str:
        """The node of one blob; names carry what users wrote, so everything special is escaped."""
        return f"{self.blobs}/{quote(name, safe='')}"


@frozen
class StoredIdentity:
    """What tells one topology from every other that ever had its name."""

    uuid: str = field(validator=instance_of(str))
    incarnation: int = field(validator=instance_of(int))


@frozen
class EpochClaim:
    """The last leadership: its number, who took it, and a token by which it recognises its own claim."""

    epoch: int = field(validator=instance_of(int))
    owner: str = field(validator=instance_of(str))
    host: str = field(validator=instance_of(str))
    pid: int = field(validator=instance_of(int))

    def __str__(self) -> str:
        return f"epoch {self.epoch} (pid {self.pid} on host {self.host})"


@frozen
class Leader:
    """The process that leads, and since when (ISO 8601, UTC)."""

    host: str = field(factory=socket.gethostname, validator=instance_of(str))
    pid: int = field(factory=os.getpid, validator=instance_of(int))
    started: str = field(factory=lambda: datetime.now(UTC).isoformat(), validator=instance_of(str))

    def __str__(self) -> str:
        return f"pid {self.pid} on host {self.host}, since {self.started}"


def to_bytes(value: StoredIdentity | EpochClaim | Leader) -> bytes:
    """The stored form of ``value``: a JSON object."""
    return json.dumps(asdict(value), ensure_ascii=False).encode()


def parse(kind: type[C], text: str, path: str) -> C:
    """The ``kind`` that was stored as ``text`` at ``path``.

    Raises:
        MetadataError: it is something else.
    """
    try:
        return kind(**json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise MetadataError(
            f"{path} cannot be read ({type(error).__name__}: {error}): {text[:100]!r} is not what this project writes "
            f"there. Nothing is started over; restore the node from a backup"
        ) from error
