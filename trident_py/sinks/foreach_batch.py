"""`ForeachBatchSink`: calls a function with the rows of each transaction, in the commit phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, ClassVar

from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey, TransactionalSink
from trident_py.rows.schema import shown
from trident_py.spark.frames import kept
from trident_py.spark.jobs import described

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ForeachBatchSink(TransactionalSink["DataFrame"]):
    """Calls ``fn(frame, tx)`` for each transaction, in order, at least once, even if it has no rows.

    ``fn`` runs on the driver, in the commit phase: for one transaction at a time, after the previous one was committed.
    The rows are computed before, in the processing phase, and kept: ``fn`` may read them several times, and gets the
    same rows. If it raises, the attempt fails, and is processed and committed again.

    A transaction is repeated if the process died, or another output failed, before the commit was on record. Then
    ``tx.key`` is the same. It never names another transaction: if ``fn`` stores it in the same step as the rows, it
    writes them exactly once. `docs/how-to/foreach-batch.md` has the recipe.

    Args:
        fn: a function of the rows of a transaction and a `SinkTransaction`; its result is ignored.

    Raises:
        TopologyError: ``fn`` can't be called with these two.
    """

    keeps_token: ClassVar[bool] = False

    def __init__(self, fn: Callable[[DataFrame, SinkTransaction], object]) -> None:
        if not callable(fn) or not _takes_two(fn):
            raise TopologyError(f"a function of a DataFrame and a SinkTransaction is needed, not {shown(fn)}")
        self._fn = fn
        self._topology = ""

    def __repr__(self) -> str:
        return f"ForeachBatchSink({self._name})"

    @property
    def _name(self) -> str:
        return getattr(self._fn, "__qualname__", type(self._fn).__qualname__)

    def details(self) -> Mapping[str, Json]:
        """Return the name of the function."""
        return {"function": self._name}

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Return None: the last commit is unknown."""
        self._topology = topology.name
        return None

    def prepare(self, tx: SinkTransaction, frame: DataFrame) -> DataFrame:
        return kept(frame)

    def commit(self, tx: SinkTransaction, receipt: DataFrame) -> None:
        with described(receipt.sparkSession, f"{self._topology}: {tx.attempt} → {self!r}"):
            self._fn(receipt, tx)

    def abort(self, tx: SinkTransaction, receipt: DataFrame | None) -> None:
        """Do nothing: nothing was written, and Spark drops the rows when they are no longer referenced."""


def _takes_two(fn: Callable[..., object]) -> bool:
    """Return whether ``fn`` can be called with two arguments; True if its signature is unknown."""
    try:
        signature(fn).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # it is written in C
        return True
    return True
