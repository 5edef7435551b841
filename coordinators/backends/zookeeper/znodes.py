"""A topology's nodes in ZooKeeper: their paths, the contents of the small ones, and the steps that change them. Pure.

Below ``<root>/<topology>``:

- ``identity``: uuid and incarnation.
- ``epoch``: the last claim of leadership; never removed, its version is the fence.
- ``leader``: the current leader; ephemeral.
- ``record``: the head of the record.
- ``blobs/…``: the blobs that the head names.
- ``wishes/…``: the operators' wishes that were not carried out yet.
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
"""Any version; for nodes that another step of the same atomic write guards."""

REQUEST_BYTES_MAX = 1024 * 1024 - 16 * 1024
"""The maximum size of a request.

The server drops the connection at 1 MiB (``jute.maxbuffer``) without a reason; the rest is margin.
"""

STEP_OVERHEAD_BYTES = 100


@frozen
class Znode:
    """The data of a node, how often it was written since it was created, and when last.

    Attributes:
        modified: by the servers' clock, in milliseconds since 1970.
        created: the number of the write that created it; orders nodes by their creation.
    """

    data: bytes
    version: int
    modified: int = 0
    created: int = 0

    @property
    def text(self) -> str:
        """The data as text; damage becomes characters that fail every checksum and JSON parser."""
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
        """Return the node of one blob; names contain texts of users, so all special characters are escaped."""
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
    """The identity that distinguishes a topology from every other one that ever had its name."""

    uuid: str = field(validator=instance_of(str))
    incarnation: int = field(validator=instance_of(int))


@frozen
class EpochClaim:
    """The last leadership: its number, its process, and a token by which the process recognizes its claim."""

    epoch: int = field(validator=instance_of(int))
    owner: str = field(validator=instance_of(str))
    host: str = field(validator=instance_of(str))
    pid: int = field(validator=instance_of(int))

    def __str__(self) -> str:
        return f"epoch {self.epoch} (pid {self.pid} on host {self.host})"


def to_bytes(value: StoredIdentity | EpochClaim | Leader) -> bytes:
    """Return the stored form of ``value``: a JSON object, without the fields that have their default.

    Earlier releases don't know those fields.
    """
    return json.dumps(asdict(value, filter=lambda field, each: each != field.default), ensure_ascii=False).encode()


def parse(kind: type[C], text: str, path: str) -> C:
    """Return the ``kind`` that was stored as ``text`` at ``path``.

    Raises:
        MetadataError: the text is not its stored form.
    """
    try:
        return kind(**json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise MetadataError(
            f"{path} cannot be read ({type(error).__name__}: {error}): {text[:100]!r} is not what this project writes "
            f"there. The topology never starts from the beginning by itself. To fix this: restore the node "
            f"from a backup"
        ) from error


# --- the steps of an atomic write -------------------------------------------------------------------------------------


@frozen
class Check:
    """Requires that the node exists at this version."""

    path: str
    version: int

    def add_to(self, request: Any) -> None:
        """Add this step to a kazoo transaction."""
        request.check(self.path, self.version)


@frozen
class Create:
    """Creates the node, which must not exist. An ephemeral one is removed when the session ends."""

    path: str
    data: bytes
    ephemeral: bool = False

    def add_to(self, request: Any) -> None:
        """Add this step to a kazoo transaction."""
        request.create(self.path, self.data, ephemeral=self.ephemeral)


@frozen
class Put:
    """Replaces the data of the node, which must exist at this version."""

    path: str
    data: bytes
    version: int

    def add_to(self, request: Any) -> None:
        """Add this step to a kazoo transaction."""
        request.set_data(self.path, self.data, self.version)


@frozen
class Remove:
    """Removes the node, which must exist at this version."""

    path: str
    version: int

    def add_to(self, request: Any) -> None:
        """Add this step to a kazoo transaction."""
        request.delete(self.path, self.version)


Step = Check | Create | Put | Remove


def ensure_fits(who: str, steps: Sequence[Step], acl_bytes: int) -> None:
    """Return if the server accepts ``steps`` in one request, with access control lists of ``acl_bytes`` for new nodes.

    Raises:
        MetadataError: the request is too large; names the largest steps.
    """
    if bytes_of(steps, acl_bytes) <= REQUEST_BYTES_MAX:
        return
    sizes = {step.path: _bytes_of(step, acl_bytes) for step in steps}
    largest = sorted(sizes, key=lambda path: -sizes[path])[:3]
    parts = ", ".join(f"{_shown(path)} ({sizes[path]:,} bytes)" for path in largest)
    raise MetadataError(
        f"{who}: one write of {sum(sizes.values()):,} bytes is above the {REQUEST_BYTES_MAX:,} that ZooKeeper takes; "
        f"largest are {parts}. To fix this: let the spout return shorter metadata, or make its batches smaller"
    )


def _shown(path: str) -> str:
    """Return the last name of ``path``, unescaped and without the digest of a blob."""
    return unquote(path.rpartition("/")[2]).partition("=")[0]


def bytes_of(steps: Iterable[Step], acl_bytes: int) -> int:
    """Return the maximum size of ``steps`` in bytes, in one request and in its stored form on the servers."""
    return sum(_bytes_of(step, acl_bytes) for step in steps)


def _bytes_of(step: Step, acl_bytes: int) -> int:
    data = step.data if isinstance(step, Create | Put) else b""
    acl = acl_bytes if isinstance(step, Create) else 0
    return len(data) + len(step.path.encode()) + STEP_OVERHEAD_BYTES + acl
