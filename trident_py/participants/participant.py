"""Whatever takes part in commits, in one shape: prepared while a batch is processed, committed in order.

The shape is that of a `TransactionalSink`. States are fitted into it here: preparing collects the change of the batch,
one row per key where that can be; committing applies it to the state under the transaction's token.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import define, field
from pyspark.sql import DataFrame

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken
from coordinators.values.error_text import error_text, quoted
from trident_py.errors import SinkError, TridentError
from trident_py.interfaces.sinks import RowsSink, SinkTransaction, TransactionalSink
from trident_py.participants.capabilities import COMMITTING, Capabilities
from trident_py.states.sql.fenced_table import FencedTable, TableSink
from trident_py.states.sql.shared import SharedTransaction
from trident_py.worker.counters import working_for

log = logging.getLogger(__name__)

Collect: TypeAlias = Callable[[DataFrame], pa.Table]
"""Runs the job of a frame and gives its rows: one action."""


Rows: TypeAlias = Sequence[tuple[Any, ...]]

Downstream: TypeAlias = Callable[[SinkTransaction, Rows, Rows], None]
"""What follows ``new_values_stream()``: takes the rows of the commit phase; and by itself, the keys that only an older
attempt of the transaction had changed, with their values now."""

Columns: TypeAlias = Sequence[Sequence[Any]]
"""The values of each field, of all rows."""


def earliest(moments: Iterable[int | None]) -> int | None:
    """Return the first of the moments that there are."""
    return min((moment for moment in moments if moment is not None), default=None)


class CommitRows(ABC):
    """Rows that an output is given within the commit of another one."""

    @abstractmethod
    def table(self) -> pa.Table:
        """Return them where they are: on the driver."""

    @abstractmethod
    def frame(self) -> DataFrame:
        """Return them as a frame."""


class Participant(ABC):
    """One branch's end.

    Attributes:
        name: names it in the record, in errors and in ``explain()``.
        capabilities: what it can do.
        downstream_outputs: those that its new values go into.
        table: that of a database which it commits to; None: it has none.
        shared: the transaction in which it commits with others of the same database; None: it commits by itself.
        recovered: the token of the last commit that a takeover found in it.
    """

    name: str
    capabilities: Capabilities = COMMITTING
    downstream_outputs: tuple[Participant, ...] = ()
    table: FencedTable | None = None
    shared: SharedTransaction | None = None
    recovered: CommitToken | None = None

    @property
    def remembers(self) -> bool:
        """Whether it knows its last commit after a restart."""
        return self.capabilities.remembers

    @property
    def is_volatile(self) -> bool:
        """Whether it is empty at each start."""
        return self.capabilities.is_volatile

    @property
    def takes_groups(self) -> bool:
        """Whether several transactions may commit at once.

        A skipped transaction produces no new values. So an output with new values takes groups only if every downstream
        output skips the same transactions, which holds when they share one database transaction.
        """
        if self.shared is None:
            return self.capabilities.takes_groups
        within = all(output.shared is self.shared and output.takes_groups for output in self.downstream_outputs)
        return self.capabilities.takes_groups_shared and within

    def next_window_at(self) -> int | None:
        """Return when the next window by time ends that holds rows of what it has committed.

        Milliseconds since 1970; None: there is no such window. Any thread may ask.
        """
        return earliest(output.next_window_at() for output in self.downstream_outputs)

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        """Refuse older epochs from now on; returns the token of the last commit."""
        return None

    def pass_over(self, topology: TopologyIdentity, epoch: int, txids: range) -> None:
        """Take these transactions for committed, without any change."""

    @abstractmethod
    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> Any:
        """Do everything that can be done before the commit; returns the receipt."""

    def keep(self, tx: SinkTransaction, rows: pa.Table) -> Any:
        """Return the receipt of rows that a shared job has made for the transaction, in place of ``prepare``."""
        return rows

    def receipt_rows(self, receipt: Any) -> int | None:
        """Return how many rows what was prepared adds or changes; None: that isn't known."""
        return None

    def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
        """Make these visible, in this order and one atomic step; more than one only where it takes groups.

        Each keeps its own token: the last of them can still be undone by itself.
        """

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        """Prepare and commit what comes of another one's new values, within its commit."""
        raise AssertionError(f"{self.name} takes no new values")

    def lock_holders(self) -> Sequence[str]:
        """Return who holds the locks that its commit waits for, as far as its database says. Any thread may ask."""
        return self.table.lock_holders() if self.table else ()

    def abort(self, tx: SinkTransaction, receipt: Any) -> None:
        """Give up the attempt, which will never commit."""

    def abandon(self) -> None:
        """Fail what a thread does from now on that was still at work here when the topology ended."""

    def close(self) -> None:
        """Close: the topology stops. Called on the commit thread, last."""


def everything(participants: Iterable[Participant]) -> list[Participant]:
    """Return these participants, and those that their new values go into."""
    found: list[Participant] = []
    for participant in participants:
        found += [participant, *everything(participant.downstream_outputs)]
    return found


_LEAF = Capabilities(commits=False, remembers=False, prepares_again=True)


@define
class Leaf(Participant):
    """A stream with nothing attached: its batches are processed, for what its operations do on the way."""

    name: str
    capabilities: Capabilities = _LEAF

    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> None:
        """Run the operations; the rows go nowhere."""
        frame.write.format("noop").mode("overwrite").save()

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        """Run the operations; the rows go nowhere."""
        rows.table()


@define
class SinkParticipant(Participant):
    """A user's two-phase sink."""

    name: str
    sink: TransactionalSink[Any]
    capabilities: Capabilities = field(init=False)

    def __attrs_post_init__(self) -> None:
        keeps_token = self.sink.keeps_token
        self.capabilities = Capabilities(
            remembers=keeps_token, is_fenced=keeps_token, takes_groups_shared=True, reads_all=False
        )

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        """Have the sink recover; whatever it raises names it."""
        try:
            self.recovered = self.sink.recover(topology, epoch)
        except TridentError:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise SinkError(
                f"topology {topology.name!r}: sink {self.name!r} could not recover, {error_text(error)}; "
                f"the topology was not started",
                topology=topology.name,
                state=self.name,
            ) from error
        self.table = self.sink.table if isinstance(self.sink, TableSink) else None
        return self.recovered

    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> Any:
        """Have the sink stage the frame as it likes; returning is its report."""
        return self.sink.prepare(tx, frame)

    def keep(self, tx: SinkTransaction, rows: pa.Table) -> Any:
        """Have the sink keep them."""
        if not isinstance(self.sink, RowsSink):
            raise AssertionError(f"{self.name} shares no jobs")
        return self.sink.keep(tx, rows)

    def receipt_rows(self, receipt: Any) -> int | None:
        """Ask the sink."""
        return self.sink.receipt_rows(receipt)

    def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
        """Have the sink make it visible."""
        for tx, receipt in group:
            working_for(tx.attempt)
            self.sink.commit(tx, receipt)

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        """Do both phases at once; what can't commit is given up."""
        receipt = self.sink.prepare(tx, rows.frame())
        try:
            self.sink.commit(tx, receipt)
        except BaseException:
            self._give_up(tx, receipt)
            raise

    def close(self) -> None:
        """Have the sink let go of what it has open."""
        self.sink.close()

    def _give_up(self, tx: SinkTransaction, receipt: Any) -> None:
        try:
            self.sink.abort(tx, receipt)
        except Exception as error:
            # The failure of the commit is what counts; what was staged is swept at the next takeover.
            log.error("sink %s could not give up %s", self.name, tx.attempt, exc_info=quoted(error))

    def abort(self, tx: SinkTransaction, receipt: Any) -> None:
        """Have the sink give it up."""
        self.sink.abort(tx, receipt)
