"""A question that only Spark can answer: whether a condition depends on the row alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql.types import StructType

_ROW_BY_ROW = {"Union", "Filter", "Project", "MapInArrow", "Range"}
_NODE = re.compile(r"[\s:+-]*(?:\*\(\d+\) )?(\w+)")


def is_rowwise(session: SparkSession, condition: Column | str, fields: StructType) -> bool:
    """Return whether a condition depends only on the values of a row of ``fields``, and is deterministic.

    Spark's own optimiser decides: it pushes a filter through a union only in this case. Spark shows its plan only as
    text, so the text is parsed. If another release words it differently, the answer is False. Then transactions run in
    separate jobs, which is slower and just as correct. The answer is also False if Spark can't know: for Python
    functions, subqueries, and functions that were registered in another session.
    """
    rows = session.range(1).mapInArrow(_unseen, fields)
    view = f"_trident_{uuid4().hex}"
    try:
        rows.unionAll(rows).filter(condition).createTempView(view)
        (explained,) = session.sql(f"EXPLAIN SELECT * FROM {view}").collect()  # noqa: S608 - the name is ours
    except PySparkException:
        return False
    finally:
        session.catalog.dropTempView(view)
    _, first, *others = [line for line in explained[0].splitlines() if line.strip()]
    return _node(first) == "Union" and {_node(line) for line in others} <= _ROW_BY_ROW


def _node(line: str) -> str:
    found = _NODE.match(line)
    return found.group(1) if found else line


def _unseen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches  # never run; but the optimiser can't know its output
