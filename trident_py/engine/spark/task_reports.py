"""Reports of reading tasks, and a fingerprint of the rows that a job has read.

A reading task yields its rows and, last, one row that contains only its `TaskReport` in the hidden column ``_report``.
The class `Reports` collects them with ``observe``, below the filter that drops those rows. So a report counts only if
all rows of its task were read, by the same job that uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from operator import add
from typing import Any

from attrs import define, field, frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from coordinators.values.canonical import NO_ROWS, Fingerprint
from trident_py.engine.plane.emitted import HASHED_BY_READER, Splits
from trident_py.rows.row import KIND
from trident_py.spark.asking import answer_within
from trident_py.spark.counting import observed
from trident_py.spark.frame_hash import counted, fingerprint_of

REPORT = "_report"
OBSERVED_WITHIN_SECONDS = 30.0


@frozen
class TaskReport:
    """The report of a task that has read its split.

    Attributes:
        edge: its acker edge; for a task with a note, the number of its split.
        rows: how many rows it read.
        hash: of these rows; 0: not requested.
        note: its findings.
    """

    edge: int
    rows: int
    hash: int
    note: str = ""

    @classmethod
    def of(cls, text: str) -> TaskReport:
        """Parse the text of a row."""
        edge, rows, hashed, note = text.split(" ", 3)
        return cls(int(edge), int(rows), int(hashed), note)

    @property
    def text(self) -> str:
        """Its text in a row."""
        return f"{self.edge} {self.rows} {self.hash} {self.note}"


@define
class ObservedSplits:
    """Splits with reporting tasks."""

    chunk: Splits
    observation: Observation = field(factory=Observation, init=False)

    @cached_property
    def metrics(self) -> dict[str, Any] | None:
        """The observed metrics; None: Spark found that none of the rows were needed. Available after the job."""
        return _get(self.observation)

    @cached_property
    def told(self) -> set[TaskReport]:
        """The distinct reports: Spark may run a task again, for rows that were lost in between."""
        return set(map(TaskReport.of, (self.metrics or {}).get("reports", ())))

    @property
    def is_whole(self) -> bool:
        """Whether each task sent one report."""
        return len(self.told) == len(self.chunk.splits)

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of all reported rows."""
        kind = HASHED_BY_READER if self.chunk.fingerprinting else KIND
        return reduce(add, (Fingerprint(each.rows, each.hash, kind) for each in self.told), NO_ROWS)


@define
class ObservedFrame:
    """A user's DataFrame with observed rows: they are counted, and hashed if ``hashing``."""

    hashing: bool
    observation: Observation = field(factory=Observation, init=False)

    def observe(self, frame: DataFrame) -> DataFrame:
        """Return the same rows, observed."""
        return frame.observe(self.observation, *counted(frame.schema, hashing=self.hashing))

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of all rows. Available after the job."""
        return fingerprint_of(observed(self.observation))


@define
class Reports:
    """The reports of one job. Except for `observe` and `observe_frame`, call its methods after the job has returned.

    Attributes:
        edges: one for each reading task, in order of the splits; none for tasks that report notes.
        hashing: whether a fingerprint is requested.
        counts_frames: whether the rows of DataFrames are included, too.
    """

    edges: Sequence[int] = ()
    hashing: bool = False
    counts_frames: bool = False
    _watched: list[ObservedSplits] = field(factory=list, init=False)
    _frames: list[ObservedFrame] = field(factory=list, init=False)

    def observe(self, frame: DataFrame, chunk: Splits) -> DataFrame:
        """Return the rows of the tasks that read ``chunk``, without their reports."""
        watched = ObservedSplits(chunk)
        self._watched.append(watched)
        seen = frame.observe(watched.observation, F.collect_list(REPORT).alias("reports"))
        return seen.where(F.col(REPORT).isNull()).drop(REPORT)

    def observe_frame(self, frame: DataFrame) -> DataFrame:
        """Return the rows of ``frame``, observed if that is requested."""
        if not self.counts_frames:
            return frame
        watched = ObservedFrame(self.hashing)
        self._frames.append(watched)
        return watched.observe(frame)

    @property
    def rows(self) -> int:
        """How many rows the reading tasks and the frames contained."""
        return sum(each.rows for each in self._fingerprints())

    def heard(self) -> list[int]:
        """Return the edges that were reported.

        If the optimiser proved a node superfluous, it was not run and has nothing to report. Then all edges are
        returned, since none of its rows were needed.
        """
        if any(watched.metrics is None for watched in self._watched):
            return list(self.edges)
        found = {report.edge for watched in self._watched for report in watched.told}
        return [edge for edge in self.edges if edge in found]

    def notes(self) -> tuple[str, ...]:
        """Return the notes of the tasks, part by part in order of the splits.

        Raises:
            RuntimeError: there isn't one note of each task, so the rows that were read are unknown.
        """
        if not self._is_whole:
            told = sum(len(watched.told) for watched in self._watched)
            tasks = sum(len(watched.chunk.splits) for watched in self._watched)
            raise RuntimeError(f"Spark reports {told} notes of {tasks} tasks that have emitted a batch")
        return tuple(each.note for watched in self._watched for each in sorted(watched.told, key=lambda one: one.edge))

    def fingerprint(self) -> Fingerprint | None:
        """Return the fingerprint of all rows that tasks have read.

        None if it was not requested, or reports are missing.
        """
        if not (self.hashing and self._is_whole):
            return None
        return reduce(add, self._fingerprints(), NO_ROWS)

    def _fingerprints(self) -> list[Fingerprint]:
        return [*(each.fingerprint for each in self._watched), *(each.fingerprint for each in self._frames)]

    @property
    def _is_whole(self) -> bool:
        return bool(self._watched or self._frames) and all(watched.is_whole for watched in self._watched)


def _get(observation: Observation) -> dict[str, Any] | None:
    # `get` waits for ever if Spark lost the metrics; and it raises if the node was optimised away.
    try:
        return dict(answer_within(lambda: observation.get, OBSERVED_WITHIN_SECONDS))
    except (PySparkException, Py4JJavaError):
        return None
    except TimeoutError:
        return {"reports": []}
