"""``trident demo``: counts the words of Python's standard library, into an SQLite table, with Spark and ZooKeeper."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import sysconfig
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import frozen

from trident_py.cli.usage import config_of
from trident_py.cli.watch import Watch
from trident_py.errors import ConfigError
from trident_py.operations.builtin import Count
from trident_py.spouts.files.files import FileSpout
from trident_py.states.sql.sqlite import SQLiteState
from trident_py.topology import TridentTopology

NAME = "demo"
TABLE = "counts"
TOP = 10
BATCH_BYTES_MAX = 1 << 20
OWN = "path NOT LIKE '%/site-packages/%'"
"""Condition for files of the standard library: many Pythons keep installed packages below it."""

WORD = re.compile(r"\w+")


@frozen
class Counted:
    """The content of the table: the number of words, of different words, and the most frequent words."""

    words: int = 0
    different: int = 0
    top: tuple[tuple[str, int], ...] = ()


def run(arguments: Namespace) -> int:
    """Run the word count once over all existing files, and print the result; with ``--kafka``, run that demo."""
    if arguments.kafka:
        from trident_py.cli import kafka_demo

        return kafka_demo.run(arguments)
    config = config_of(arguments, max_spout_pending=3)
    database = config.state_dir / f"{NAME}.db"
    source = arguments.source or Path(sysconfig.get_path("stdlib"))
    print(
        f"counting the words of {source}/**/*.py, without installed packages; "
        f"some of these files are not UTF-8, such bytes are read as U+FFFD",
        file=sys.stderr,
    )
    _make(config.state_dir)
    before = _counted_before(database)
    counting = topology(source, database)
    watch = Watch.starting(lambda: counting.start(config), debug=arguments.debug)
    if before.words and watch.query.status.last_committed:
        watch.say(
            f"earlier runs have counted {before.words:,} words, only what is new is added; "
            f"to start over: trident reset {NAME}{_options(arguments)}"
        )
    drained = watch.until_end(once=True)
    after = _counted(database)
    if arguments.json:
        print(json.dumps(_facts(watch.summary(), after, database), indent=2))
    else:
        _print(watch.summary(), after, database, config.zookeeper or str(config.embedded_dir))
    return 0 if drained else 1


def topology(source: Path, database: Path) -> TridentTopology:
    """Return the word count over the Python files below ``source``, into a table of ``database``."""
    counting = TridentTopology(NAME)
    lines = FileSpout(source / "**/*.py", max_bytes_per_batch=BATCH_BYTES_MAX, errors="replace")
    (
        counting.new_stream("lines", lines)
        .transform(lambda frame: frame.where(OWN), lines.output_schema)
        .flat_map(lambda line: [(word,) for word in WORD.findall(line.value)], "word string")
        .group_by("word")
        .persistent_aggregate(SQLiteState(str(database), table=TABLE), Count(), "count")
    )
    return counting


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the state directory {directory} can't be made ({error.strerror}); choose another with --state-dir"
        ) from error


def _counted_before(database: Path) -> Counted:
    try:
        return _counted(database)
    except sqlite3.Error:
        return Counted()  # the state itself reports the problem when it is opened


def _counted(database: Path) -> Counted:
    if not database.exists():
        return Counted()
    with closing(sqlite3.connect(database)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [TABLE]).fetchone():
            return Counted()
        words, different = connection.execute(f"SELECT COALESCE(SUM(count), 0), COUNT(*) FROM {TABLE}").fetchone()  # noqa: S608
        top = connection.execute(f"SELECT word, count FROM {TABLE} ORDER BY count DESC, word LIMIT {TOP}")  # noqa: S608
        return Counted(words, different, tuple(top.fetchall()))


def _facts(done: dict[str, Any], counted: Counted, database: Path) -> dict[str, Any]:
    return {
        **done,
        "words": counted.words,
        "different_words": counted.different,
        "top": dict(counted.top),
        "state": str(database),
    }


def _print(done: dict[str, Any], counted: Counted, database: Path, zookeeper: str) -> None:
    for word, count in counted.top:
        print(f"{count:>10,}  {word}")
    print(
        f"\n{counted.words:,} words, {counted.different:,} different ones.\n"
        f"this run: {done['committed_transactions']} transactions, {done['total_input_rows']:,} rows in "
        f"{done['seconds']} s, {done['rows_per_second']:,} rows/s\n"
        f"the counts:   {database}, table {TABLE} (any SQLite client may look)\n"
        f"the position: {zookeeper}, topology {NAME}, next transaction {done['next_txid']}"
    )


def _options(arguments: Namespace) -> str:
    return "".join(f" {word}" for word in _given(arguments))


def _given(arguments: Namespace) -> Iterator[str]:
    for option in ("zookeeper", "zookeeper_ca", "zookeeper_cert", "zookeeper_key", "root", "state_dir"):
        value = getattr(arguments, option)
        if value is not None:
            yield f"--{option.replace('_', '-')} {value}"
