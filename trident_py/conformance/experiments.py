"""Experiments: a few calls, repeated with a kill or a pause at each place that these calls reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from attrs import frozen

from trident_py.conformance.play import STUCK_ENOUGH, Call, Found, Killed, Play, Stops, Suspended, Unusable
from trident_py.conformance.stops import Way
from trident_py.errors import TopologyError
from trident_py.rows.schema import shown

DISCOVERIES_MAX = 1_000

BROKEN_ENOUGH = 12
"""The number of violations after which an experiment tries no more stops in the same call."""


P = TypeVar("P", bound=Play)

Scenario: TypeAlias = Callable[[P], object]
Focus: TypeAlias = Callable[[Sequence[Call]], Sequence[int]]


def ensure_function(check: str, given: object, what: str) -> None:
    """Check that ``given``, the first argument of ``check``, can be called to make ``what``.

    Raises:
        TopologyError: it can't.
    """
    if not callable(given):
        raise TopologyError(f"{check} takes a function that makes {what}, such as a lambda, not {shown(given)}")


def every(*methods: str) -> Focus:
    """Return the focus on all calls of these methods; at least one, or no process would be stopped."""
    if not methods:
        raise ValueError("an experiment whose focus names no method stops nobody")
    return lambda calls: [number for number, call in enumerate(calls) if call.method in methods]


def nowhere(calls: Sequence[Call]) -> Sequence[int]:
    """Return an empty focus: leaders die only at lines where no leader has died before."""
    return ()


@frozen(kw_only=True)
class Experiment(Generic[P]):
    """A scenario that runs once undisturbed, and then once for each place in some of its calls.

    Attributes:
        scenario: makes the calls.
        focus: selects the calls to stop.
        resume: continues when the leader was paused; None: leaders are killed.
        again: whether a leader is also stopped when it reaches a line for the second and the last time.
    """

    scenario: Scenario[P]
    focus: Focus
    resume: Scenario[P] | None = None
    again: bool = False

    @property
    def way(self) -> Way:
        """The way in which leaders are stopped."""
        return Way.KILL if self.resume is None else Way.PAUSE


def checked(play: P, experiments: Sequence[Experiment[P]]) -> bool:
    """Run all experiments; return whether all of them were possible."""
    try:
        for experiment in experiments:
            calls = _explored(play, experiment, {})
            for number in experiment.focus(calls):
                play.broken = 0
                for stop in calls[number].stops(experiment.way, again=experiment.again):
                    if play.broken < BROKEN_ENOUGH:
                        _explored(play, experiment, {number: (stop,)})
    except Unusable:
        return False
    finally:
        play.end_children()
    return True


def _explored(play: P, experiment: Experiment[P], stops: Stops) -> Sequence[Call]:
    """Repeat one experiment until no leader dies at a line where none had died before; return its calls."""
    for _ in range(DISCOVERIES_MAX):
        calls = _tried(play, experiment, stops)
        if not play.discoveries:
            break
    return calls


def _tried(play: P, experiment: Experiment[P], stops: Stops) -> Sequence[Call]:
    """Run one experiment; return its calls."""
    play.begin(stops, play.start())
    work: Callable[[], object] = partial(experiment.scenario, play)
    while True:
        try:
            work()
            play.look()
        except Killed:
            work = play.finish
        except Suspended:
            assert experiment.resume is not None  # noqa: S101
            work = partial(experiment.resume, play)
        except Found as found:
            play.broken += 1
            play.findings.note(found.rule, [*play.steps, found.seen])
            if play.stuck >= STUCK_ENOUGH:
                raise Unusable from found
            calls, discoveries = play.calls, play.discoveries
            play.begin({}, "")
            play.recuperating = True
            play.recuperate()
            play.recuperating, play.discoveries = False, discoveries
            return calls
        else:
            play.tidy()
            return play.calls
