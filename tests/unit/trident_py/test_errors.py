"""What programs find in errors, wherever they come from: attributes, and everything of them after pickling."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import coordinators
import trident_py
from coordinators.protocol.messages import FailureKind
from coordinators.record.store import InMemoryCoordination, TopologyIdentity
from coordinators.takeover.takeover import recover
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import About, TridentError, located
from trident_py.engine.threads.spout_executor import TridentSpoutExecutor
from trident_py.errors import (
    FailedException,
    SinkError,
    SpoutError,
    StateError,
    StoreBusyException,
)
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import CommitToken, TransactionalSink
from trident_py.interfaces.spouts import Emitter
from trident_py.operations.builtin import Count
from trident_py.participants.participant import SinkParticipant
from trident_py.participants.states import AggregateParticipant
from trident_py.rows.schema import schema_of
from trident_py.states.memory import MemoryMapState
from trident_py.worker.failures import (
    MarkedFailure,
    TaskFailed,
    TaskFailure,
    by_spout,
    task_failures_told,
    telling,
)

ATTEMPT = TransactionAttempt(7, 2)
ABOUT = About(topology="shop", attempt=ATTEMPT, spout="orders", state="counts")


class FileIsGone(SpoutError):
    """A user's own, with a constructor of its own."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(f"file {path} is gone at line {line}", spout="orders")
        self.path = path


def subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for each in kind.__subclasses__():
        yield from subclasses(each)


def every_error() -> list[type[TridentError]]:
    """Every class of ours, wherever it is defined."""
    for package in (coordinators, trident_py):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    ours = (coordinators.__name__, trident_py.__name__)
    return sorted({e for e in subclasses(TridentError) if e.__module__.startswith(ours)}, key=lambda e: e.__name__)


def pickled(error: Any) -> Any:
    return pickle.loads(pickle.dumps(error))  # noqa: S301


def about(error: TridentError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in ("topology", "txid", "attempt", "spout", "state")}


# --- pickling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [pickled, copy.copy])
@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling_with_its_message_attributes_and_notes(kind: type[TridentError], again: Any) -> None:
    error = kind("shop has no orders").locate(**ABOUT)
    error.add_note("in row 5")
    found = again(error)
    assert type(found) is kind
    assert (str(found), found.__notes__) == ("shop has no orders", ["in row 5"])
    assert about(found) == {**ABOUT, "txid": 7}


@pytest.mark.parametrize(
    "error",
    [
        FileIsGone("a.txt", 5),
        FailedException("not now", 5),
        StoreBusyException("locked"),
        MarkedFailure("told to the driver"),
        TaskFailed(TaskFailure(kind=FailureKind.USER_CODE, text="ValueError: boom", txid=7)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_so_does_one_whose_constructor_takes_something_else(error: BaseException) -> None:
    error.add_note("in row 5")
    found = pickled(error)
    assert type(found) is type(error)
    assert (str(found), found.args, vars(found)) == (str(error), error.args, vars(error))


# --- what it is about -------------------------------------------------------------------------------------------------


def test_what_is_not_known_is_none() -> None:
    assert set(about(TridentError("boom")).values()) == {None}


def test_the_innermost_place_counts_and_outer_ones_add_what_it_lacks() -> None:
    inner, outer = located(spout="orders"), located(topology="shop", spout="others", attempt=ATTEMPT)
    with pytest.raises(SpoutError) as raised, outer, inner:
        raise SpoutError("boom")
    assert about(raised.value) == {**ABOUT, "txid": 7, "state": None}


def test_an_error_about_one_transaction_is_not_taken_for_one_about_another() -> None:
    with pytest.raises(StateError) as raised, located(topology="shop", attempt=ATTEMPT):
        raise StateError("boom", txid=5)
    assert (raised.value.topology, raised.value.txid, raised.value.attempt) == ("shop", 5, None)


def test_a_keyword_that_is_no_attribute_is_refused() -> None:
    with pytest.raises(AttributeError, match="stat"):
        TridentError("boom", stat="counts")  # type: ignore[call-arg]


# --- where errors come from -------------------------------------------------------------------------------------------


class Shapeless(Emitter[Any]):
    """Emits what is no row; or rows, in tasks that find the file gone."""

    def __init__(self, in_tasks: bool) -> None:
        self.in_tasks = in_tasks

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: TridentCollector) -> None:
        if self.in_tasks:
            collector.emit_splits([5], read_nothing)
        else:
            collector.emit(5)  # type: ignore[arg-type]


def read_nothing(split: int) -> Any:
    raise FileIsGone("a.txt", split)


def executor(emitter: Emitter[Any]) -> TridentSpoutExecutor:
    return TridentSpoutExecutor("shop", "orders", schema_of("id int"), emitter, Metrics())


def test_a_spout_that_breaks_its_contract_is_named() -> None:
    with pytest.raises(SpoutError) as raised:
        executor(Shapeless(in_tasks=False)).emit_batch(ATTEMPT, 5, None)
    assert about(raised.value) == {**ABOUT, "txid": 7, "state": None}


def test_so_is_one_whose_source_is_gone_in_a_task() -> None:
    (part,) = executor(Shapeless(in_tasks=True)).emit_batch(ATTEMPT, 5, None).chunks
    read = pickled(part).read
    with pytest.raises(TaskFailed) as raised, task_failures_told():
        list(telling(lambda batches: read(5), by_spout)(iter(())))
    cause = raised.value.failure.cause
    assert type(cause) is SpoutError  # what the user's own class is one of: the driver need not have that
    assert (str(cause), cause.spout) == ("file a.txt is gone at line 5", "orders")


class Sulking(TransactionalSink[None]):
    """Can't recover."""

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        raise OSError("no such bucket")

    def prepare(self, *_: Any) -> None: ...

    def commit(self, *_: Any) -> None: ...

    def abort(self, *_: Any) -> None: ...


def test_a_sink_that_cannot_recover_is_named() -> None:
    with pytest.raises(SinkError, match="could not recover") as raised:
        recover(InMemoryCoordination().acquire(), [SinkParticipant("bucket", Sulking())])
    assert (raised.value.state, raised.value.topology) == ("bucket", "in-memory")


def test_a_state_that_a_newer_leader_has_is_named() -> None:
    state = MemoryMapState[int]()
    coordination = InMemoryCoordination()
    store = coordination.acquire()
    state.recover(store.identity, store.epoch + 1)
    participant = AggregateParticipant(name="counts", state=state, aggregator=Count(), keys=1)
    with pytest.raises(TridentError, match="another leader runs") as raised:
        recover(store, [participant])
    assert (raised.value.state, raised.value.topology) == ("counts", store.identity.name)
