"""Odd exceptions of user code, at each place that calls it: each ends what it is about, by name, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pytest

from coordinators.status.listener import TridentListener
from coordinators.values.batch_coordinator import BatchCoordinator
from trident_py.errors import PoisonBatchError, SpoutError, TridentError
from trident_py.interfaces.config import RetryPolicy, TridentConfig
from trident_py.interfaces.spouts import Emitter, ITridentSpout
from trident_py.interfaces.states import State, StateFactory, StateUpdater
from trident_py.operations.builtin import Count
from trident_py.states.memory import MemoryMapState
from trident_py.testing import LocalCoordination
from trident_py.topology import TridentTopology


class BrokenText(Exception):
    """Its text can't be had."""

    def __str__(self) -> str:
        raise SystemExit(7)

    __repr__ = __str__


class Unpicklable(Exception):
    """It can't travel."""

    def __init__(self, lock: object) -> None:
        super().__init__("a lock")
        self.lock = lock

    def __reduce__(self) -> NoReturn:
        raise TypeError("not to be pickled")


class NoNotes(Exception):
    """It takes no notes."""

    def add_note(self, note: str, /) -> NoReturn:
        raise RuntimeError("no notes")


class BaseOnly(BaseException):
    """It is no `Exception`."""


def _its_own_cause() -> Exception:
    error = ValueError("a loop")
    error.__cause__ = error
    return error


ODD: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(0),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "BrokenText": BrokenText,
    "huge ValueError": lambda: ValueError("x" * 5_000_000),
    "surrogate ValueError": lambda: ValueError("M\udcfcller"),
    "control ValueError": lambda: ValueError("a\0b\r\nERROR forged \x1b[31m"),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("g", [ValueError("1"), SystemExit("2")]),
    "Unpicklable": lambda: Unpicklable(threading.Lock()),
    "NoNotes": NoNotes,
    "BaseOnly": BaseOnly,
    "MemoryError": MemoryError,
    "AssertionError": AssertionError,
    "loop ValueError": _its_own_cause,
}


class Odd(
    ITridentSpout[int], BatchCoordinator[int], Emitter[int], StateFactory, State, StateUpdater[Any], TridentListener
):
    """A topology's user code, which raises at one place."""

    output_schema = "n bigint"

    def __init__(self, place: str, make: Callable[[], BaseException]) -> None:
        self.place, self.make = place, make

    def hit(self, place: str) -> None:
        if place == self.place:
            raise self.make()

    def get_coordinator(self, *_: object) -> BatchCoordinator[int]:
        return self

    def get_emitter(self, *_: object) -> Emitter[int]:
        return self

    def is_ready(self, txid: int) -> bool:
        self.hit("is_ready")
        return txid <= 2

    def initialize_transaction(self, txid: int, prev_metadata: int | None, curr_metadata: int | None) -> int:
        self.hit("initialize_transaction")
        return txid

    def emit_batch(self, attempt: Any, metadata: int, collector: Any) -> None:
        self.hit("emit_batch")
        collector.emit((metadata,))
        self.hit("emit_batch after rows")

    def success(self, _: object) -> None:
        self.hit("success")

    def close(self) -> None:
        self.hit("close")

    def make_state(self, *_: object) -> State:
        return self

    def begin_commit(self, txid: int) -> None:
        self.hit("begin_commit")

    def commit(self, txid: int) -> None:
        self.hit("commit")

    def update_state(self, state: Any, tuples: Sequence[Any], collector: Any) -> None:
        self.hit("update_state")

    def on_committed(self, event: object) -> None:
        self.hit("listener")

    def topology(self) -> TridentTopology:
        hit = self.hit

        class Counting(Count):
            def init(self, row: Any) -> int:
                hit("aggregator")
                return 1

        def doubled(row: Any) -> tuple[int]:
            hit("map")
            return (2 * row.n,)

        topology = TridentTopology("odd")
        stream = topology.new_stream("s", self).map(doubled, "k bigint")
        stream = stream.flat_map(lambda row: [hit("flat_map"), (row.k,)][1:], "k bigint")
        stream = stream.filter(lambda row: hit("filter") is None)
        if self.place == "aggregator":
            stream.group_by("k").persistent_aggregate(MemoryMapState.factory(), Counting(), "c")
        else:
            stream.partition_persist(self, self, ["k"])
        return topology


def ended(place: str, make: Callable[[], BaseException]) -> BaseException | None:
    """Run a topology that raises at ``place``; return what ended it."""
    config = TridentConfig(retry=RetryPolicy(attempts=2, backoff=0.0), source_patience=0.001)
    user = Odd(place, make)
    query = user.topology().start(config, coordination=LocalCoordination(), listeners=[user])
    try:
        query.process_all_available(timeout=30)
    except TridentError:
        pass
    finally:
        query.stop(drain=False)
    assert str(query.status).encode()
    return query.exception()


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "place",
    [
        *["emit_batch", "emit_batch after rows", "map", "flat_map", "filter", "aggregator"],
        *["update_state", "begin_commit", "commit"],
    ],
)
def test_it_counts_against_its_batch_and_is_named_by_its_class(place: str, odd: str) -> None:
    error = ended(place, ODD[odd])
    assert isinstance(error, PoisonBatchError)
    _check_text(error, odd)
    assert "failed 2 times" in str(error)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", ["is_ready", "initialize_transaction", "success"])
def test_it_ends_the_topology_by_the_name_of_the_spout(place: str, odd: str) -> None:
    error = ended(place, ODD[odd])
    assert isinstance(error, SpoutError)
    _check_text(error, odd)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", ["listener", "close"])
def test_it_ends_nothing_where_it_is_not_about_a_batch(place: str, odd: str) -> None:
    assert ended(place, ODD[odd]) is None


def _check_text(error: BaseException, odd: str) -> None:
    text = str(error)
    assert odd.split()[-1] in text
    assert text.isprintable()
    assert len(text.encode()) < 6_000
