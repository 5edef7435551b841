"""The Python blocks of the README run as they are, and do what it says."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
USE_OF_THE_SPOUT = """
from trident_py.operations import Sum

{spout}

numbers = TridentTopology("numbers")
numbers.new_stream("numbers", Numbers()).persistent_aggregate(
    SQLiteState("sums.db", table="sums"), Sum("number"), "sum"
)
with numbers.start() as query:
    query.process_all_available()
"""


def rows(database: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.zookeeper
def test_the_examples_of_the_readme_run(tmp_path: Path) -> None:
    example, spout = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "one.txt").write_text("to be or not to be\n")
    (tmp_path / "program.py").write_text(example + USE_OF_THE_SPOUT.format(spout=spout))
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "'num_input_rows': 1" in done.stdout
    counts = rows(tmp_path / "counts.db", "SELECT word, count FROM counts ORDER BY word")
    assert counts == [("be", 2), ("not", 1), ("or", 1), ("to", 2)]
    assert rows(tmp_path / "sums.db", "SELECT sum FROM sums") == [(sum(range(1000)),)]
