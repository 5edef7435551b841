"""``sql``: a query in Spark's SQL over one batch."""

from __future__ import annotations

import re

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from trident_py.errors import TopologyError
from trident_py.graph.rowwise import Transform, transformed
from trident_py.rows.schema import shown

_TOKEN = re.compile(
    r"""\b[rR]'[^']*' | \b[rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`"""
    r"""| --[^\n]* | /\*.*?\*/ | \b(stream)\b""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""Texts, quoted names and comments, in which ``stream`` stays as it is, and ``stream`` itself."""


@frozen
class SqlQuery:
    """A query as a function of a batch, for `Transform`: within it, the batch is the table ``stream``.

    Attributes:
        text: the query, as the user wrote it.
    """

    text: str

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Run the query over one batch. Nothing of it is left in the session, so that batches don't meet there."""
        # In parentheses it has to be a query: a command would be carried out here, once for each attempt.
        whole = f"WITH `stream` AS (SELECT * FROM {{batch}}) (\n{_without_braces(_quoted(self.text))}\n)"  # noqa: S608
        return frame.sparkSession.sql(whole, batch=frame)


def sql_query(title: str, query: object, schema: str | StructType | None) -> Transform:
    """Make a query over each batch; checks what can be checked without Spark.

    Raises:
        TopologyError: it is no text, or an empty one.
    """
    if not isinstance(query, str) or not query.strip():
        raise TopologyError(f"a query is text such as 'SELECT word FROM stream', not {shown(query)}")  # noqa: S608
    return transformed(title, SqlQuery(query.strip().removesuffix(";")), schema)


def _quoted(query: str) -> str:
    """Return the query with ``stream`` in backquotes.

    ``STREAM a`` is the stream of a table ``a`` for Spark's parser.
    """
    return _TOKEN.sub(lambda found: f"`{found.group(1)}`" if found.group(1) else found.group(), query)


def _without_braces(query: str) -> str:
    """Escape it for ``SparkSession.sql``, which takes what stands in braces for a name of its own."""
    return query.replace("{", "{{").replace("}", "}}")
