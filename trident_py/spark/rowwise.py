"""What only Spark can tell of a condition: whether it depends on the row alone."""

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
    """Tell whether a row of ``fields`` is kept for what is in it alone, whatever others there are, and always alike.

    Spark's own optimiser judges: it takes a filter through a union only where that is so. Spark shows its plan as text
    alone, so its words are read. Where they are others, in another release, the answer is no: then transactions run in
    jobs of their own, which is slower and as right. It is no as well for what Spark can't tell: what Python functions
    and subqueries look at, and functions that were registered in another session.
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
    return batches  # never run; but the optimiser can't know what it gives
