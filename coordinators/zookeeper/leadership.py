"""Leading a topology: the road to an epoch, and the record that only its holder can write.

Leading takes two things at once, in one atomic step: the ephemeral ``leader`` node, which keeps two drivers from
fighting and says whom to wait for, and the next number in the ``epoch`` node. Only the second is a proof: every write
checks the version of the epoch's node, so nothing an earlier leader sends can land any more, however late it arrives.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from uuid import uuid4

from attrs import define, field, frozen

from coordinators.errors import CoordinationLost, FencedError, MetadataError, TridentError
from coordinators.record import CoordinatorRecord, EncodedRecord, blob_names, decode, encode
from coordinators.store import TopologyIdentity
from coordinators.zookeeper.access import ANONYMOUS, ZooKeeperAccess
from coordinators.zookeeper.acl_check import ensure_guarded
from coordinators.zookeeper.candidate import Candidate, Withdrawn
from coordinators.zookeeper.connecting import ROUNDS_PER_SESSION
from coordinators.zookeeper.session import Conflict, Unanswered, ZooKeeperSession
from coordinators.zookeeper.znodes import (
    ANY_VERSION,
    Check,
    Create,
    EpochClaim,
    Leader,
    Put,
    Remove,
    Step,
    StoredIdentity,
    TopologyPaths,
    Znode,
    parse,
    to_bytes,
)

log = logging.getLogger(__name__)

WAIT_BEYOND_SESSION_SECONDS = 5.0
JUDGE_SECONDS = 4.0  # for whoever has lost its session to see why; cut off, it ends without knowing
STANDBY_RETRY_SECONDS = 1.0
READ_TRIES = 50


def lead(
    topology: str,
    *,
    hosts: str,
    root: str = "/trident",
    session_timeout: float = 10.0,
    wait: float | None = None,
    access: ZooKeeperAccess = ANONYMOUS,
) -> ZooKeeperRecordStore:
    """Lead ``topology`` from now on; every earlier leadership is fenced.

    Args:
        topology: its name.
        hosts: ``"host:port,…/chroot"``; a chroot that does not exist is made.
        root: the node under which every topology has its own.
        session_timeout: seconds after which the servers give up a silent leader.
        wait: seconds for an earlier leader to give up; None: ``session_timeout`` and 5 more, when a killed one is gone.
        access: how to be let in.

    Raises:
        FencedError: another process leads, and went on leading.
        CoordinationLost: no server answers.
        ConfigError: ``hosts`` is no connection string, we are not let in, or anyone may change what should be ours.
        MetadataError: what is stored about the topology cannot be read.
    """
    patience = session_timeout + WAIT_BEYOND_SESSION_SECONDS if wait is None else wait
    who = f"topology {topology!r}"
    session = ZooKeeperSession.connect(hosts, who=who, session_timeout=session_timeout, access=access)
    return _elected(Candidate(topology, patience), session, root)


def stand_by(
    candidate: Candidate,
    *,
    hosts: str,
    root: str = "/trident",
    session_timeout: float = 10.0,
    access: ZooKeeperAccess = ANONYMOUS,
) -> ZooKeeperRecordStore | None:
    """Lead as soon as nobody else does, however long that takes; None if ``candidate`` was withdrawn before.

    A standby has nothing to lose: when ZooKeeper is out of reach for a while, it goes on waiting in a new session.

    Raises:
        CoordinationLost: no server answered the first time.
        ConfigError, MetadataError: as `lead`.
    """
    who = f"topology {candidate.topology!r}"
    connect = partial(ZooKeeperSession.connect, hosts, who=who, session_timeout=session_timeout, access=access)
    session = connect()
    with suppress(Withdrawn):
        while True:
            try:
                return _elected(candidate, session, root)
            except CoordinationLost as error:
                log.warning("topology %s: standing by, but: %s", candidate.topology, error)
            session = _reconnected(candidate, connect)
    return None


def _reconnected(candidate: Candidate, connect: Callable[[], ZooKeeperSession]) -> ZooKeeperSession:
    while True:
        candidate.wait(STANDBY_RETRY_SECONDS)
        try:
            return connect()
        except CoordinationLost as error:
            log.warning("topology %s: standing by, but: %s", candidate.topology, error)


def _elected(candidate: Candidate, session: ZooKeeperSession, root: str) -> ZooKeeperRecordStore:
    topology = candidate.topology
    paths = TopologyPaths(f"{session.chroot}{root}/{topology}")
    try:
        session.settle(lambda: _ensure_identity(session, paths))
        ensure_guarded(session, paths)
        claim, version = _take_over(session, paths, candidate)
        # Read only now: whoever resets a topology can do so until somebody leads it.
        identity = session.settle(lambda: _existing_identity(session, paths, topology))
        [claimed] = session.settle(lambda: session.read(paths.epoch))
    except BaseException:
        session.close()
        raise
    log.info("topology %s: pid %d leads with epoch %d", topology, claim.pid, claim.epoch)
    return ZooKeeperRecordStore(
        identity,
        claim.epoch,
        epoch_version=version,
        session=session,
        paths=paths,
        claimed_at=claimed.modified if claimed else 0,
    )


def read_identity(session: ZooKeeperSession, paths: TopologyPaths, topology: str) -> TopologyIdentity | None:
    """Who the topology of this name is; None if it was never started."""
    [node] = session.read(paths.identity)
    if node is None:
        return None
    stored = parse(StoredIdentity, node.text, paths.identity)
    return TopologyIdentity(topology, stored.uuid, stored.incarnation)


def _ensure_identity(session: ZooKeeperSession, paths: TopologyPaths) -> None:
    session.ensure_path(paths.blobs)
    identity, epoch = session.read(paths.identity, paths.epoch)
    if identity is not None:
        return
    if epoch is not None:
        raise _identity_is_gone(paths)
    try:
        session.commit([Create(paths.identity, to_bytes(StoredIdentity(str(uuid4()), 1)))])
    except Conflict:
        log.debug("%s was created by somebody else at the same moment", paths.identity)


def _existing_identity(session: ZooKeeperSession, paths: TopologyPaths, topology: str) -> TopologyIdentity:
    identity = read_identity(session, paths, topology)
    if identity is None:
        raise _identity_is_gone(paths)
    return identity


def _identity_is_gone(paths: TopologyPaths) -> MetadataError:
    return MetadataError(
        f"{paths.identity} is gone, although the topology was led before; without it the topology's states can't be "
        f"told from those of another. Restore it from a backup, or give the topology a new name"
    )


def _take_over(session: ZooKeeperSession, paths: TopologyPaths, candidate: Candidate) -> tuple[EpochClaim, int]:
    """Our claim of the epoch and the version of its node, once no earlier leader is there any more."""
    leader = Leader()
    owner = str(uuid4())
    while True:
        claimed = session.settle(lambda: _claim(session, paths, leader, owner))
        if claimed is not None:
            return claimed
        candidate.look(session, paths.leader)
        # Not only until it has ended, so that a session which waits for days is known to be alive.
        candidate.wait(session.seconds / ROUNDS_PER_SESSION)


def _claim(
    session: ZooKeeperSession, paths: TopologyPaths, leader: Leader, owner: str
) -> tuple[EpochClaim, int] | None:
    """Become the leader and take the next epoch, in one step; None if somebody leads."""
    [node] = session.read(paths.epoch)
    last = parse(EpochClaim, node.text, paths.epoch) if node else None
    if node and last and last.owner == owner:  # an earlier try came through, its answer was lost
        return last, node.version
    claim = EpochClaim(last.epoch + 1 if last else 1, owner, leader.host, leader.pid)
    data = to_bytes(claim)
    take_epoch = Put(paths.epoch, data, node.version) if node else Create(paths.epoch, data)
    try:
        session.commit([Create(paths.leader, to_bytes(leader), ephemeral=True), take_epoch])
    except Conflict:
        return None
    return claim, node.version + 1 if node else 0


@frozen
class StoredRecord:
    """A record as it is in ZooKeeper, with the version of its head."""

    record: CoordinatorRecord
    encoded: EncodedRecord
    version: int


def load(session: ZooKeeperSession, paths: TopologyPaths) -> StoredRecord | None:
    """The record of a topology, also while its leader goes on writing; None if it has none.

    Raises:
        MetadataError: it cannot be read.
    """
    where = f"{paths.record} on {session.hosts}"
    names: set[str] = set()
    for _ in range(READ_TRIES):
        asked = sorted(names)
        head, *nodes, head_afterwards = session.read(paths.record, *map(paths.blob, asked), paths.record)
        if head is None:
            return None
        needed = blob_names(head.text, where=where)
        if head == head_afterwards and names.issuperset(needed):  # nobody wrote between: these blobs are of this head
            found = dict(zip(asked, nodes, strict=True))
            blobs = {name: node.text for name in needed if (node := found[name])}
            return StoredRecord(decode(head.text, blobs, where=where), EncodedRecord(head.text, blobs), head.version)
        names.update(needed)
    raise Unanswered(f"{paths.record} was written again each time it was read")


@define(eq=False)
class ZooKeeperRecordStore:
    """One leadership over the record of one topology: `coordinators.store.RecordStore` on a real server.

    `lead` makes one. Used by one thread, except `ensure_leading`. A `CoordinationLost` of any other method is final.

    Attributes:
        claimed_at: when the servers took the claim, by their clock, in milliseconds since 1970.
    """

    identity: TopologyIdentity
    epoch: int
    _epoch_version: int
    _session: ZooKeeperSession
    _paths: TopologyPaths
    claimed_at: int = 0
    writes: int = field(default=0, init=False)
    _stored: StoredRecord | None = field(default=None, init=False)
    _has_read: bool = field(default=False, init=False)
    _fenced: str | None = field(default=None, init=False)

    def read(self) -> CoordinatorRecord | None:
        """The record as it is now; None if the topology has none yet."""
        self._stored = self._session.settle(lambda: load(self._session, self._paths))
        self._has_read = True
        return None if self._stored is None else self._stored.record

    def write(self, record: CoordinatorRecord) -> None:
        """Replace the record, if we still lead: one round, and a look at what is stored where its answer was lost."""
        self._ensure_not_fenced()
        if not self._has_read:
            self.read()
        encoded = encode(record)
        steps = self._steps(encoded)
        writes_before = self.writes

        def write_once() -> None:
            if self.writes > writes_before and self._holds(encoded):
                return
            self.writes += 1
            self._session.commit(steps)

        try:
            self._session.settle(write_once)
        except Conflict as conflict:
            # Sent twice, the first may have come through late, after we had looked for it in vain.
            if conflict.path == self._paths.epoch or not self._session.settle(lambda: self._holds(encoded)):
                raise self._fence(conflict) from conflict
        version = 0 if self._stored is None else self._stored.version + 1
        self._stored = StoredRecord(record, encoded, version)

    def heartbeat(self) -> None:
        """Prove that the session lives and the epoch is ours, if the last proof is a sixth of the session old."""
        self._ensure_not_fenced()
        if not self._session.is_round_due():
            return
        [claim] = self._session.settle(lambda: self._session.read(self._paths.epoch))
        if claim is None or claim.version != self._epoch_version:
            raise self._fence(Conflict(self._paths.epoch, "its version is another"))

    def ensure_leading(self) -> None:
        """Return if no other leader can exist at this moment by our own clock; no I/O, any thread may ask.

        Raises:
            FencedError: another leadership exists.
            CoordinationLost: we can't tell. Final only if the next `heartbeat` or `write` raises, too: an answer that
                comes late still proves that nobody else led meanwhile.
        """
        self._ensure_not_fenced()
        self._session.ensure_alive()

    def judged(self, lost: CoordinationLost) -> TridentError:
        """Why we don't lead any more, now that the session is lost: as a new session sees it, if there can be one."""
        try:
            session = self._session.another(JUDGE_SECONDS)
        except TridentError:
            return lost
        try:
            [claim] = session.settle(lambda: session.read(self._paths.epoch))
        except TridentError:
            return lost
        finally:
            session.close()
        return self._fenced_by(claim) if claim and claim.version != self._epoch_version else lost

    def close(self) -> None:
        """End the session, and with it the leader's node, so that the next leader need not wait. Never raises."""
        self._session.close()

    def _steps(self, encoded: EncodedRecord) -> list[Step]:
        paths, stored, head = self._paths, self._stored, encoded.head.encode()
        steps: list[Step] = [Check(paths.epoch, self._epoch_version)]
        steps.append(Put(paths.record, head, stored.version) if stored else Create(paths.record, head))
        before = stored.encoded.blobs if stored else {}
        for name, text in encoded.blobs.items():
            if name not in before:
                steps.append(Create(paths.blob(name), text.encode()))
            elif before[name] != text:
                steps.append(Put(paths.blob(name), text.encode(), ANY_VERSION))
        steps.extend(Remove(paths.blob(name), ANY_VERSION) for name in before if name not in encoded.blobs)
        return steps

    def _holds(self, encoded: EncodedRecord) -> bool:
        [head] = self._session.read(self._paths.record)
        return head is not None and head.text == encoded.head

    def _ensure_not_fenced(self) -> None:
        if self._fenced is not None:
            raise FencedError(self._fenced)

    def _fence(self, conflict: Conflict) -> FencedError:
        [node] = self._session.settle(lambda: self._session.read(self._paths.epoch))
        if node is not None and node.version != self._epoch_version:
            return self._fenced_by(node)
        return self._over(f"{conflict.path} was changed from outside ({conflict.reason}), which only its leader may")

    def _fenced_by(self, claim: Znode) -> FencedError:
        return self._over(f"{parse(EpochClaim, claim.text, self._paths.epoch)} claimed the topology")

    def _over(self, cause: str) -> FencedError:
        self._fenced = f"topology {self.identity.name!r}: epoch {self.epoch} is over, this run stops; {cause}"
        return FencedError(self._fenced)
