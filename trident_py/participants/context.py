"""The context with which participants are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from attrs import field, frozen
from pyspark.sql import SparkSession

from coordinators.values.attempt import TransactionAttempt
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import State
from trident_py.participants.participant import SharedTransactions


class CommitSpark(ABC):
    """Spark, for jobs within a commit."""

    @abstractmethod
    def running(self, attempt: TransactionAttempt | None = None) -> AbstractContextManager[SparkSession]:
        """Return a context manager that gives its block a session, in which the block may run jobs.

        If the jobs belong to ``attempt``, they are cancelled with it, and its commit is silent while no task ends.
        """


@frozen(kw_only=True)
class ParticipantContext:
    """The resources of a participant.

    Attributes:
        spark: runs Spark jobs; None if the topology runs without Spark.
        states: the states by name; all of them exist when the first batch commits.
        transactions: the transactions of databases in which several outputs commit together.
    """

    config: TridentConfig
    metrics: Metrics
    spark: CommitSpark | None = None
    states: dict[str, State] = field(factory=dict)
    transactions: SharedTransactions = field(factory=SharedTransactions)
