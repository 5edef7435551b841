"""What a job says about the rows that it reads: the reports of its reading tasks, and a fingerprint of the batch.

An emitting task gives its rows and, last, one row that carries only its report in the hidden column ``_report``: its
acker edge, or a note of what it found out. `Reports` collects them below the filter that drops those rows, by
``observe``: so a task is heard only if what it gave was read to the end, by the very job that uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeout
from functools import reduce
from operator import add
from typing import Any

from attrs import define, field, frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as t

from coordinators.fingerprint import NO_ROWS, Fingerprint

REPORT = "_report"
OBSERVED_WITHIN_SECS = 30.0


@frozen
class Watched:
    """A part of a batch that is observed.

    Attributes:
        tasks: how many tasks report, once each.
        rows: how many rows it has, where that is known before.
    """

    observation: Observation
    tasks: int
    rows: int | None = None


@define
class Reports:
    """What is heard of one job. The methods that tell it are called after the job has returned.

    Attributes:
        edges: one for each reading task, in order of the extents; none for tasks that give notes.
        fields: what a fingerprint is made of; None: nobody wants one.
        rows: how many rows the reading tasks gave.
    """

    edges: Sequence[int] = ()
    fields: t.StructType | None = None
    rows: int = field(default=0, init=False)
    _watched: list[Watched] = field(factory=list, init=False)
    _unseen: bool = field(default=False, init=False)
    _seen: list[tuple[Watched, dict[str, Any] | None]] | None = field(default=None, init=False)

    def observe_tasks(self, frame: DataFrame, tasks: int) -> DataFrame:
        """The rows of ``tasks`` reading tasks, without their reports."""
        observation, is_row = Observation(), F.col(REPORT).isNull()
        self._watched.append(Watched(observation, tasks))
        heard = [F.collect_list(REPORT).alias("reports"), F.count_if(is_row).alias("rows")]
        return frame.observe(observation, *heard, *self._hashes(is_row)).where(is_row).drop(REPORT)

    def observe_table(self, frame: DataFrame, rows: int) -> DataFrame:
        """``rows`` rows that were emitted on the driver: nobody reports, but there may be a fingerprint."""
        if self.fields is None or not rows:
            return frame
        observation = Observation()
        self._watched.append(Watched(observation, 0, rows))
        return frame.observe(observation, F.count(F.lit(1)).alias("rows"), *self._hashes(F.lit(True)))

    def leave(self, frame: DataFrame) -> DataFrame:
        """A DataFrame as it is: of that a job reads only the columns that it needs, and observing would end that."""
        self._unseen = True
        return frame

    def heard(self) -> list[int]:
        """The edges that were reported.

        A node that the optimiser proved superfluous was not run and has nothing to report: then all were heard, since
        nothing of it was needed.
        """
        told = self._told()
        if any(metrics is None for watched, metrics in told if watched.tasks):
            return list(self.edges)
        return [int(report) for report in self._reports()]

    def notes(self) -> tuple[str, ...]:
        """The notes that tasks gave.

        Raises:
            RuntimeError: they are not one of each task, so nobody knows what was read.
        """
        notes, tasks = self._reports(), sum(watched.tasks for watched in self._watched)
        if len(notes) != tasks:
            raise RuntimeError(f"Spark tells of {len(notes)} notes of {tasks} tasks that have emitted a batch")
        return tuple(notes)

    def fingerprint(self) -> Fingerprint | None:
        """The fingerprint of all rows; None where it can't be told.

        A task that Spark ran twice, for rows that were lost on their way, is observed twice: then it can't.
        """
        found = [self._fingerprint(watched, metrics) for watched, metrics in self._told()]
        known = [each for each in found if each is not None]
        if self.fields is None or self._unseen or len(known) < len(found):
            return None
        return reduce(add, known, NO_ROWS)

    def _told(self) -> list[tuple[Watched, dict[str, Any] | None]]:
        if self._seen is None:
            self._seen = [(watched, _get(watched.observation)) for watched in self._watched]
            self.rows = sum(metrics["rows"] for watched, metrics in self._seen if metrics and watched.tasks)
        return self._seen

    def _reports(self) -> list[str]:
        return [report for _, metrics in self._told() for report in (metrics or {}).get("reports", ())]

    def _fingerprint(self, watched: Watched, metrics: dict[str, Any] | None) -> Fingerprint | None:
        if not metrics or "high" not in metrics or watched.rows not in (None, metrics["rows"]):
            return None
        reports = metrics.get("reports", ())
        if len(reports) != watched.tasks or len(set(reports)) != watched.tasks:
            return None
        return Fingerprint(metrics["rows"], ((metrics["high"] or 0) << 32) + (metrics["low"] or 0))

    def _hashes(self, is_row: Column) -> list[Column]:
        if self.fields is None:
            return []
        # The sum of the hashes as Decimal(20, 0), in two halves that are sums of longs: a tenth of the time.
        row = F.when(is_row, F.xxhash64(*map(_hashable, self.fields.fields)))
        return [
            F.sum(F.shiftright(row, 32)).alias("high"),
            F.sum(row.bitwiseAND(F.lit(0xFFFFFFFF))).alias("low"),
        ]


def _hashable(column: t.StructField) -> Column:
    value = F.col(f"`{column.name.replace('`', '``')}`")
    return F.to_json(F.struct(value)) if _holds_map(column.dataType) else value


def _holds_map(kind: t.DataType) -> bool:
    match kind:
        case t.MapType():
            return True
        case t.ArrayType():
            return _holds_map(kind.elementType)
        case t.StructType():
            return any(_holds_map(each.dataType) for each in kind.fields)
    return False


def _get(observation: Observation) -> dict[str, Any] | None:
    # `get` waits for ever if Spark lost the metrics; and it raises if the node was optimised away.
    waiter = ThreadPoolExecutor(1, thread_name_prefix="trident-observation")
    try:
        return dict(waiter.submit(lambda: observation.get).result(OBSERVED_WITHIN_SECS))
    except (PySparkException, Py4JJavaError):
        return None
    except WaitTimeout:
        return {"reports": [], "rows": 0}
    finally:
        waiter.shutdown(wait=False)
