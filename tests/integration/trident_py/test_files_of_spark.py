"""Files with which Spark itself is tested: each is read as Spark reads it, or refused by name, or in a list of ours.

They are in a jar of Maven Central, 53 MB, which is fetched once. `docs/how-to/whole-files.md` has the list in words.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlretrieve

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from tests.servers.missing import lacks
from tests.unit.trident_py.spouts.files.test_files_of_others import read
from trident_py import SpoutError, TopologyError

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VERSION = "4.2.0"
"""The newest of which the jar is published."""

JAR = f"https://repo1.maven.org/maven2/org/apache/spark/spark-sql_2.13/{VERSION}/spark-sql_2.13-{VERSION}-tests.jar"
LINES: Mapping[str, Any] = {"header": True}

MOMENTS, OLD = ("timestamp_micros", "timestamp_millis"), ("v2_4_6", "v3_2_0")
REFUSED: Mapping[str, Sequence[str]] = {
    "a date before 1582-10-15, or a timestamp before 1900": (
        "before_1582_date_v2_4.snappy.orc",
        *(f"before_1582_{kind}_{old}.snappy.parquet" for old in OLD for kind in ("date", *MOMENTS)),
    ),
    "would lose data": [
        f"before_1582_timestamp_int96_{kind}_{version}.snappy.parquet"
        for kind in ("dict", "plain")
        for version in ("v2_4_5", *OLD)
    ],
    "can't be read as orc: Unknown error: Time zone file": ("before_1582_ts_v2_4.snappy.orc",),
    "the header names the fields": ("cars-blank-column-name.csv", "cars-crlf.csv", "cars.csv", "cars.csv.zst"),
    "columns, got": (
        *("cars-malformed.csv", "cars-multichar-delim.csv", "cars-null.csv", "cars.tsv", "comments-whitespaces.csv"),
        *("comments.csv", "decimal.csv", "malformedRow.csv"),
    ),
    "has no fields": ("empty.csv",),
    "unexpected end of data": ("cars-unbalanced-quotes.csv, lines",),
    "the header can't be read": ("cars_iso-8859-1.csv, lines", "unescaped-quotes.csv, lines"),
    "can't be read as csv: ',' expected": (
        *("cars-unbalanced-quotes.csv, whole", "cars_iso-8859-1.csv, whole", "unescaped-quotes.csv, whole"),
    ),
    "more begins at byte": [
        f"{name}.json, whole" for name in ("malformed_utf8", "with-array-fields", "with-map-fields")
    ],
    "can't be read as json: Expecting": [
        f"{name}.json, whole" for name in ("utf16LE", "utf16WithBOM", "utf32BEWithBOM")
    ],
    "it is not json": ("utf32BEWithBOM.json, lines",),
}
"""Files that Spark reads, by the message with which they are refused here."""

OTHERWISE = {
    "cars-empty-value.csv",  # Spark reads a quoted empty value as NULL
    "interval-using-fixed-len-byte-array.parquet",  # Spark refuses intervals
}
"""Files that are read here, and not as by Spark."""


def data_of_spark() -> Path:
    """Return the directory of the files."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trident"
    there = home / f"spark-test-data-{VERSION}"
    if there.exists():
        return there
    fresh = home / f"fresh-{os.getpid()}"
    fresh.mkdir(parents=True)
    try:
        jar, _ = urlretrieve(JAR, fresh / "tests.jar")
    except URLError as error:
        lacks("the jar of Spark's tests", error)
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(fresh, [name for name in archive.namelist() if name.startswith("test-data/")])
    (fresh / "test-data").replace(there)
    shutil.rmtree(fresh)
    return there


def readings(data: Path) -> Iterator[tuple[str, Path, str, dict[str, Any]]]:
    """Yield name, path, format and options of each way to read a file."""
    for path in sorted(each for each in data.rglob("*") if each.is_file() and "xml" not in each.parent.name):
        match path.name.split(".")[1:]:
            case [*_, "parquet" | "parq"]:
                yield path.name, path, "parquet", {}
            case [*_, "orc"]:
                yield path.name, path, "orc", {}
            case ["json"]:
                yield f"{path.name}, lines", path, "json", {}
                yield f"{path.name}, whole", path, "json", {"multiLine": True}
            case ["csv" | "tsv" as suffix, *_]:
                options = {"sep": "\t" if suffix == "tsv" else ",", **LINES}
                yield f"{path.name}, lines", path, "csv", options
                yield f"{path.name}, whole", path, "csv", {"multiLine": True, **options}
            case ["txt" | "data"]:
                yield path.name, path, "text", {}


def outcome(spark: SparkSession, path: Path, kind: str, options: dict[str, Any]) -> str:
    """Return how a file is read, compared with Spark."""
    given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in options.items()}
    schema: t.StructType | None = None
    try:
        frame = spark.read.format(kind).options(**given).load(str(path))
        theirs, schema = [[*row.values()] for row in frame.toArrow().to_pylist()], frame.schema
    except (PySparkException, UnicodeDecodeError):  # it gives texts that are not in UTF-8
        theirs = None
    try:
        ours = read(path, format=kind, options=options, schema=None if kind == "text" else schema)
    except (SpoutError, TopologyError) as error:
        return f"refused: {error}".replace(str(path), path.name) if theirs is not None else "same"
    return "same" if theirs is not None and plain(ours) == plain(theirs) else "otherwise"


def plain(value: Any) -> Any:
    """Return a value in a form in which equal ones compare equal."""
    match value:
        case list() | tuple():
            return [plain(each) for each in value]
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case bytearray():
            return bytes(value)
        case float():
            return repr(value)
        case datetime():
            return value.replace(tzinfo=None)
    return value


def test_each_file_of_sparks_tests_is_read_as_spark_reads_it_or_is_in_a_list(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    found = {name: outcome(session, path, kind, options) for name, path, kind, options in readings(data_of_spark())}
    others = {name: text for name, text in found.items() if text != "same"}
    listed = {name: message for message, names in REFUSED.items() for name in names}
    wrong = {name: text for name, text in others.items() if expected(name, listed) not in text}
    assert not wrong
    assert {name for name in found if expected(name, listed) != "same"} == others.keys()


def expected(name: str, refused: Mapping[str, str]) -> str:
    """Return the listed outcome of a file, or of one way to read it."""
    file = name.partition(", ")[0]
    return "otherwise" if file in OTHERWISE else refused.get(name, refused.get(file, "same"))
