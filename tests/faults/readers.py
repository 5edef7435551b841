"""Readers that aren't ours, while processes are killed: whatever they see, at any moment, is whole transactions.

Each runs in a process of its own, Spark in an environment of its own, with the connector that is published for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path

from attrs import define, field, frozen

from benchmarks import other_spark
from tests.faults.drivers import ROOT
from tests.faults.looking import LIBRARIES, Measures, Seen

DELTA = f"io.delta:delta-spark_{other_spark.VERSION.rpartition('.')[0]}_2.13:4.4.0"
SETTINGS = {
    "spark.jars.packages": DELTA,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
}


@frozen
class Look:
    """What one look at a store came to.

    Attributes:
        seen: None: it failed, by ``error``.
    """

    library: str
    store: str
    seen: Seen | None = None
    error: str | None = None


@define(eq=False)
class Readers:
    """All of them.

    Attributes:
        directory: holds what each has told, and how it ended.
    """

    directory: Path
    _processes: dict[str, subprocess.Popen[bytes]] = field(factory=dict, init=False)

    @classmethod
    @contextmanager
    def looking(cls, directory: Path, stores: Mapping[str, str]) -> Iterator[Readers]:
        """Have each library read those stores that it can, for as long as the block takes.

        Args:
            directory: is made.
            stores: where each is, by name.

        Raises:
            NoSparkError: Spark's other environment can't be made.
        """
        directory.mkdir()
        readers = cls(directory)
        with ExitStack() as stack:
            stack.callback(readers._end)
            for library, reads in LIBRARIES.items():
                readers._start(library, {store: stores[store] for store in reads})
            yield readers

    def looks(self) -> Iterator[Look]:
        """What they have seen, of each in order; the attempts before its store was there are left out."""
        for library in LIBRARIES:
            there = set()
            for line in (self.directory / f"{library}.jsonl").read_text().splitlines():
                look = Look(library, **json.loads(line))
                if look.seen is not None:
                    there.add(look.store)
                if look.store in there:
                    yield look

    def _start(self, library: str, stores: Mapping[str, str]) -> None:
        python, environment = _spark() if library == "spark" else (sys.executable, _ours())
        told = self.directory / f"{library}.jsonl"
        with told.open("wb") as out, told.with_suffix(".log").open("wb") as log:
            self._processes[library] = subprocess.Popen(
                [python, "-m", "tests.faults.looking", library, json.dumps(stores)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
                cwd=ROOT,
                env=environment,
            )

    def _end(self) -> None:
        for process in self._processes.values():
            other_spark.end(process)


def _ours() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _spark() -> tuple[Path, dict[str, str]]:
    python = other_spark.prepared()
    settings = {**SETTINGS, "spark.jars.ivy": str(other_spark.ivy())}
    given = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    return python, other_spark.environment(python, PYSPARK_SUBMIT_ARGS=f"--master local[1] {given} pyspark-shell")


def torn(looks: Iterable[Look], transactions: Mapping[int, Measures]) -> Iterator[str]:
    """Say where somebody saw a part of a transaction, or couldn't read.

    Args:
        looks: what was seen.
        transactions: what each has, by txid.
    """
    nothing: Measures = (0, 0, 0)
    prefixes = {nothing, *accumulate((transactions[txid] for txid in sorted(transactions)), _sum)}
    for look in looks:
        where = f"{look.library} in {look.store}"
        if look.seen is None:
            yield f"{where}: {look.error}"
            continue
        for txid, *found in look.seen:
            if txid is None and tuple(found) not in prefixes:
                yield f"{where}: {found} are no first transactions, with all that each of them has"
            if txid is not None and tuple(found) != transactions.get(txid):
                yield f"{where}: {found} is not what transaction {txid} has, {transactions.get(txid)}"


def _sum(one: Measures, other: Measures) -> Measures:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def counted(looks: Iterable[Look]) -> Mapping[tuple[str, str], int]:
    """How often each library has read each store that it can."""
    times = Counter((look.library, look.store) for look in looks if look.seen is not None)
    return {(library, store): times[library, store] for library, stores in LIBRARIES.items() for store in stores}
