"""The record of one topology on a ZooKeeper server: how it is read, and how the leader replaces it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import define, field, frozen

from coordinators.backends.zookeeper.session import Conflict, Unanswered, ZooKeeperSession
from coordinators.backends.zookeeper.znodes import (
    ANY_VERSION,
    REQUEST_BYTES_MAX,
    Check,
    Create,
    EpochClaim,
    Put,
    Remove,
    Step,
    TopologyPaths,
    Znode,
    bytes_of,
    ensure_fits,
    parse,
)
from coordinators.record.record import (
    CoordinatorRecord,
    EncodedRecord,
    KeptPieces,
    blob_names,
    decode,
    encode,
    missing_blobs,
)
from coordinators.record.store import TopologyIdentity
from coordinators.record.wishes import Wish
from coordinators.values.errors import CoordinationLost, FencedError, TridentError

log = logging.getLogger(__name__)


@frozen
class StoredRecord:
    """A record as it is in ZooKeeper, with the version of its head."""

    record: CoordinatorRecord
    encoded: EncodedRecord
    version: int


@frozen
class RecordRequests:
    """The requests that replace a record.

    Attributes:
        ahead: blobs that may be stored before, in any order, any number of times.
        last: replaces the record; fails if one of those blobs is missing.
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
    """Return the requests that replace ``before`` by ``after``; None: there is no record yet.

    Args:
        paths: the topology's nodes.
        fence: true as long as no other process leads; the first step of ``last``.
        before: the record as it is stored.
        after: the record to store.
        acl_bytes: the size of the access control lists of a new node.
        carried_out: the wishes with outcomes that are new in ``after``; they are removed in the same write.
        bytes_max: the largest request that the server accepts.
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


JUDGE_SECONDS = 4.0  # for finding out why the session was lost; after that, the cause stays unknown
READ_TRIES = 50
ORPHANS_MAX = 2000
"""The most blobs that a takeover removes: as many as fit into one request."""


def load(session: ZooKeeperSession, paths: TopologyPaths) -> StoredRecord | None:
    """Return the record of a topology, also while its leader continues to write; None if it has none.

    Raises:
        MetadataError: it cannot be read.
    """
    where = f"{paths.record} on {session.hosts}"
    before: Znode | None = None
    blobs: dict[str, str] = {}
    asked: list[str] = []
    for _ in range(READ_TRIES):
        *nodes, newest = session.read(*map(paths.blob, asked), paths.record)
        if newest is None:
            return None
        blobs |= {name: node.text for name, node in zip(asked, nodes, strict=True) if node}
        # Blobs prove by their content that they belong to a head, also if there is a newer one meanwhile.
        for head in (newest, before):
            if head and not missing_blobs(head.text, blobs, where=where):
                return _stored(head, blobs, where)
        if newest == before:  # its blobs were looked for after it was written, and before it was replaced
            return _stored(newest, blobs, where)  # raises an error that names the missing or damaged blobs
        before, asked = newest, missing_blobs(newest.text, blobs, where=where)
    raise Unanswered(f"{paths.record} was written again each time it was read")


def wishes_of(session: ZooKeeperSession, paths: TopologyPaths, ids: Sequence[str]) -> list[Wish]:
    """Return the wishes with these ``ids`` that still exist, in order of creation."""
    nodes = session.read(*map(paths.wish, ids)) if ids else []
    found = sorted((node.created, wish, node.text) for wish, node in zip(ids, nodes, strict=True) if node)
    return [Wish.parse(wish, text) for _, wish, text in found]


def _stored(head: Znode, blobs: Mapping[str, str], where: str) -> StoredRecord:
    needed = {name: blobs[name] for name in blob_names(head.text, where=where) if name in blobs}
    return StoredRecord(decode(head.text, needed, where=where), EncodedRecord(head.text, needed), head.version)


@define(eq=False)
class ZooKeeperRecordStore:
    """One leadership over the record of one topology: `coordinators.record.store.RecordStore` on a ZooKeeper server.

    Create it with `lead`. Used by one thread, except `ensure_leading`. A `CoordinationLost` of any other method is
    final.

    Attributes:
        claimed_at: when the servers stored the claim, by their clock, in milliseconds since 1970.
    """

    identity: TopologyIdentity
    epoch: int
    _epoch_version: int
    _session: ZooKeeperSession
    _paths: TopologyPaths
    claimed_at: int = 0
    writes: int = field(default=0, init=False)
    _kept: KeptPieces = field(factory=KeptPieces, init=False)
    _stored: StoredRecord | None = field(default=None, init=False)
    _has_read: bool = field(default=False, init=False)
    _fenced: str | None = field(default=None, init=False)

    def read(self) -> CoordinatorRecord | None:
        self._stored = self._session.retry_within_lease(lambda: load(self._session, self._paths))
        if not self._has_read:
            self._remove_orphans()
        self._has_read = True
        return None if self._stored is None else self._stored.record

    def write(self, record: CoordinatorRecord) -> None:
        """Replace the record: one round. If its answer is lost, read the stored record before sending again.

        A record with more new blobs than fit into one request takes a few rounds more; the last round replaces the
        record.
        """
        self._ensure_not_fenced()
        if not self._has_read:
            self.read()
        encoded = encode(record, self._kept)
        requests = self._requests(encoded, self._carried_out(record))
        if requests.ahead:  # else the only one is measured as it is sent
            for steps in (*requests.ahead, requests.last):
                ensure_fits(self._session.who, steps, self._session.access.acl_bytes)
        for creates in requests.ahead:
            self._store_ahead(creates)
        self._replace(encoded, requests.last)
        version = 0 if self._stored is None else self._stored.version + 1
        self._stored = StoredRecord(record, encoded, version)

    def wishes(self, changed: Callable[[object], None]) -> Sequence[Wish]:
        """Return the operators' wishes that were not carried out yet, in order of creation, and watch for new ones."""
        session, paths = self._session, self._paths

        def read() -> list[Wish]:
            return wishes_of(session, paths, session.watch_children(paths.wishes, changed))

        told = self._told  # a server that lags may still show wishes that the last write has removed
        return [wish for wish in session.retry_within_lease(read) if wish.id not in told]

    def _carried_out(self, record: CoordinatorRecord) -> list[str]:
        """Return the wishes with outcomes in ``record`` that are not stored yet."""
        if self._stored is not None and record.outcomes == self._stored.record.outcomes:
            return []
        told = self._told
        return [outcome.wish for outcome in record.outcomes if outcome.wish not in told]

    @property
    def _told(self) -> set[str]:
        """The wishes with stored outcomes."""
        return {outcome.wish for outcome in self._stored.record.outcomes} if self._stored else set()

    def _store_ahead(self, creates: Sequence[Create]) -> None:
        """Store blobs that no head names yet. A blob's name determines its content, so an existing one is the same."""

        def store_missing() -> None:
            nodes = self._session.read(*(step.path for step in creates))
            missing = [step for step, node in zip(creates, nodes, strict=True) if node is None]
            if missing:
                self.writes += 1
                self._session.commit([self._fence_step, *missing])

        while True:
            try:
                return self._session.retry_within_lease(store_missing)
            except Conflict as conflict:
                if conflict.path == self._paths.epoch:
                    raise self._fence(conflict) from conflict
                log.debug("%s came late, and is there now", conflict.path)

    def _replace(self, encoded: EncodedRecord, steps: Sequence[Step]) -> None:
        writes_before = self.writes

        def write_once() -> None:
            if self.writes > writes_before and self._holds(encoded):
                return
            self.writes += 1
            self._session.commit(list(steps))

        try:
            self._session.retry_within_lease(write_once)
        except Conflict as conflict:
            # Sent twice; the first request may have been carried out after the check didn't find its result.
            if conflict.path != self._paths.epoch and self._session.retry_within_lease(lambda: self._holds(encoded)):
                return
            blobs = {self._paths.blob(name): text for name, text in encoded.blobs.items()}
            if conflict.path not in blobs:
                raise self._fence(conflict) from conflict
            kept = Check(conflict.path, ANY_VERSION)
            if kept in steps:  # it was there, and a late request has removed it as an orphan
                self._store_ahead([Create(conflict.path, blobs[conflict.path].encode())])
            # Otherwise an earlier write that did not finish has left this blob.
            self._replace(encoded, [kept if step.path == conflict.path else step for step in steps])

    def _remove_orphans(self) -> None:
        """Remove blobs that no head names: a write that did not finish has left them."""
        if self._stored is None:
            return
        paths, named = self._paths, self._stored.encoded.blobs
        kept = {paths.blob(name) for name in named}
        there = [
            f"{paths.blobs}/{name}"
            for name in self._session.retry_within_lease(lambda: self._session.children(paths.blobs))
        ]
        orphans = [Remove(path, ANY_VERSION) for path in there if path not in kept][:ORPHANS_MAX]
        if not orphans:
            return
        same_head = Check(paths.record, self._stored.version)
        try:
            self._session.retry_within_lease(lambda: self._session.commit([self._fence_step, same_head, *orphans]))
        except Conflict as conflict:  # they do no harm, and the next leader tries again
            log.info("%s: %d blobs that no record names stay for now: %s", self._session.who, len(orphans), conflict)

    def heartbeat(self) -> None:
        """Prove that the session and the epoch are valid, if the last proof is older than a sixth of the session."""
        self._ensure_not_fenced()
        if not self._session.is_round_due():
            return
        [claim] = self._session.retry_within_lease(lambda: self._session.read(self._paths.epoch))
        if claim is None or claim.version != self._epoch_version:
            raise self._fence(Conflict(self._paths.epoch, "its version is another"))

    def ensure_leading(self) -> None:
        """Return if, by the local clock, no other leader can exist at this moment; no I/O, any thread may call it.

        Raises:
            FencedError: another leadership exists.
            CoordinationLost: unknown. Final only if the next `heartbeat` or `write` raises, too: a late answer still
                proves that no other process led meanwhile.
        """
        self._ensure_not_fenced()
        self._session.ensure_alive()

    def explain_loss(self, lost: CoordinationLost) -> TridentError:
        """Return why this leadership ended, using a new session if one can be opened; otherwise ``lost``."""
        try:
            session = self._session.another(JUDGE_SECONDS)
        except TridentError:
            return lost
        try:
            [claim] = session.retry_within_lease(lambda: session.read(self._paths.epoch))
        except TridentError:
            return lost
        finally:
            session.close()
        return self._fenced_by(claim) if claim and claim.version != self._epoch_version else lost

    def close(self) -> None:
        """End the session, and with it the leader's node, so that the next leader need not wait. Never raises."""
        self._session.close()

    @property
    def _fence_step(self) -> Check:
        return Check(self._paths.epoch, self._epoch_version)

    def _requests(self, encoded: EncodedRecord, carried_out: Sequence[str]) -> RecordRequests:
        acl_bytes = self._session.access.acl_bytes
        return requests_for(
            self._paths, self._fence_step, self._stored, encoded, acl_bytes=acl_bytes, carried_out=carried_out
        )

    def _holds(self, encoded: EncodedRecord) -> bool:
        [head] = self._session.read(self._paths.record)
        return head is not None and head.text == encoded.head

    def _ensure_not_fenced(self) -> None:
        if self._fenced is not None:
            raise FencedError(self._fenced, topology=self.identity.name)

    def _fence(self, conflict: Conflict) -> FencedError:
        [node] = self._session.retry_within_lease(lambda: self._session.read(self._paths.epoch))
        if node is not None and node.version != self._epoch_version:
            return self._fenced_by(node)
        return self._over(
            f"{conflict.path} was changed from outside ({conflict.reason}); only its leader may change it"
        )

    def _fenced_by(self, claim: Znode) -> FencedError:
        return self._over(f"{parse(EpochClaim, claim.text, self._paths.epoch)} claimed the topology")

    def _over(self, cause: str) -> FencedError:
        self._fenced = f"topology {self.identity.name!r}: epoch {self.epoch} is over, this run stops; {cause}"
        return FencedError(self._fenced, topology=self.identity.name)
