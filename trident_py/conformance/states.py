"""`check_state`: checks that a state keeps its factory's promise, by killing and pausing it everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from pyspark.sql.types import StructType

from trident_py.conformance import sink_experiments as leaders
from trident_py.conformance.child_process import serve
from trident_py.conformance.children import Nursery
from trident_py.conformance.experiments import Experiment, checked, ensure_function, every, nowhere
from trident_py.conformance.report import Findings, Report
from trident_py.conformance.state_play import Aggregated, StatePlay, StateSubject, state_ledger
from trident_py.errors import TopologyError
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.states import AT_LEAST_ONCE, UNLESS_PAUSED, StateFactory, StateKind, promised_kind
from trident_py.rows.schema import schema_of, shown

ReadRows: TypeAlias = Callable[[], Sequence[Sequence[Any]]]


def check_state(
    make_factory: Callable[[], StateFactory],
    read_rows: ReadRows,
    *,
    schema: str | StructType,
    aggregator: CombinerAggregator[Any] | ReducerAggregator[Any],
) -> Report:
    """Check that a state keeps its factory's promise.

    Leaders of a topology aggregate into one store, as ``persistent_aggregate`` does, and are killed before, after and
    at each line of each call. A state that promises exactly-once without more is also paused there, while another
    leader takes over. No Spark is needed.

    Args:
        make_factory: makes the factory; called in each process, always for the same store, which is empty at first.
        read_rows: returns the rows that a reader sees: for each key its values, and then the value. Called in this
            process; for states in memory, in the state's process.
        schema: the fields of the rows. The fields that the aggregator reads are its input. A field with its name
            (``count``) is the value's, and all others are the key.
        aggregator: aggregates the rows of a key.

    Returns:
        The report.

    Raises:
        TopologyError: the schema lacks a field that the aggregator reads, an argument has the wrong type, or the store
            is not empty.
    """
    ensure_function("check_state", make_factory, "a state factory")
    factory = make_factory()
    if not isinstance(factory, StateFactory):
        raise TopologyError(f"check_state takes a function that makes a state factory, this one made {shown(factory)}")
    return _checked(factory, make_factory, read_rows, Aggregated.of(schema_of(schema), aggregator))


def _checked(
    factory: StateFactory, make_factory: Callable[[], StateFactory], read_rows: ReadRows, aggregated: Aggregated
) -> Report:
    kind = promised_kind(factory)
    findings, make = Findings(), partial(StateSubject, make_factory, read_rows, aggregated)
    with Nursery.open(partial(serve, make=make), lambda: None) as nursery:
        play = StatePlay(
            nursery,
            findings,
            schema=aggregated.rows,
            read_rows=read_rows,
            ledger=state_ledger(aggregated),
            kind=kind,
            volatile=factory.volatile,
            aggregated=aggregated,
        )
        if not factory.volatile:
            play.ensure_empty()
        fenced = kind is StateKind.FENCED and not factory.volatile
        complete = checked(play, [*KILLED, *(PAUSED if fenced else ())])
    return findings.report("state", _promise(factory, kind), complete=complete)


def _promise(factory: StateFactory, kind: StateKind) -> str:
    own = factory.guarantee
    return UNLESS_PAUSED if kind is not StateKind.NON_TRANSACTIONAL and own == AT_LEAST_ONCE else own


KILLED: Sequence[Experiment[StatePlay]] = (
    Experiment(scenario=leaders.begun, focus=nowhere),
    Experiment(scenario=leaders.one, focus=every("commit"), again=True),
    Experiment(scenario=leaders.answer_lost, focus=lambda calls: every("commit")(calls)[1:2]),
    Experiment(scenario=leaders.empty, focus=lambda calls: every("commit", "recover")(calls)[:2]),
    Experiment(scenario=leaders.committed_and_taken_over, focus=every("make", "recover")),
)
PAUSED: Sequence[Experiment[StatePlay]] = (
    Experiment(scenario=leaders.one, focus=every("commit"), resume=leaders.before_replay),
    Experiment(scenario=leaders.one, focus=every("commit"), resume=leaders.after_replay),
    Experiment(scenario=leaders.taken_over, focus=every("recover"), resume=leaders.after_replay),
    Experiment(scenario=leaders.overtaken, focus=every("recover"), resume=leaders.after_commit),
)
