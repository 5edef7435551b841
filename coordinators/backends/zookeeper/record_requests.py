"""From one stored record to the next: the requests that ZooKeeper is sent for it. Pure.

Nearly always it is one request, atomic. Where that would be more than the server takes, the blobs go ahead in requests
of their own. Until the head names them nobody looks at them, so the last request is still the one that changes the
record, whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from coordinators.backends.zookeeper.znodes import (
    ANY_VERSION,
    REQUEST_BYTES_MAX,
    Check,
    Create,
    Put,
    Remove,
    Step,
    TopologyPaths,
    bytes_of,
)
from coordinators.record.record import CoordinatorRecord, EncodedRecord


@frozen
class StoredRecord:
    """A record as it is in ZooKeeper, with the version of its head."""

    record: CoordinatorRecord
    encoded: EncodedRecord
    version: int


@frozen
class RecordRequests:
    """What to send so that a record is replaced.

    Attributes:
        ahead: blobs that may be stored before, in any order, as often as you like.
        last: replaces the record; fails if one of those blobs is not there.
    """

    ahead: Sequence[Sequence[Create]]
    last: Sequence[Step]


def requests_for(
    paths: TopologyPaths,
    fence: Check,
    before: StoredRecord | None,
    after: EncodedRecord,
    *,
    acl_bytes: int,
    carried_out: Sequence[str] = (),
    bytes_max: int = REQUEST_BYTES_MAX,
) -> RecordRequests:
    """Return the requests by which ``after`` replaces ``before``; None: there is no record yet.

    Args:
        paths: the topology's nodes.
        fence: what holds while nobody else leads; the first step of ``last``.
        before: the record as it is stored.
        after: what is to be stored.
        acl_bytes: the size of the access control lists that a new node gets.
        carried_out: the wishes of which ``after`` has the outcomes, and ``before`` hasn't; they go with it.
        bytes_max: what the server takes in one request.
    """
    named: Mapping[str, str] = before.encoded.blobs if before else {}
    head = after.head.encode()
    replace = Put(paths.record, head, before.version) if before else Create(paths.record, head)
    fresh = [Create(paths.blob(name), text.encode()) for name, text in after.blobs.items() if name not in named]
    gone = [Remove(paths.blob(name), ANY_VERSION) for name in named if name not in after.blobs]
    gone += [Remove(paths.wish(wish), ANY_VERSION) for wish in carried_out]
    whole = [fence, replace, *fresh, *gone]
    if not fresh or bytes_of(whole, acl_bytes) <= bytes_max:
        return RecordRequests((), whole)
    there = [Check(step.path, ANY_VERSION) for step in fresh]  # still, as the head that names them is stored
    return RecordRequests(
        list(_filled(fresh, bytes_max - bytes_of([fence], acl_bytes), acl_bytes)), [fence, replace, *there, *gone]
    )


def _filled(steps: Sequence[Create], room: int, acl_bytes: int) -> Iterator[list[Create]]:
    filled: list[Create] = []
    size = 0
    for step in steps:
        bytes_more = bytes_of([step], acl_bytes)
        if filled and size + bytes_more > room:
            yield filled
            filled, size = [], 0
        filled.append(step)
        size += bytes_more
    yield filled
