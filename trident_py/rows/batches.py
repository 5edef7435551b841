"""Rows as bytes: an Arrow record batch without its schema, which preserves every Spark type."""

from __future__ import annotations

import pyarrow as pa


def write_batch(rows: pa.Table) -> bytes:
    """Return all rows as one Arrow record batch without its schema, which preserves every Spark type."""
    batches = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    stored: bytes = batches[0].serialize().to_pybytes()
    return stored


def read_batch(value: bytes, fields: pa.Schema) -> pa.RecordBatch:
    """Return the rows that `write_batch` has written."""
    return pa.ipc.read_record_batch(pa.py_buffer(value), fields)
