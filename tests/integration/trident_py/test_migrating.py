"""`migrate` on real Spark and ZooKeeper, killed at its steps: each row counts once, in values of the new type."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.trident_py import migrating_program
from tests.integration.trident_py.migrating_program import WORDS
from tests.integration.trident_py.test_windows import PATIENCE_SECONDS
from tests.unit.trident_py.states.sql.everywhere import as_url, select

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.slow]

PASS = 2 * WORDS
"""The calls of the function for one state: its values and previous values are checked, and later stored."""

MOMENTS = (
    PASS // 2,  # the first state is checked
    2 * PASS + PASS // 2,  # the first one is in the middle of its migration
    3 * PASS + PASS // 2,  # it is migrated, and the second one is in the middle
    "state 'sums' is migrated",  # both are, and the record is not written
)


@pytest.mark.parametrize("over", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_start_that_is_killed_while_it_migrates_is_finished_by_the_next(
    over: str, request: pytest.FixtureRequest, zookeeper: str, tmp_path: Path
) -> None:
    dsn = request.getfixturevalue("postgres") if over == "postgres" else ""

    def run(moment: str) -> int:
        done = subprocess.run(
            [sys.executable, migrating_program.__file__, zookeeper, str(tmp_path), dsn, moment],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode in (0, -9), done.stderr[-2000:]
        return done.returncode

    assert run("first") == 0
    for moment in MOMENTS:
        assert run(str(moment)) == -9
    assert run("") == 0
    for table in ("chars", "sums"):
        url = as_url(dsn) if dsn else f"sqlite:///{tmp_path / f'{table[0]}.db'}"
        found = [tuple(row) for row in select(url, f"SELECT word, n, _prev FROM {table}")]  # noqa: S608 - ours
        assert found == sorted((f"w{number}", "4", "3") for number in range(WORDS))
