"""A state whose commit of the second transaction happens, and says that it didn't."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from trident_py import PostgresState, SinkTransaction, TridentConfig
from trident_py.errors import StoreBusyException
from trident_py.interfaces.context import Metrics


@frozen
class ForgetfulState(PostgresState):
    """Notes its commits."""

    commits: list[str] = field(factory=list, kw_only=True, eq=False)

    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> Any:
        state: Any = super().make_state(conf, metrics, partition_index, num_partitions)
        sound = state._commit

        def forgetting(tx: SinkTransaction) -> None:
            sound(tx)
            self.commits.append(str(tx.attempt))
            if str(tx.attempt) == "2:0":
                raise StoreBusyException("nobody knows")

        state._commit = forgetting
        return state
