"""What every coordination promises to those who lead, stand by, list, describe and reset: in memory and ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from attrs import define, evolve, field

from coordinators.backends.coordination import Coordination
from coordinators.backends.local import LocalCoordination
from coordinators.backends.zookeeper import leadership
from coordinators.backends.zookeeper.coordination import ZooKeeperCoordination
from coordinators.backends.zookeeper.session import ZooKeeperSession
from coordinators.backends.zookeeper.znodes import ANY_VERSION, Remove, TopologyPaths
from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import RecordStore
from coordinators.record.wishes import Action, Hold, Outcome, Rate, Standing, Wish
from coordinators.status.candidate import Candidate
from coordinators.values.errors import ConfigError, CoordinationLost, FencedError

WITHIN_SECONDS = 60.0


@define
class Place:
    """A coordination, and what happens to its leaders from outside; ``impatient`` is the same for who waits less."""

    coordination: Coordination
    impatient: Coordination
    expire: Callable[[str], None]
    pool: ThreadPoolExecutor
    closing: ExitStack
    candidates: list[Candidate] = field(factory=list)

    def lead(self, topology: str = "wordcount") -> RecordStore:
        store = self.coordination.lead(topology)
        self.closing.callback(store.close)
        return store

    def stand_by(
        self, take_over: Callable[[RecordStore], RecordStore] = lambda store: store
    ) -> Future[RecordStore | None]:
        """A candidate on a thread of its own, that has seen whom it waits for if anybody leads."""
        candidate = Candidate("wordcount")
        self.candidates.append(candidate)
        self.closing.callback(candidate.withdraw)
        return self.pool.submit(self.coordination.stand_by, candidate, take_over)

    def await_waiting(self) -> None:
        while self.candidates[-1].rival is None:
            self.candidates[-1]._woken.wait(0.01)


@pytest.fixture(params=["in memory", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with ThreadPoolExecutor(4) as pool, ExitStack() as closing:
        if request.param == "in memory":
            local = LocalCoordination()
            yield Place(local, local, local.expire, pool, closing)
            return
        hosts = request.getfixturevalue("zookeeper")
        admin = ZooKeeperSession.connect(hosts, who="the tests", session_timeout=30.0)
        closing.callback(admin.close)

        def expire(topology: str) -> None:
            # what the servers do when a leader's session expires; the leader itself is not told
            leader = TopologyPaths(f"{admin.chroot}/trident/{topology}").leader
            admin.retry_within_lease(lambda: admin.commit([Remove(leader, ANY_VERSION)]))

        patient, impatient = (ZooKeeperCoordination(hosts=hosts, session_timeout=seconds) for seconds in (30.0, 3.0))
        yield Place(patient, impatient, expire, pool, closing)


def test_it_answers(place: Place) -> None:
    place.coordination.ensure_answering("wordcount")


def test_what_one_leader_stored_the_next_one_reads(place: Place) -> None:
    first = place.lead()
    first.write(CoordinatorRecord(1, seq=4))
    first.close()
    second = place.lead()
    assert (second.epoch, second.identity, second.read()) == (2, first.identity, CoordinatorRecord(1, seq=4))


def test_a_leadership_knows_when_it_began(place: Place) -> None:
    first = place.lead()
    first.close()
    assert 0 < first.claimed_at <= place.lead().claimed_at


def test_topologies_have_nothing_to_do_with_each_other(place: Place) -> None:
    first, other = place.lead(), place.lead("other")
    first.write(CoordinatorRecord(1, seq=4))
    assert other.read() is None
    assert first.identity.uuid != other.identity.uuid
    assert place.coordination.topologies() == ["other", "wordcount"]


def test_a_second_leader_is_refused_while_the_first_one_leads(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "WAIT_BEYOND_SESSION_SECONDS", 0.5)
    first = place.lead()
    with pytest.raises(FencedError, match=r"'wordcount' is led by pid \d+ on host .*, which did not end within"):
        place.impatient.lead("wordcount")
    first.write(CoordinatorRecord(1, seq=1))
    first.ensure_leading()


def test_a_leader_that_was_given_up_for_dead_is_fenced_by_the_next(place: Place) -> None:
    zombie = place.lead()
    place.expire("wordcount")
    place.lead().write(CoordinatorRecord(2, seq=2))
    with pytest.raises(FencedError, match="epoch 1 is over"):
        zombie.write(CoordinatorRecord(1, seq=1))
    assert isinstance(zombie.explain_loss(CoordinationLost("it heard nothing")), FencedError)
    zombie.close()
    assert place.coordination.describe("wordcount").record == CoordinatorRecord(2, seq=2)
    assert place.coordination.describe("wordcount").leader is not None


def test_a_leader_that_gave_up_leads_no_more(place: Place) -> None:
    store = place.lead()
    store.close()
    with pytest.raises(CoordinationLost):
        store.write(CoordinatorRecord(1))


def test_of_several_standbys_one_takes_over_when_the_leader_ends(place: Place) -> None:
    first = place.lead()
    waiting = []
    for _ in range(2):
        waiting.append(place.stand_by())
        place.await_waiting()
    assert not any(future.done() for future in waiting)
    first.close()
    while not any(future.done() for future in waiting):
        place.candidates[0]._woken.wait(0.01)
    [taken] = [future for future in waiting if future.done()]
    store = taken.result()
    assert store is not None
    place.closing.callback(store.close)
    assert store.epoch == 2
    for candidate in place.candidates:
        candidate.withdraw()
    [left] = [future for future in waiting if future is not taken]
    assert left.result(WITHIN_SECONDS) is None


def test_a_standby_that_loses_its_leadership_while_it_takes_over_stands_by_again(place: Place) -> None:
    epochs: list[int] = []

    def take_over(store: RecordStore) -> RecordStore:
        epochs.append(store.epoch)
        if store.epoch == 1:
            store.close()
        store.write(CoordinatorRecord(store.epoch))
        return store

    store = place.stand_by(take_over).result(WITHIN_SECONDS)
    assert store is not None
    store.close()
    assert epochs == [1, 2]


def test_a_topology_is_described_while_it_runs_and_afterwards(place: Place) -> None:
    store = place.lead()
    fresh = place.coordination.describe("wordcount")
    assert (fresh.identity, fresh.epoch, fresh.record) == (store.identity, 1, None)
    assert str(fresh.leader).startswith("pid ")
    store.write(CoordinatorRecord(1, seq=5))
    store.close()
    after = place.coordination.describe("wordcount")
    assert (after.epoch, after.leader, after.record) == (1, None, CoordinatorRecord(1, seq=5))


def test_a_topology_that_does_not_exist_is_told_from_those_that_do(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"no topology 'wordcoutn' .*; there is none at all"):
        place.coordination.describe("wordcoutn")
    place.lead()
    for ask in (place.coordination.describe, place.coordination.reset):
        with pytest.raises(ConfigError, match=r"no topology 'wordcoutn' .*; there is wordcount"):
            ask("wordcoutn")


def test_a_topology_that_is_led_is_not_reset(place: Place) -> None:
    store = place.lead()
    store.write(CoordinatorRecord(1, seq=1))
    with pytest.raises(FencedError, match=r"was not reset: pid \d+ .* leads it"):
        place.coordination.reset("wordcount")
    assert store.read() == CoordinatorRecord(1, seq=1)


def test_a_reset_begins_a_new_incarnation_in_which_epochs_go_on(place: Place) -> None:
    zombie = place.lead()
    zombie.write(CoordinatorRecord(1, seq=1))
    place.expire("wordcount")
    identity = place.coordination.reset("wordcount")
    assert identity == evolve(zombie.identity, incarnation=2)
    with pytest.raises((FencedError, CoordinationLost)):
        zombie.write(CoordinatorRecord(1, seq=2))
    after = place.lead()
    assert (after.identity, after.epoch, after.read()) == (identity, 2, None)


def test_a_wish_is_left_for_whoever_leads_and_seen_by_who_asks(place: Place) -> None:
    store = place.lead()
    wishes = [Wish("b", Action.DRAIN), Wish("a", Action.RATE, Rate(batches_per_second=0.5))]
    for wish in wishes:
        place.coordination.wish("wordcount", wish)
    assert place.coordination.describe("wordcount").wishes == tuple(wishes)
    assert list(store.wishes(lambda _: None)) == wishes
    outcome = Outcome("b", Action.DRAIN, Standing(Hold.PAUSED), 0)
    store.write(CoordinatorRecord(1, seq=1, standing=outcome.standing, outcomes=(outcome,)))
    after = place.coordination.describe("wordcount")
    assert after.wishes == (wishes[1],)
    assert after.record is not None
    assert after.record.outcomes == (outcome,)


def test_a_wish_waits_for_the_next_leader_and_a_reset_forgets_it(place: Place) -> None:
    place.lead().close()
    place.coordination.wish("wordcount", Wish("a", Action.PAUSE))
    second = place.lead()
    assert list(second.wishes(lambda _: None)) == [Wish("a", Action.PAUSE)]
    second.close()
    place.coordination.reset("wordcount")
    assert place.coordination.describe("wordcount").wishes == ()


def test_nothing_is_wished_of_a_topology_that_does_not_exist(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"no topology 'wordcoutn' .*; there is none at all"):
        place.coordination.wish("wordcoutn", Wish("a", Action.PAUSE))
