"""Experiments: a few calls, and then the same again with a death or a pause at each place that they come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from attrs import frozen

from trident_py.conformance.play import STUCK_ENOUGH, Call, Found, Killed, Play, Stops, Suspended, Unusable
from trident_py.conformance.stops import Way

DISCOVERIES_MAX = 1_000

BROKEN_ENOUGH = 12
"""So many broken rules tell enough of what becomes of one call of an experiment; with others it goes on."""


P = TypeVar("P", bound=Play)

Scenario: TypeAlias = Callable[[P], object]
Focus: TypeAlias = Callable[[Sequence[Call]], Sequence[int]]


def every(*methods: str) -> Focus:
    """All calls of these methods; there has to be one, or nobody would be stopped at all."""
    if not methods:
        raise ValueError("an experiment whose focus names no method stops nobody")
    return lambda calls: [number for number, call in enumerate(calls) if call.method in methods]


def nowhere(calls: Sequence[Call]) -> Sequence[int]:
    """No call: leaders die only where nobody has died before."""
    return ()


@frozen(kw_only=True)
class Experiment(Generic[P]):
    """Something that is done once undisturbed, and then again for each place in some of its calls.

    Attributes:
        scenario: the calls.
        focus: those that are stopped.
        resume: what is done when the leader was paused; None: leaders are killed.
        again: whether a leader is also stopped when it comes to a line for the second, and for the last time.
    """

    scenario: Scenario[P]
    focus: Focus
    resume: Scenario[P] | None = None
    again: bool = False

    @property
    def way(self) -> Way:
        """How leaders are stopped."""
        return Way.KILL if self.resume is None else Way.PAUSE


def checked(play: P, experiments: Sequence[Experiment[P]]) -> bool:
    """Make all experiments; whether none had to be left out."""
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
    """Make one experiment, again and again until nobody dies for having come to a line where nobody had died before."""
    for _ in range(DISCOVERIES_MAX):
        calls = _tried(play, experiment, stops)
        if not play.discoveries:
            break
    return calls


def _tried(play: P, experiment: Experiment[P], stops: Stops) -> Sequence[Call]:
    """Make one experiment; returns its calls."""
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
