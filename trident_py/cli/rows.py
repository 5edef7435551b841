"""``trident tx NAME rows TXID``: shows the rows of a parked transaction, which its leader stores first if needed."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen
from rich.console import Console
from rich.table import Column, Table

from coordinators.backends.coordination import Coordination
from coordinators.record.parking import NOTHING_PARKED, Parked
from coordinators.record.wishes import Action, Wish
from coordinators.values.error_text import counted, safe_text
from coordinators.values.errors import TridentError
from trident_py.cli.coordination import existing
from trident_py.cli.terminal import cell
from trident_py.cli.usage import UsageError, config_of
from trident_py.engine.threads.parked_rows import LostRows, ParkedRows
from trident_py.wishing import answer_to, seconds_for
from trident_py.worker.sieve import POSITION

ROWS_SHOWN = 20


@frozen
class SpoutRows:
    """The rows of a spout in a parked transaction.

    Attributes:
        table: its first column is the position of each row in the batch, from 0 on.
    """

    spout: str
    table: pa.Table


def run(arguments: Namespace, by: str) -> int:
    """Print the rows, or write them to a file; ``by`` is the name of the user.

    Raises:
        TridentError: the transaction isn't parked, or its rows can't be read here.
    """
    (txid,) = arguments.txids
    read = parked_rows(arguments, by)
    if read is None:
        raise TridentError(
            f"topology {arguments.name!r}: transaction {txid} is not parked, and only of a parked one are rows kept",
            topology=arguments.name,
            txid=txid,
        )
    found = [each for each in read if arguments.spout in (None, each.spout)]
    if not found:
        names = ", ".join(sorted({each.spout for each in read}))
        raise UsageError(f"transaction {txid} has no rows of such a spout; it has rows of {names}")
    if arguments.parquet is not None:
        _write(found, arguments)
    elif arguments.json:
        print(json.dumps([_facts(each) for each in found], indent=2, default=str))
    else:
        for each in found:
            _print(each)
    return 0


def parked_rows(arguments: Namespace, by: str) -> list[SpoutRows] | None:
    """Return the rows of the transaction that ``arguments`` name, of all parts; the leader stores them first.

    None: it is not parked.

    Raises:
        TridentError: its rows can't be read here.
    """
    config, (txid,) = config_of(arguments), arguments.txids
    with existing(config) as coordination:
        identity = coordination.describe(arguments.name).identity
        entries = _with_rows(arguments, coordination, Wish(uuid4().hex, Action.ROWS, txids=(txid,), by=by))
    if not entries:
        return None
    try:
        return list(_read(ParkedRows.of(identity, config), entries))
    except LostRows as error:
        raise TridentError(str(error), topology=arguments.name, txid=txid) from error


def _with_rows(arguments: Namespace, coordination: Coordination, wish: Wish) -> Sequence[Parked]:
    """Return the parts of the parked transaction, all rows of which are stored; none if it is not parked.

    Raises:
        TridentError: no leader has stored its rows.
    """
    (txid,) = wish.txids
    entries = _entries(coordination, arguments.name, txid)
    if not any(each.unstored for each in entries):
        return entries
    seconds = seconds_for(wish.action) if arguments.timeout is None else arguments.timeout
    answer = answer_to(wish, arguments.name, coordination, seconds)
    if answer.outcome is None or not answer.is_as_wished:
        raise TridentError(answer.text, topology=arguments.name, txid=txid)
    return _entries(coordination, arguments.name, txid)


def _entries(coordination: Coordination, topology: str, txid: int) -> Sequence[Parked]:
    record = coordination.describe(topology).record
    return (record.parked if record else NOTHING_PARKED).parts(txid)


def _read(files: ParkedRows, entries: Sequence[Parked]) -> Iterator[SpoutRows]:
    for entry in entries:
        for spout, stored in entry.stored.items():
            rows = files.read(spout, stored)
            yield SpoutRows(spout, rows.add_column(0, POSITION, pa.array(stored.positions, pa.int64())))


def _write(found: list[SpoutRows], arguments: Namespace) -> None:
    spouts = sorted({each.spout for each in found})
    if len(spouts) > 1:
        raise UsageError(f"a file has the rows of one spout: --spout {' or '.join(spouts)}")
    table = pa.concat_tables([each.table for each in found])
    pq.write_table(table, arguments.parquet)
    print(safe_text(f"{counted(table.num_rows, 'row')} of spout {spouts[0]!r} in {arguments.parquet}"))


def _facts(rows: SpoutRows) -> dict[str, object]:
    return {"spout": rows.spout, "rows": rows.table.to_pylist()}


def _print(rows: SpoutRows) -> None:
    table = rows.table
    shown = Table(*(Column(safe_text(name)) for name in table.column_names), box=None, pad_edge=False)
    for row in table.slice(0, ROWS_SHOWN).to_pylist():
        shown.add_row(*(cell(str(value)) for value in row.values()))
    print(safe_text(f"spout {rows.spout!r}, {counted(table.num_rows, 'row')}:"))
    Console().print(shown)
    if table.num_rows > ROWS_SHOWN:
        print(f"and {table.num_rows - ROWS_SHOWN:,} more; --json and --parquet FILE have all of them")
