"""The results of the row functions of a branch for the rows of a spout: good rows, and bad rows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from coordinators.record.bad_rows import BadRow
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Fingerprint
from trident_py.engine.plane.emitted import CountsByNode, EmittedBatch
from trident_py.graph.bad_rows import DEAD_LETTERS
from trident_py.rows.row import codec_of, rows_of
from trident_py.rows.schema import arrow_schema, arrow_table, nullable
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
        fingerprint: of all rows, if they were all read and the spout is exact.
        counts: the counts of the row functions.
    """

    good: EmittedBatch
    bad: pa.Table
    tried: int
    fingerprint: Fingerprint | None = None
    counts: CountsByNode = field(factory=dict)


def parted(made: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the good rows of a `Quarantine` without their hidden column, and that column of the others."""
    is_good = pc.is_null(made.column(BAD))
    good, bad = made.filter(is_good).drop_columns([BAD]), made.filter(pc.invert(is_good)).column(BAD)
    return good, pa.Table.from_struct_array(bad.combine_chunks())


def sifted(
    quarantine: Quarantine,
    good: pa.Table | DataFrame,
    bad: pa.Table,
    *,
    fingerprint: Fingerprint | None,
    counts: CountsByNode,
) -> Sifted:
    """Return the result of a `Quarantine`: ``good`` are its rows, ``bad`` its hidden columns.

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
    batch = EmittedBatch(quarantine.pipeline.target, (good,), is_sifted=True)
    return Sifted(batch, rows, tried, fingerprint, counts)


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
    """Return the bad rows of some branches as a batch with the fields of `BadRows`, which are not dead letters.

    A row that the same operation refuses in several branches is there once.
    """
    schema = arrow_schema(fields)
    tables = [schema.empty_table()]
    taken = Counter[tuple[int, str]]()
    for rows, each in found:
        mine = Counter[tuple[int, str]]()
        kept: list[int] = []
        for place, row in enumerate(rows):
            key = row.hash, row.operation
            mine[key] += 1
            if mine[key] > taken[key]:
                kept.append(place)
        taken |= mine
        texts = ([rows[place].error for place in kept], [rows[place].operation for place in kept])
        values = each.bad.take(pa.array(kept, pa.int64())).drop_columns([OPERATION, ERROR]).columns
        told = [*(pa.array(text, pa.string()) for text in texts), pa.array([attempt.txid] * len(kept), pa.int64())]
        tables.append(pa.Table.from_arrays([*values, *told], names=schema.names).cast(schema))
    return EmittedBatch(fields, (pa.concat_tables(tables),), is_sifted=True)


def collected_letters(
    found: Sequence[tuple[Sequence[BadRow], Sifted]],
    attempt: TransactionAttempt,
    source: StructType,
    released: pa.Table | None,
) -> EmittedBatch:
    """Return the bad rows of some branches as a batch of `DEAD_LETTERS`.

    Args:
        found: the bad rows of each branch.
        attempt: that leaves them out.
        source: the fields of the spout.
        released: the letters that are rows of this attempt: they are kept no longer, unless they are bad once more.
    """
    to_json, _ = codec_of(source)
    schema = arrow_schema(DEAD_LETTERS)
    first = defaultdict[str, list[int]](list)  # the transaction that left a row out first
    for letter in [] if released is None else released.to_pylist():
        first[letter["row"]] += [letter["txid"]] * letter["letters"]
    letters: list[tuple[Any, ...]] = []
    for rows, each in found:
        for bad, row in zip(rows, rows_of(each.bad.drop_columns([OPERATION, ERROR])), strict=True):
            text = json.dumps(dict(zip(source.names, to_json(row), strict=True)), ensure_ascii=False)
            txid = first[text].pop() if first.get(text) else attempt.txid
            letters.append((txid, bad.branch, bad.spout, bad.operation, bad.error, text, 1))
    columns = zip(*letters, strict=True) if letters else [()] * len(schema)
    table = pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    if released is not None:
        place = schema.names.index("letters")
        negative = released.cast(schema).set_column(place, schema.field(place), pc.negate(released.column("letters")))
        table = pa.concat_tables([table, negative])
    return EmittedBatch(DEAD_LETTERS, (table,), is_sifted=True)


def rows_of_letters(letters: pa.Table, source: StructType) -> pa.Table:
    """Return the rows of dead letters as a spout with these fields emits them; equal ones as often as they count.

    Raises:
        KeyError, TypeError, ValueError: a row has other fields.
    """
    _, from_json = codec_of(source)
    rows: list[tuple[Any, ...]] = []
    for text, times in zip(letters.column("row").to_pylist(), letters.column("letters").to_pylist(), strict=True):
        values = json.loads(text)
        if values.keys() != set(source.names):
            raise ValueError(f"a row has the fields {', '.join(values)}, and the spout {', '.join(source.names)}")
        rows += [from_json([values[name] for name in source.names])] * times
    return arrow_table(rows, source)
