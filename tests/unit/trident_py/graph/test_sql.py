from __future__ import annotations

from typing import Any

import pytest

from trident_py.errors import TopologyError
from trident_py.graph.sql import SqlQuery
from trident_py.rows.schema import schema_of
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


class Session:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.asked = ""

    def sql(self, query: str, **frames: object) -> object:
        self.asked = query.format(batch="_1")
        return frames["batch"]


class Frame:
    """A frame of that session."""

    def __init__(self) -> None:
        self.sparkSession = Session()


def asked(query: str) -> str:
    frame: Any = Frame()
    SqlQuery(query)(frame)
    before, _, rest = frame.sparkSession.asked.partition("\n")
    assert before == "WITH `stream` AS (SELECT * FROM _1) ("
    return str(rest.removesuffix("\n)"))


@pytest.fixture
def words() -> Stream:
    return TridentTopology("queries").new_stream("lines", FixedBatchSpout("word string", 1))


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("SELECT * FROM stream", "SELECT * FROM `stream`"),
        ("SELECT a.word FROM Stream a JOIN STREAM AS b", "SELECT a.word FROM `Stream` a JOIN `STREAM` AS b"),
        ("SELECT stream.word FROM (stream)", "SELECT `stream`.word FROM (`stream`)"),
        ("SELECT my_stream, streams FROM stream", "SELECT my_stream, streams FROM `stream`"),
    ],
)
def test_the_batch_is_called_stream_whatever_spark_means_by_that_word(given: str, read: str) -> None:
    assert asked(given) == read


@pytest.mark.parametrize(
    "text",
    [
        "'a stream'",
        '"a stream"',
        "'it\\'s a stream'",
        "r'\\d stream'",
        "`a stream`",
        "-- a stream\n",
        "/* a\nstream */",
    ],
)
def test_texts_quoted_names_and_comments_stay_as_they_are(text: str) -> None:
    assert asked(f"stream, {text}, stream") == f"`stream`, {text}, `stream`"


def test_braces_are_text_to_spark() -> None:
    assert asked("SELECT '{batch} {}' FROM stream") == "SELECT '{batch} {}' FROM `stream`"


def test_the_fields_are_known_where_they_are_declared(words: Stream) -> None:
    assert words.sql("SELECT word, length(word) AS n FROM stream").schema is None
    known = words.sql("SELECT word, length(word) AS n FROM stream", "word string, n int")
    assert known.schema == schema_of("word string, n int")
    with pytest.raises(TopologyError, match="no field 'm'"):
        known.project("m")


@pytest.mark.parametrize("query", ["", "  ", None, b"SELECT 1"])
def test_a_query_is_text(words: Stream, query: Any) -> None:
    with pytest.raises(TopologyError, match=r"topology 'queries', sql\(.*a query is text"):
        words.sql(query)
