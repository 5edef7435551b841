"""A topology's nodes in ZooKeeper: where they are, what the small ones hold, and the steps that change them. Pure.

::

    <root>/<topology>/identity   uuid and incarnation
    <root>/<topology>/epoch      who claimed the topology last; never removed, its version is the fence
    <root>/<topology>/leader     who leads at this moment; ephemeral
    <root>/<topology>/record     the head of the record
    <root>/<topology>/blobs/…    what the head names
    <root>/<topology>/wishes/…   what operators wish and nobody has carried out
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from attrs import asdict, field, frozen
from attrs.validators import instance_of

from coordinators.status.candidate import Leader
from coordinators.values.errors import MetadataError

C = TypeVar("C")

ANY_VERSION = -1
"""For nodes that another step of the same atomic write guards."""

REQUEST_BYTES_MAX = 1024 * 1024 - 16 * 1024
"""The server cuts the connection of a request of 1 MiB (``jute.maxbuffer``), with no word why; the rest is margin."""

STEP_OVERHEAD_BYTES = 100


@frozen
class Znode:
    """What a node holds, how often it was written since it was created, and when last.

    Attributes:
        modified: by the servers' clock, in milliseconds since 1970.
        created: the number of the write that created it; tells which of two nodes came first.
    """

    data: bytes
    version: int
    modified: int = 0
    created: int = 0

    @property
    def text(self) -> str:
        """The data as text; damage shows as characters that no checksum and no JSON lets pass."""
        return self.data.decode(errors="replace")


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
        """Holds a `coordinators.status.candidate.Leader`."""
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
        """Return the node of one blob; names carry what users wrote, so everything special is escaped."""
        return f"{self.blobs}/{quote(name, safe='')}"

    @property
    def wishes(self) -> str:
        """The parent of every wish."""
        return f"{self.base}/wishes"

    def wish(self, id: str) -> str:
        """Return the node of one wish."""
        return f"{self.wishes}/{id}"


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


def to_bytes(value: StoredIdentity | EpochClaim | Leader) -> bytes:
    """Return the stored form of ``value``: a JSON object. What has a default is left out where it has no other value.

    Earlier releases don't know it.
    """
    return json.dumps(asdict(value, filter=lambda field, each: each != field.default), ensure_ascii=False).encode()


def parse(kind: type[C], text: str, path: str) -> C:
    """Return the ``kind`` that was stored as ``text`` at ``path``.

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


# --- the steps of an atomic write -------------------------------------------------------------------------------------


@frozen
class Check:
    """The node exists at this version."""

    path: str
    version: int

    def add_to(self, request: Any) -> None:
        """Make this a step of a kazoo transaction."""
        request.check(self.path, self.version)


@frozen
class Create:
    """The node does not exist; it is made. An ephemeral one is gone when the session ends."""

    path: str
    data: bytes
    ephemeral: bool = False

    def add_to(self, request: Any) -> None:
        """Make this a step of a kazoo transaction."""
        request.create(self.path, self.data, ephemeral=self.ephemeral)


@frozen
class Put:
    """The node exists at this version; its data is replaced."""

    path: str
    data: bytes
    version: int

    def add_to(self, request: Any) -> None:
        """Make this a step of a kazoo transaction."""
        request.set_data(self.path, self.data, self.version)


@frozen
class Remove:
    """The node exists at this version; it is removed."""

    path: str
    version: int

    def add_to(self, request: Any) -> None:
        """Make this a step of a kazoo transaction."""
        request.delete(self.path, self.version)


Step = Check | Create | Put | Remove


def ensure_fits(who: str, steps: Sequence[Step], acl_bytes: int) -> None:
    """Return if the server takes ``steps`` at once, with access control lists of ``acl_bytes`` on what is created.

    Raises:
        MetadataError: it would cut the connection; names the largest of them.
    """
    if bytes_of(steps, acl_bytes) <= REQUEST_BYTES_MAX:
        return
    sizes = {step.path: _bytes_of(step, acl_bytes) for step in steps}
    largest = sorted(sizes, key=lambda path: -sizes[path])[:3]
    parts = ", ".join(f"{_shown(path)} ({sizes[path]:,} bytes)" for path in largest)
    raise MetadataError(
        f"{who}: one write of {sum(sizes.values()):,} bytes is above the {REQUEST_BYTES_MAX:,} that ZooKeeper takes; "
        f"largest are {parts}. Let the spout describe its batches more briefly, or make them smaller"
    )


def _shown(path: str) -> str:
    """Return the last name of ``path`` as it was given, without the digest of a blob."""
    return unquote(path.rpartition("/")[2]).partition("=")[0]


def bytes_of(steps: Iterable[Step], acl_bytes: int) -> int:
    """Return how much ``steps`` are in one request, or in what the servers make of it, at most."""
    return sum(_bytes_of(step, acl_bytes) for step in steps)


def _bytes_of(step: Step, acl_bytes: int) -> int:
    data = step.data if isinstance(step, Create | Put) else b""
    acl = acl_bytes if isinstance(step, Create) else 0
    return len(data) + len(step.path.encode()) + STEP_OVERHEAD_BYTES + acl
