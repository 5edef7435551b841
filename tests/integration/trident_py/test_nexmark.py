"""The queries of Nexmark over kills at random: Spark's answers over all events that were not late."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from examples import nexmark
from tests.integration.trident_py import nexmark_program
from tests.integration.trident_py.nexmark_program import NOBODY, events
from tests.integration.trident_py.test_windows import PATIENCE_SECONDS, select

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.slow]

START = int(nexmark.START.timestamp()) // 10
ANSWERS = {
    "hot_items": """
        SELECT auction, bids, span.start, span.end FROM (
            SELECT *, max(bids) OVER (PARTITION BY span) AS most FROM (
                SELECT window(at, '10 seconds', '2 seconds') AS span, id AS auction, count(*) AS bids
                FROM bids GROUP BY 1, 2))
        WHERE bids = most""",
    "highest_bids": """
        SELECT auction, bidder, price, span.start, span.end FROM (
            SELECT *, max(price) OVER (PARTITION BY span) AS most FROM (
                SELECT window(at, '10 seconds') AS span, id AS auction, bidder, price FROM bids))
        WHERE price = most""",
    "new_users": """
        SELECT person.id, unix_seconds(person.at) DIV 10 - {START}, person.at, auction.at
        FROM (SELECT * FROM events WHERE kind = 'person') AS person
        JOIN (SELECT * FROM events WHERE kind = 'auction') AS auction
        ON person.id = auction.seller AND unix_seconds(person.at) DIV 10 = unix_seconds(auction.at) DIV 10""",
    "user_sessions": """
        SELECT bidder, count(*), session_window(at, '10 seconds').start, session_window(at, '10 seconds').end
        FROM bids GROUP BY bidder, session_window(at, '10 seconds')""",
}


def run_with_kills(zookeeper: str, directory: Path, late: float, kills: int) -> None:
    """Run the program until it ends by itself, after it was killed so often."""
    dice = random.Random(kills)
    command = [sys.executable, nexmark_program.__file__, zookeeper, str(directory), str(late)]
    for left in range(kills, -1, -1):
        said = directory / f"said-{left}"
        with said.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(dice.uniform(8, 16) if left else PATIENCE_SECONDS)
            if process.poll() is not None:
                break
            process.kill()
    assert process.returncode == 0, said.read_text()[-2000:]


def answer(given: DataFrame, name: str) -> Counter[tuple[Any, ...]]:
    """Spark's answer; without the windows of the last event, which are open."""
    given.createOrReplaceTempView("events")
    given.where(f"kind = 'bid' AND id <> {NOBODY}").createOrReplaceTempView("bids")
    return Counter(map(tuple, given.sparkSession.sql(ANSWERS[name].replace("{START}", str(START))).collect()))


def found(directory: Path, name: str) -> Counter[tuple[Any, ...]]:
    rows = select(directory / "found.db", f"SELECT * FROM {name}")  # noqa: S608 - ours
    return Counter((*row[:-2], *(_local(datetime.fromisoformat(each)) for each in row[-2:])) for row in rows)


@pytest.mark.parametrize(("late", "loses"), [(nexmark_program.DISORDER_SECONDS, False), (0.5, True)])
def test_nexmark_over_kills_gives_the_answers_of_spark(
    spark: SparkSession, zookeeper: str, tmp_path: Path, late: float, loses: bool
) -> None:
    run_with_kills(zookeeper, tmp_path, late, kills=3)
    for name in ANSWERS:
        left_out = {each for (each,) in select(tmp_path / "late.db", f"SELECT at FROM {name}")}  # noqa: S608 - ours
        assert bool(left_out) == loses
        kept = [event for event in events() if _text(event[-1]) not in left_out]
        assert found(tmp_path, name) == answer(spark.createDataFrame(kept, nexmark.SCHEMA), name)
    assert found(tmp_path, "bids_as_they_come") == by_the_clock(tmp_path, events())


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"


def by_the_clock(directory: Path, given: Sequence[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Windows by the times of transactions, as a sink was told them; a replay has the same."""
    lines = {tuple(map(int, line.split()[:3])) for line in (directory / "times").read_text().splitlines()}
    spans, left = Counter[tuple[int, int]](), iter(given)
    for _, time, count in sorted(lines):
        spans.update((bidder, time // 10_000) for kind, _, _, bidder, *_ in islice(left, count) if kind == "bid")
    last = max(time for _, time, _ in lines) // 10_000
    return Counter({(bidder, n, _at(span), _at(span + 1)): 1 for (bidder, span), n in spans.items() if span < last})


def _at(span: int) -> datetime:
    return _local(datetime.fromtimestamp(span * 10, UTC))


def _local(moment: datetime) -> datetime:
    """As Spark gives it: in the session's time zone, without one."""
    return moment.astimezone().replace(tzinfo=None)
