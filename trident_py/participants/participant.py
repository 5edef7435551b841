"""Participants: the common interface of all outputs, which prepare while a batch is processed, and commit in order.

The interface is that of a `TransactionalSink`. States are adapted to it: they prepare by collecting the change of the
batch, one row per key if possible. They commit by applying it to the state under the transaction's token.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import define, evolve, field, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken
from coordinators.values.error_text import error_text, quoted
from trident_py.errors import FailedException, SinkError, TridentError
from trident_py.interfaces.sinks import RowsSink, SinkTransaction, TransactionalSink
from trident_py.participants.capabilities import COMMITTING, Capabilities
from trident_py.rows.schema import arrow_schema
from trident_py.spark.frames import empty_frame
from trident_py.states.sql.fenced_table import FencedTable, TableSink
from trident_py.states.sql.shared import SharedTransaction
from trident_py.worker.counters import working_for

log = logging.getLogger(__name__)


Collect: TypeAlias = Callable[[DataFrame], pa.Table]
"""Runs the job of a frame and returns its rows: one action."""


Rows: TypeAlias = Sequence[tuple[Any, ...]]

Downstream: TypeAlias = Callable[[SinkTransaction, Rows, Rows], None]
"""The consumer of ``new_values_stream()``: it receives the rows of the commit phase. It also receives, as a separate
argument, the keys that only an older attempt of the transaction had changed, with their present values."""


def earliest(moments: Iterable[int | None]) -> int | None:
    """Return the earliest of the moments that are not None."""
    return min((moment for moment in moments if moment is not None), default=None)


class CommitRows(ABC):
    """Rows that an output receives within the commit of another output."""

    @abstractmethod
    def table(self) -> pa.Table:
        """Return the rows on the driver."""

    @abstractmethod
    def frame(self) -> DataFrame:
        """Return the rows as a Spark DataFrame."""


class Participant(ABC):
    """The end of one branch.

    Attributes:
        name: its name in the record, in errors and in ``explain()``.
        capabilities: its capabilities.
        downstream_outputs: the outputs that receive its new values.
        table: the database table that it commits to; None if it has no table.
        shared: the transaction in which it commits with others of the same database; None if it commits alone.
        recovered: the token of the last commit that a takeover found in it.
        replaces: whether its rows are a state's new values by its own keys, see `SinkTransaction.replaces`.
        is_told: whether that state also tells it the values that a rollback has restored.
    """

    name: str
    capabilities: Capabilities = COMMITTING
    downstream_outputs: tuple[Participant, ...] = ()
    table: FencedTable | None = None
    shared: SharedTransaction | None = None
    recovered: CommitToken | None = None
    replaces: bool = False
    is_told: bool = True

    @property
    def remembers(self) -> bool:
        """Whether it knows its last commit after a restart."""
        return self.capabilities.remembers

    @property
    def rolls_back(self) -> bool:
        """Whether a replay of its last transaction replaces the changes by an earlier attempt of it."""
        return self.capabilities.rolls_back

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
        """Return the next end of a window by time that contains committed rows.

        It is in milliseconds since 1970; None if there is no such window. Safe to call from any thread.
        """
        return earliest(output.next_window_at() for output in self.downstream_outputs)

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        """Refuse older epochs from now on; return the token of the last commit."""
        return None

    def pass_over(self, topology: TopologyIdentity, epoch: int, txids: range) -> None:
        """Record these transactions as committed, without any change."""

    @abstractmethod
    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> Any:
        """Do all work that can be done before the commit; return the receipt."""

    def keep(self, tx: SinkTransaction, rows: pa.Table) -> Any:
        """Return the receipt of rows that a shared job computed for the transaction; called instead of ``prepare``."""
        return rows

    def receipt_rows(self, receipt: Any) -> int | None:
        """Return the number of rows that the prepared change adds or changes; None if unknown."""
        return None

    def before_commit(self, tx: SinkTransaction, receipt: Any) -> Any:
        """Do the part of the commit of ``tx`` that comes before the transaction of its database; return the receipt.

        All outputs of a commit step do it before the first of them commits. The transaction before ``tx`` is committed.
        """
        return receipt

    def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
        """Make these transactions visible, in this order and in one atomic step; more than one only if it takes groups.

        Each keeps its own token: the last one can still be undone alone.
        """

    def try_commit(self, tx: SinkTransaction, receipt: Any) -> bool:
        """Commit ``tx``, a trial, and undo that; return false if that is impossible here.

        If it has a table, the caller has begun a transaction of its database, and rolls it back.
        """
        if self.table is None:
            return False
        self.commit_group([(tx, receipt)])
        return True

    def ensure_parkable(self, tx: SinkTransaction, *, may_have_begun: bool) -> None:
        """Check that a commit of ``tx``, an empty attempt, leaves no row of its transaction in this output.

        Args:
            tx: the next attempt of a transaction that is to be parked.
            may_have_begun: whether a commit of the transaction may have begun, by this leader or an earlier one.

        Raises:
            StateError, SinkError: rows would stay, or it is unknown.
        """

    def park(self, tx: SinkTransaction) -> None:
        """Commit ``tx`` without any change: only the token moves, and what an earlier attempt of it has changed goes.

        Raises:
            StateError, SinkError: rows of an earlier attempt would stay.
        """

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        """Prepare and commit the rows that follow from another output's new values, within its commit."""
        raise AssertionError(f"{self.name} takes no new values")

    def lock_holders(self) -> Sequence[str]:
        """Return the holders of locks that its commit waits for, if the database reports them. Safe on any thread."""
        return self.table.lock_holders() if self.table else ()

    def abort(self, tx: SinkTransaction, receipt: Any) -> None:
        """Abort the attempt, which will never commit."""

    def abandon(self) -> None:
        """Make later writes fail of a thread that still ran when the topology ended."""

    def close(self) -> None:
        """Release resources: the topology stops. Called on the commit thread, last."""


def everything(participants: Iterable[Participant]) -> list[Participant]:
    """Return these participants, and the outputs of their new values."""
    found: list[Participant] = []
    for participant in participants:
        found += [participant, *everything(participant.downstream_outputs)]
    return found


_LEAF = Capabilities(commits=False, remembers=False, prepares_again=True)


@define
class Leaf(Participant):
    """A stream without consumers: its batches are processed only for the effects of its operations."""

    name: str
    capabilities: Capabilities = _LEAF

    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> None:
        """Run the operations; the rows are discarded."""
        frame.write.format("noop").mode("overwrite").save()

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        rows.table()


@frozen
class NoRows(CommitRows):
    """No rows of these fields."""

    fields: StructType
    session: SparkSession | None = None

    def table(self) -> pa.Table:
        return arrow_schema(self.fields).empty_table()

    def frame(self) -> DataFrame:
        if self.session is None:
            raise AssertionError("the topology runs without Spark")
        return empty_frame(self.session, self.fields)


@define
class SinkParticipant(Participant):
    """A user's two-phase sink.

    Attributes:
        fields: of its rows.
        running: gives a block a session, in which it may run jobs; None: the topology runs without Spark.
    """

    name: str
    sink: TransactionalSink[Any]
    fields: StructType = field(factory=StructType)
    running: Callable[[], AbstractContextManager[SparkSession]] | None = None
    capabilities: Capabilities = field(init=False)
    _last: CommitToken | None = field(default=None, init=False)
    _tried: int = field(default=0, init=False)  # the last transaction whose commit has begun

    def __attrs_post_init__(self) -> None:
        keeps_token = self.sink.keeps_token
        self.capabilities = Capabilities(
            remembers=keeps_token,
            rolls_back=False,
            is_fenced=keeps_token,
            takes_groups=self.sink.takes_groups,
            takes_groups_shared=True,
            reads_all=False,
        )

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        """Call ``recover`` of the sink; every error names the sink."""
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
        self._last, self._tried = self.recovered, 0
        return self.recovered

    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> Any:
        """Call ``prepare`` of the sink; its return is the report."""
        return self.sink.prepare(tx, frame)

    def keep(self, tx: SinkTransaction, rows: pa.Table) -> Any:
        if not isinstance(self.sink, RowsSink):
            raise AssertionError(f"{self.name} shares no jobs")
        return self.sink.keep(tx, rows)

    def receipt_rows(self, receipt: Any) -> int | None:
        return self.sink.receipt_rows(receipt)

    def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
        if len(group) > 1 and self.sink.takes_groups:
            try:
                self._commit(group[-1][0], partial(self.sink.commit_group, group))
            except FailedException as error:
                log.debug("sink %s refuses a group, which commits one by one", self.name, exc_info=quoted(error))
            else:
                return
        for tx, receipt in group:
            working_for(tx.attempt)
            self._commit(tx, partial(self.sink.commit, tx, receipt))

    def _commit(self, tx: SinkTransaction, commit: Callable[[], None]) -> None:
        """Call ``commit``, whose last transaction is ``tx``, and keep that it was tried and done."""
        self._tried = max(tx.txid, self._tried)
        commit()
        if self._last is None or self._last < tx.token:
            self._last = tx.token

    def ensure_parkable(self, tx: SinkTransaction, *, may_have_begun: bool) -> None:
        can_park = None
        if self.sink.keeps_token:
            can_park = self.sink.can_park(evolve(tx, replaces=self.replaces and self.is_told))
            may_have_begun = self._may_have(tx)
        if can_park is False:
            raise SinkError("it has it, and can't remove its rows", state=self.name, attempt=tx.attempt)
        if can_park is None and may_have_begun:
            raise SinkError("it may have its rows, and can't tell", state=self.name, attempt=tx.attempt)

    def _may_have(self, tx: SinkTransaction) -> bool:
        return self._tried >= tx.txid or (self._last is not None and self._last.txid >= tx.txid)

    def park(self, tx: SinkTransaction) -> None:
        """Prepare no rows, and commit them at once."""
        if self.sink.can_park(tx) is None:
            tx.ensure_parkable(self._last)
        with self.running() if self.running else nullcontext() as session:
            self.apply(tx, NoRows(self.fields, session))

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        """Prepare and commit at once; if the commit fails, abort."""
        is_here = tx.parks is not None and isinstance(self.sink, RowsSink)
        receipt = self.keep(tx, rows.table()) if is_here else self.sink.prepare(tx, rows.frame())
        try:
            self._commit(tx, partial(self.sink.commit, tx, receipt))
        except BaseException:
            self._give_up(tx, receipt)
            raise

    def close(self) -> None:
        self.sink.close()

    def _give_up(self, tx: SinkTransaction, receipt: Any) -> None:
        try:
            self.sink.abort(tx, receipt)
        except Exception as error:
            # The failure of the commit matters more; the next takeover deletes the staged data.
            log.error("sink %s could not abort %s", self.name, tx.attempt, exc_info=quoted(error))

    def abort(self, tx: SinkTransaction, receipt: Any) -> None:
        self.sink.abort(tx, receipt)


@define(eq=False)
class SharedTransactions:
    """The databases that hold several states and sinks of a topology, which commit in one transaction per database.

    Attributes:
        together: the sets of branches that commit in one step, because they share a database.
    """

    together: tuple[frozenset[int], ...] = field(default=(), init=False)
    _by_branch: tuple[tuple[SharedTransaction, ...], ...] = field(default=(), init=False)
    _later: list[Callable[[], None]] | None = field(default=None, init=False)  # None: no transaction is open

    def join(self, participants: Sequence[Participant]) -> None:
        """Find the databases that several outputs share, or that a sink has for itself.

        A table's sink commits one transaction after the other; in a shared transaction it commits a group at once.
        ``participants`` are the outputs by branch. All of them, and their downstream outputs, have been recovered.
        """
        members: dict[object, list[tuple[Participant, FencedTable]]] = {}
        sinks = {id(each) for each in participants if isinstance(each, SinkParticipant)}
        for each in everything(participants):
            each.shared = None
            if (table := each.table) is not None:
                members.setdefault(table.identity, []).append((each, table))
        for found in members.values():
            is_shared = len(found) > 1 or id(found[0][0]) in sinks
            shared = SharedTransaction([table for _, table in found]) if is_shared else None
            if shared is not None:
                shared.join()
            for participant, _ in found:
                participant.shared = shared
        self._by_branch = tuple(tuple(_used_by([each])) for each in participants)
        self.together = tuple(_joined(self._by_branch))

    def is_in(self, participant: Participant) -> bool:
        """Return whether it, or an output of its new values, commits with others in a transaction that is open now."""
        return self._later is None or bool(_used_by([participant]))

    @contextmanager
    def committing(self, branches: Sequence[int], tx: SinkTransaction) -> Iterator[None]:
        """Commit the changes of these branches at the end of the block, or none of them if the block raises.

        Args:
            branches: the branches of one step.
            tx: its last transaction, for messages.
        """
        used = dict.fromkeys(shared for branch in branches for shared in self._of(branch))
        later: list[Callable[[], None]] = []
        with ExitStack() as open_transactions:
            for shared in used:
                open_transactions.enter_context(shared.committing(tx))
            self._later = later if used else None
            open_transactions.callback(self._end)
            yield
        for call in later:
            call()

    def tries(self, participant: Participant, tx: SinkTransaction, receipt: Any) -> bool:
        """Let an output commit a trial, and undo it; return false if it can't."""
        shared = _used_by([participant])
        if participant.table is not None and participant.shared is None:
            shared[SharedTransaction([participant.table])] = None
        self._later = []  # outputs of its new values in other databases are left out
        try:
            with ExitStack() as undone:
                for each in shared:
                    undone.enter_context(each.undoing(tx))
                return participant.try_commit(tx, receipt)
        finally:
            self._later = None

    def after(self, call: Callable[[], None]) -> None:
        """Call ``call`` when the open transactions have been committed; at once if none is open."""
        if self._later is None:
            call()
        else:
            self._later.append(call)

    def _of(self, branch: int) -> tuple[SharedTransaction, ...]:
        return self._by_branch[branch] if self._by_branch else ()

    def _end(self) -> None:
        self._later = None


def _used_by(participants: Sequence[Participant]) -> dict[SharedTransaction, None]:
    """Return the transactions in which these, or the outputs of their new values, commit; as an ordered set."""
    return dict.fromkeys(each.shared for each in everything(participants) if each.shared is not None)


def _joined(by_branch: Sequence[Sequence[SharedTransaction]]) -> list[frozenset[int]]:
    """Return the sets of branches that share a transaction, directly or through other branches."""
    found: list[tuple[frozenset[int], frozenset[SharedTransaction]]] = []
    for branch, shared in enumerate(by_branch):
        joined = [each for each in found if not each[1].isdisjoint(shared)]
        found = [each for each in found if each not in joined]
        branches = frozenset({branch}).union(*(each[0] for each in joined))
        found.append((branches, frozenset(shared).union(*(each[1] for each in joined))))
    return sorted((branches for branches, _ in found if len(branches) > 1), key=min)
