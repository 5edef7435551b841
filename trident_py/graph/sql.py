"""``sql``: a Spark SQL query over one batch."""

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
"""Tokens: ``stream`` itself, and string literals, quoted names and comments, in which ``stream`` is not replaced."""


@frozen
class SqlQuery:
    """A query as a function of a batch, for `Transform`: within it, the batch is the table ``stream``.

    Attributes:
        text: the query, as the user wrote it.
    """

    text: str

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Run the query over one batch. It leaves nothing in the session, so that batches can't collide there."""
        # In parentheses it has to be a query: a command would be carried out here, once for each attempt.
        whole = f"WITH `stream` AS (SELECT * FROM {{batch}}) (\n{_without_braces(_quoted(self.text))}\n)"  # noqa: S608
        return frame.sparkSession.sql(whole, batch=frame)


def sql_query(title: str, query: object, schema: str | StructType | None) -> Transform:
    """Make a query over each batch, after the checks that need no Spark.

    Raises:
        TopologyError: it is not text, or empty.
    """
    if not isinstance(query, str) or not query.strip():
        raise TopologyError(f"a query is text such as 'SELECT word FROM stream', not {shown(query)}")  # noqa: S608
    return transformed(title, SqlQuery(query.strip().removesuffix(";")), schema)


def _quoted(query: str) -> str:
    """Return the query with ``stream`` in backquotes.

    Otherwise Spark's parser reads ``STREAM a`` as the stream of a table ``a``.
    """
    return _TOKEN.sub(lambda found: f"`{found.group(1)}`" if found.group(1) else found.group(), query)


def _without_braces(query: str) -> str:
    """Escape braces for ``SparkSession.sql``, which reads text in braces as a parameter."""
    return query.replace("{", "{{").replace("}", "}}")
