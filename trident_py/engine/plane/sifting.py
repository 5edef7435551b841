"""The results of the row functions of a branch for the rows of a spout: good rows, and bad rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen
from pyspark.sql.types import StructType

from coordinators.protocol.messages import Message
from coordinators.record.bad_rows import BadRow
from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.plane.emitted import CountsByNode, EmittedBatch
from trident_py.graph.bad_rows import BRANCH
from trident_py.rows.schema import arrow_schema, nullable
from trident_py.worker.sieve import BAD, ERROR, OPERATION, TRIED, Quarantine, Raised, hashes, too_many

TEXT_CHARS_MAX = 100_000
"""The length of all errors of a branch and spout together: they are stored in one write, with an intent to commit."""

ERROR_CHARS_MAX = 4 * 1024


@frozen
class Sifted:
    """The rows of one spout in one branch.

    Attributes:
        good: the output of the functions for the good rows.
        bad: the others, with the fields of the spout, then `OPERATION` and `ERROR`.
        tried: how many rows there were.
        told: messages about the rows, as a job that reads them has.
        counts: the counts of the row functions.
    """

    good: EmittedBatch
    bad: pa.Table
    tried: int
    told: Sequence[Message] = ()
    counts: CountsByNode = field(factory=dict)


def parted(made: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the good rows of a `Quarantine` without their hidden column, and that column of the others."""
    is_good = pc.is_null(made.column(BAD))
    good, bad = made.filter(is_good).drop_columns([BAD]), made.filter(pc.invert(is_good)).column(BAD)
    return good, pa.Table.from_struct_array(bad.combine_chunks())


def sifted(
    quarantine: Quarantine,
    good: EmittedBatch,
    bad: pa.Table,
    *,
    told: Sequence[Message] = (),
    counts: CountsByNode,
) -> Sifted:
    """Return the result of a `Quarantine`: ``bad`` are its hidden columns.

    Raises:
        TaskFailed: there are too many bad rows.
    """
    tried = pc.sum(bad.column(TRIED)).as_py() or 0
    bad = bad.filter(pc.is_valid(bad.column(OPERATION)))
    if bad.num_rows > (quarantine.most if quarantine.share >= 1 else quarantine.share * tried):
        last = Raised(bad.column(OPERATION)[-1].as_py(), bad.column(ERROR)[-1].as_py())
        raise too_many(f"{bad.num_rows:,} of {tried:,} rows", last)
    source = quarantine.pipeline.source
    row = pa.Table.from_struct_array(bad.column("row").combine_chunks()) if bad.num_rows else None
    rows = arrow_schema(StructType(nullable(source))).empty_table() if row is None else row
    for name in (OPERATION, ERROR):
        rows = rows.append_column(name, bad.column(name).cast(pa.string()))
    return Sifted(good, rows, tried, told, counts)


def bad_rows(branch: str, spout: str, found: Sifted, source: StructType) -> tuple[BadRow, ...]:
    """Return the bad rows as they are stored, in their order; long errors are cut."""
    known = hashes(found.bad.drop_columns([OPERATION, ERROR]), source)
    texts = zip(found.bad.column(OPERATION).to_pylist(), found.bad.column(ERROR).to_pylist(), strict=True)
    most = min(ERROR_CHARS_MAX, TEXT_CHARS_MAX // max(1, len(known)))
    return tuple(
        BadRow(branch=branch, spout=spout, hash=hashed, operation=operation[:ERROR_CHARS_MAX], error=error[:most])
        for hashed, (operation, error) in zip(known, texts, strict=True)
    )


def collected(
    found: Sequence[tuple[Sequence[BadRow], Sifted]], attempt: TransactionAttempt, fields: StructType
) -> EmittedBatch:
    """Return the bad rows of some branches as a batch with the fields of `BadRows`.

    If it has no field for the branch, a row that the same operation refuses in several branches is there once.
    """
    schema = arrow_schema(fields)
    names_branch = BRANCH in schema.names
    tables = [schema.empty_table()]
    taken = Counter[tuple[int, str]]()
    for rows, each in found:
        mine = Counter[tuple[int, str]]()
        kept: list[int] = []
        for place, row in enumerate(rows):
            key = row.hash, row.operation
            mine[key] += 1
            if names_branch or mine[key] > taken[key]:
                kept.append(place)
        taken |= mine
        tables.append(
            _letters([rows[place] for place in kept], each.bad.take(pa.array(kept, pa.int64())), attempt, schema)
        )
    return EmittedBatch(fields, (pa.concat_tables(tables),), is_sifted=True)


def _letters(rows: Sequence[BadRow], bad: pa.Table, attempt: TransactionAttempt, schema: pa.Schema) -> pa.Table:
    texts = [[row.error for row in rows], [row.operation for row in rows]]
    branches = [[row.branch for row in rows]] if BRANCH in schema.names else []
    error, operation, *branch = (pa.array(each, pa.string()) for each in [*texts, *branches])
    txids = pa.array([attempt.txid] * len(rows), pa.int64())
    values = bad.drop_columns([OPERATION, ERROR]).columns
    return pa.Table.from_arrays([*values, error, operation, txids, *branch], names=schema.names).cast(schema)
