"""What a job says about the rows that it reads: the reports of its reading tasks, and a fingerprint of the batch.

An emitting task gives its rows and, last, one row that carries only its report in the hidden column ``_report``: a
`TaskReport`, or a note of what it found out. `Reports` collects them below the filter that drops those rows, by
``observe``: so a task is heard only if what it gave was read to the end, by the very job that uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from operator import add
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as t

from coordinators.fingerprint import NO_ROWS, Fingerprint
from trident_py.engine.emitted import Extents
from trident_py.spark.asking import answer_within

REPORT = "_report"
OBSERVED_WITHIN_SECS = 30.0


@frozen
class TaskReport:
    """What a task says that has read its extent: its acker edge, how many rows it read, and a hash of them."""

    edge: int
    rows: int
    hash: int

    @classmethod
    def of(cls, text: str) -> TaskReport:
        """From a row."""
        return cls(*map(int, text.split()))

    @property
    def text(self) -> str:
        """As it stands in a row."""
        return f"{self.edge} {self.rows} {self.hash}"


@define
class Watched:
    """A part of a batch that is observed.

    Attributes:
        part: the extents of reading tasks, or a table of the driver's.
    """

    part: Extents | pa.Table
    observation: Observation = field(factory=Observation, init=False)

    @cached_property
    def metrics(self) -> dict[str, Any] | None:
        """What was observed; None: Spark found that nothing of it was needed. Asked for after the job."""
        return _get(self.observation)

    @property
    def tasks(self) -> int:
        """How many tasks report."""
        return len(self.part.extents) if isinstance(self.part, Extents) else 0

    @property
    def is_telling(self) -> bool:
        """Whether each task gives a `TaskReport`."""
        return isinstance(self.part, Extents) and not self.part.noting

    @property
    def is_hashed(self) -> bool:
        """Whether Spark hashes the rows, as those who read them don't."""
        return not (isinstance(self.part, Extents) and self.part.fingerprinting and self.is_telling)

    @property
    def reports(self) -> list[str]:
        """What the tasks reported, as it came."""
        return list((self.metrics or {}).get("reports", ()))

    @property
    def told(self) -> set[TaskReport]:
        """What the tasks told, each once: Spark may run one again, for rows that were lost on their way."""
        return {TaskReport.of(report) for report in self.reports} if self.is_telling else set()

    @property
    def rows(self) -> int:
        """How many rows there were."""
        return sum(report.rows for report in self.told) if self.is_telling else (self.metrics or {}).get("rows", 0)

    @property
    def fingerprint(self) -> Fingerprint | None:
        """That of its rows; None where it can't be told."""
        if self.metrics is None:
            return None
        if not self.is_hashed:
            whole = len(self.told) == self.tasks
            # Cut into more or fewer tasks, their sum wraps around more or less often.
            hashed = sum(report.hash for report in self.told) % 2**64
            return Fingerprint(self.rows, hashed) if whole else None
        if not isinstance(self.part, Extents) and self.rows != self.part.num_rows:
            return None
        # What Spark has hashed counts twice where a task ran twice.
        if "high" not in self.metrics or not self.tasks == len(self.reports) == len(set(self.reports)):
            return None
        return Fingerprint(self.rows, ((self.metrics["high"] or 0) << 32) + (self.metrics["low"] or 0))


@define
class Reports:
    """What is heard of one job. The methods that tell it are called after the job has returned.

    Attributes:
        edges: one for each reading task, in order of the extents; none for tasks that give notes.
        fields: what a fingerprint is made of; None: nobody wants one.
    """

    edges: Sequence[int] = ()
    fields: t.StructType | None = None
    _watched: list[Watched] = field(factory=list, init=False)
    _unseen: bool = field(default=False, init=False)

    def observe_tasks(self, frame: DataFrame, part: Extents) -> DataFrame:
        """What the tasks that read ``part`` give, without their reports."""
        watched, is_row = self._watch(part), F.col(REPORT).isNull()
        seen = [F.collect_list(REPORT).alias("reports")]
        seen += [] if watched.is_telling else [F.count_if(is_row).alias("rows")]
        seen += self._hashes(is_row) if watched.is_hashed else []
        return frame.observe(watched.observation, *seen).where(is_row).drop(REPORT)

    def observe_table(self, frame: DataFrame, table: pa.Table) -> DataFrame:
        """The rows of ``table``, emitted on the driver: nobody reports, but there may be a fingerprint."""
        if self.fields is None or not table.num_rows:
            return frame
        seen = [F.count(F.lit(1)).alias("rows"), *self._hashes(F.lit(True))]
        return frame.observe(self._watch(table).observation, *seen)

    def leave(self, frame: DataFrame) -> DataFrame:
        """A DataFrame as it is: of that a job reads only the columns that it needs, and observing would end that."""
        self._unseen = True
        return frame

    @property
    def rows(self) -> int:
        """How many rows the reading tasks gave."""
        return sum(watched.rows for watched in self._watched if watched.tasks)

    def heard(self) -> list[int]:
        """The edges that were reported.

        A node that the optimiser proved superfluous was not run and has nothing to report: then all were heard, since
        nothing of it was needed.
        """
        if any(watched.metrics is None for watched in self._watched if watched.tasks):
            return list(self.edges)
        found = {report.edge for watched in self._watched for report in watched.told}
        return [edge for edge in self.edges if edge in found]

    def notes(self) -> tuple[str, ...]:
        """The notes that tasks gave.

        Raises:
            RuntimeError: they are not one of each task, so nobody knows what was read.
        """
        notes = [report for watched in self._watched for report in watched.reports]
        tasks = sum(watched.tasks for watched in self._watched)
        if len(notes) != tasks:
            raise RuntimeError(f"Spark tells of {len(notes)} notes of {tasks} tasks that have emitted a batch")
        return tuple(notes)

    def fingerprint(self) -> Fingerprint | None:
        """The fingerprint of all rows; None where it can't be told."""
        if self.fields is None or self._unseen:
            return None
        known = [each for each in (watched.fingerprint for watched in self._watched) if each is not None]
        return reduce(add, known, NO_ROWS) if len(known) == len(self._watched) else None

    def _watch(self, part: Extents | pa.Table) -> Watched:
        self._watched.append(Watched(part))
        return self._watched[-1]

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
    try:
        return dict(answer_within(lambda: observation.get, OBSERVED_WITHIN_SECS))
    except (PySparkException, Py4JJavaError):
        return None
    except TimeoutError:
        return {"reports": [], "rows": 0}
