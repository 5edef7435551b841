"""What programs find in the errors of the control plane: which topology, transaction, attempt, spout and state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinators.driver.loop import DriverLoop, Inbox
from coordinators.protocol.messages import Broken, Failed, FailureKind, Fingerprinted
from coordinators.record.declarations import Declaration, Declarations
from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import InMemoryCoordination, TopologyIdentity
from coordinators.takeover.changes import adopted
from coordinators.takeover.takeover import recover
from coordinators.values.canonical import Fingerprint
from coordinators.values.errors import (
    About,
    CoordinationLost,
    FencedError,
    MetadataError,
    PoisonBatchError,
    SpoutError,
    StateError,
    TopologyError,
    TridentError,
)
from tests.unit.coordinators.world import Numbers, World, attempt

BATCH_1 = About(topology="test", txid=1)
ATTEMPT_1 = About(topology="test", txid=1, attempt=attempt("1:0"))
NOTHING = About(topology=None, txid=None, attempt=None, spout=None, state=None)


class Tuples(Numbers):
    """Metadata that JSON can't hold."""

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        return (1, 2)


class Fickle(Numbers):
    """Another definition each time."""

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        self.calls.append(())
        return len(self.calls)


class Away(Numbers):
    """A source that can't be reached."""

    def is_ready(self, txid: int) -> bool:
        raise ConnectionRefusedError("nobody there")


class Shrunk(Numbers):
    """A source that is not what it was, which says nothing of where."""

    def is_ready(self, txid: int) -> bool:
        raise SpoutError("the file shrank")


def fail(world: World, cause: BaseException, kind: FailureKind = FailureKind.USER_CODE) -> None:
    world.run_until_quiet()
    world.run_until_quiet(Failed(attempt("1:0"), cause, kind))
    world.after(1)


def change_rows(world: World) -> None:
    world.run_until_quiet()
    for rows in (3, 4):
        world.turn(Fingerprinted(attempt("1:0"), "lines", Fingerprint(rows, 7)))


def wait(world: World) -> None:
    world.run_until_quiet()
    for _ in range(60):
        world.after(1)


ENDS: list[tuple[Numbers, Callable[[World], object], type[TridentError], About]] = [
    (Tuples(), World.run_until_quiet, MetadataError, About(**BATCH_1, spout="lines")),
    (Fickle(), lambda world: fail(world, ValueError("boom")), SpoutError, About(**BATCH_1, spout="lines")),
    (Shrunk(), World.run_until_quiet, SpoutError, About(**BATCH_1, spout="lines")),
    (Away(), wait, SpoutError, About(**BATCH_1, spout="lines")),
    (Numbers(), change_rows, SpoutError, About(**ATTEMPT_1, spout="lines")),
    (Numbers(), lambda world: fail(world, StateError("it is full"), FailureKind.FATAL), StateError, ATTEMPT_1),
    (Numbers(), lambda world: fail(world, FencedError("a newer one leads")), FencedError, ATTEMPT_1),
]


def about(error: TridentError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in NOTHING}


@pytest.mark.parametrize(
    ("spout", "end", "kind", "found"), ENDS, ids=lambda value: getattr(type(value), "__name__", value)
)
def test_what_ends_a_topology_says_what_it_is_about(
    spout: Numbers, end: Callable[[World], object], kind: type[TridentError], found: About
) -> None:
    world = World(spouts={"lines": spout}).start(source_patience=30)
    with pytest.raises(kind) as raised:
        end(world)
    assert about(raised.value) == {**NOTHING, **found}


@pytest.mark.parametrize(
    ("spouts", "state", "found"),
    [
        (["lines"], None, About(spout="lines")),
        (["lines", "others"], None, About()),
        ([], "bucket", About(state="bucket")),
    ],
)
def test_a_poison_batch_says_which_attempt_was_its_last_and_whose_it_was(
    spouts: list[str], state: str | None, found: About
) -> None:
    world = World().start()
    world.run_until_quiet()
    for tries in range(4):
        world.run_until_quiet(Failed(attempt(f"1:{tries}"), ValueError("boom"), spouts=spouts, state=state))
        world.after(30)
    with pytest.raises(PoisonBatchError) as raised:
        world.turn(Failed(attempt("1:4"), ValueError("boom"), spouts=spouts, state=state))
    assert about(raised.value) == {**NOTHING, **BATCH_1, "attempt": attempt("1:4"), **found}


def test_a_commit_that_a_state_refuses_names_the_state() -> None:
    world = World().start()
    world.run_until_quiet()
    with pytest.raises(StateError) as raised:
        world.turn(Failed(attempt("1:0"), StateError("it is full"), FailureKind.FATAL, state="counts"))
    assert about(raised.value) == {**NOTHING, **ATTEMPT_1, "state": "counts"}


def test_a_leadership_that_is_over_names_its_topology() -> None:
    coordination = InMemoryCoordination(TopologyIdentity("shop", "8d1f", 1))
    store = coordination.acquire()
    coordination.acquire()
    with pytest.raises(FencedError) as raised:
        store.ensure_leading()
    assert about(raised.value) == {**NOTHING, "topology": "shop"}


def test_whatever_ends_the_thread_of_the_driver_names_its_topology() -> None:
    world, inbox = World().start(), Inbox()
    inbox.post(Broken(CoordinationLost("not connected")))
    loop = DriverLoop("shop", inbox, at_end=lambda _: None, driver=world.driver)
    loop.start()
    loop.ended.wait()
    assert isinstance(loop.error, CoordinationLost)
    assert about(loop.error) == {**NOTHING, "topology": "shop"}


def test_a_state_that_is_refused_at_a_takeover_is_named() -> None:
    class Full:
        name, remembers, rolls_back, is_volatile = "counts", True, True, False

        def recover(self, topology: TopologyIdentity, epoch: int) -> None:
            raise StateError("the disk is full")

        def pass_over(self, topology: TopologyIdentity, epoch: int, txids: range) -> None: ...

    with pytest.raises(StateError) as raised:
        recover(InMemoryCoordination().acquire(), [Full()])
    assert about(raised.value) == {**NOTHING, "topology": "in-memory", "state": "counts"}


def test_a_change_that_is_not_accepted_says_where_the_topology_is() -> None:
    def declared(spout: str) -> Declarations:
        return Declarations([Declaration(kind="spout", name="lines", identity={"kind": [spout]}, details={})])

    record = adopted("shop", CoordinatorRecord(epoch=1), None, declared("FileSpout"))
    moved = CoordinatorRecord(epoch=1, current_txid=5, metadata={4: {"lines": 1}}, declared=record.declared)
    with pytest.raises(TopologyError) as raised:
        adopted("shop", moved, None, declared("Numbers"))
    assert about(raised.value) == {**NOTHING, "topology": "shop", "txid": 5}
