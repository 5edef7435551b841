"""What a job says about the rows that it reads: the reports of its reading tasks, and a fingerprint of what they read.

A reading task gives its rows and, last, one row that carries only its `TaskReport` in the hidden column ``_report``.
`Reports` collects them below the filter that drops those rows, by ``observe``: so a task is heard only if what it gave
was read to the end, by the very job that uses it.
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
from trident_py.rows.row_hash import KIND
from trident_py.spark.asking import answer_within
from trident_py.spark.counting import observed
from trident_py.spark.frame_hash import counted, fingerprint_of

REPORT = "_report"
OBSERVED_WITHIN_SECONDS = 30.0


@frozen
class TaskReport:
    """What a task says that has read its split.

    Attributes:
        edge: its acker edge; of a task that gives a note, the number of its split.
        rows: how many rows it read.
        hash: of these rows; 0: nobody wants it.
        note: what it found out.
    """

    edge: int
    rows: int
    hash: int
    note: str = ""

    @classmethod
    def of(cls, text: str) -> TaskReport:
        """Make it from a row."""
        edge, rows, hashed, note = text.split(" ", 3)
        return cls(int(edge), int(rows), int(hashed), note)

    @property
    def text(self) -> str:
        """As it stands in a row."""
        return f"{self.edge} {self.rows} {self.hash} {self.note}"


@define
class ObservedSplits:
    """Splits whose reading tasks report."""

    chunk: Splits
    observation: Observation = field(factory=Observation, init=False)

    @cached_property
    def metrics(self) -> dict[str, Any] | None:
        """What was observed; None: Spark found that nothing of it was needed. Asked for after the job."""
        return _get(self.observation)

    @cached_property
    def told(self) -> set[TaskReport]:
        """What the tasks told, each once: Spark may run one again, for rows that were lost on their way."""
        return set(map(TaskReport.of, (self.metrics or {}).get("reports", ())))

    @property
    def is_whole(self) -> bool:
        """Whether each task told one thing."""
        return len(self.told) == len(self.chunk.splits)

    @property
    def fingerprint(self) -> Fingerprint:
        """That of all rows that were told of."""
        kind = HASHED_BY_READER if self.chunk.fingerprinting else KIND
        return reduce(add, (Fingerprint(each.rows, each.hash, kind) for each in self.told), NO_ROWS)


@define
class ObservedFrame:
    """A user's DataFrame whose rows are counted, and hashed if ``hashing``."""

    hashing: bool
    observation: Observation = field(factory=Observation, init=False)

    def observe(self, frame: DataFrame) -> DataFrame:
        """Return the same rows."""
        return frame.observe(self.observation, *counted(frame.schema, hashing=self.hashing))

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """That of all rows. Asked for after the job."""
        return fingerprint_of(observed(self.observation))


@define
class Reports:
    """What is heard of one job. The methods that tell it are called after the job has returned.

    Attributes:
        edges: one for each reading task, in order of the splits; none for tasks that give notes.
        hashing: whether a fingerprint is wanted.
        counts_frames: whether the rows of DataFrames belong to it, too.
    """

    edges: Sequence[int] = ()
    hashing: bool = False
    counts_frames: bool = False
    _watched: list[ObservedSplits] = field(factory=list, init=False)
    _frames: list[ObservedFrame] = field(factory=list, init=False)

    def observe(self, frame: DataFrame, chunk: Splits) -> DataFrame:
        """Return what the tasks that read ``chunk`` give, without their reports."""
        watched = ObservedSplits(chunk)
        self._watched.append(watched)
        seen = frame.observe(watched.observation, F.collect_list(REPORT).alias("reports"))
        return seen.where(F.col(REPORT).isNull()).drop(REPORT)

    def observe_frame(self, frame: DataFrame) -> DataFrame:
        """Return the rows of ``frame``, counted on their way where that is wanted."""
        if not self.counts_frames:
            return frame
        watched = ObservedFrame(self.hashing)
        self._frames.append(watched)
        return watched.observe(frame)

    @property
    def rows(self) -> int:
        """How many rows the reading tasks gave, and the frames."""
        return sum(each.rows for each in self._fingerprints())

    def heard(self) -> list[int]:
        """Return the edges that were reported.

        A node that the optimiser proved superfluous was not run and has nothing to report: then all were heard, since
        nothing of it was needed.
        """
        if any(watched.metrics is None for watched in self._watched):
            return list(self.edges)
        found = {report.edge for watched in self._watched for report in watched.told}
        return [edge for edge in self.edges if edge in found]

    def notes(self) -> tuple[str, ...]:
        """Return the notes that tasks gave, part by part in order of the splits.

        Raises:
            RuntimeError: they are not one of each task, so nobody knows what was read.
        """
        if not self._is_whole:
            told = sum(len(watched.told) for watched in self._watched)
            tasks = sum(len(watched.chunk.splits) for watched in self._watched)
            raise RuntimeError(f"Spark tells of {told} notes of {tasks} tasks that have emitted a batch")
        return tuple(each.note for watched in self._watched for each in sorted(watched.told, key=lambda one: one.edge))

    def fingerprint(self) -> Fingerprint | None:
        """Return the fingerprint of all that tasks have read.

        None where nobody wants it, or not all of them were heard.
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
