"""What participants are made with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from attrs import field, frozen
from pyspark.sql import SparkSession

from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import State
from trident_py.participants.shared import SharedTransactions


class CommitSpark(ABC):
    """Spark, for jobs within a commit."""

    @abstractmethod
    def running(self) -> AbstractContextManager[SparkSession]:
        """Let the block run jobs in the session that it is given."""


@frozen(kw_only=True)
class ParticipantContext:
    """What is there for a participant to use.

    Attributes:
        spark: None where the topology runs without it.
        states: by name; all of them are there once a batch commits.
        transactions: those of the databases in which several outputs commit together.
    """

    config: TridentConfig
    metrics: Metrics
    spark: CommitSpark | None = None
    states: dict[str, State] = field(factory=dict)
    transactions: SharedTransactions = field(factory=SharedTransactions)
