"""The capabilities of an output: decided once, when it is made, and passed on unchanged to all code that needs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from attrs import evolve, frozen


@frozen(kw_only=True)
class Capabilities:
    """The capabilities of an output.

    Attributes:
        commits: it takes part in the commit phase.
        remembers: it knows its last commit after a restart.
        rolls_back: a replay of its last transaction replaces the changes by an earlier attempt of it; otherwise the
            rows that were committed first stay.
        is_volatile: it is empty at each start.
        keeps_alive: its commit is our own code and makes progress, so a long commit is not a silence.
        is_fenced: it refuses a late commit of a process that no longer leads.
        takes_groups: it commits several transactions in one atomic step, by itself.
        takes_groups_shared: it does so inside a database transaction that it shares with other outputs.
        prepares_again: ``prepare`` may be called again for an attempt after it has raised.
        stages_in_commit: its commit begins with a Spark job, which only stages.
        reads_all: ``prepare`` runs one action of ours that reads the whole frame, so Spark tasks can report.
    """

    commits: bool = True
    remembers: bool = True
    rolls_back: bool = True
    is_volatile: bool = False
    keeps_alive: bool = False
    is_fenced: bool = True
    takes_groups: bool = False
    takes_groups_shared: bool = False
    prepares_again: bool = False
    stages_in_commit: bool = False
    reads_all: bool = True

    def committing_with(self, others: Iterable[Self]) -> Self:
        """Return the capabilities of this output when ``others`` commit within its commits."""
        them = list(others)
        return evolve(
            self,
            keeps_alive=self.keeps_alive and all(other.keeps_alive for other in them if other.commits),
            is_fenced=self.is_fenced and all(other.is_fenced for other in them),
            stages_in_commit=self.stages_in_commit or any(other.stages_in_commit for other in them),
        )


COMMITTING = Capabilities()
"""An output that commits, remembers and is fenced."""
