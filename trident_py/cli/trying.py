"""``trident try NAME TXID TARGET``: runs other code over a parked or committed transaction, and writes nothing.

Of a parked transaction it takes the stored rows. The batch of a committed one is emitted once more, by the spouts of
the other code and from the definition that the history has.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from coordinators.values.error_text import counted, safe_text
from trident_py.cli import rows
from trident_py.cli.again import emitted_again
from trident_py.cli.changes import BranchChange, changes
from trident_py.cli.target import load
from trident_py.cli.tx import history_of, print_lines, user_name
from trident_py.cli.usage import config_of
from trident_py.errors import TridentError
from trident_py.history.entries import AttemptEntry
from trident_py.worker.sieve import POSITION

ROWS_SHOWN = 10


def run(arguments: Namespace) -> int:
    """Print the change of each output, or the differences to other code; return 1 if an output fails.

    Raises:
        TridentError: the transaction is neither parked nor committed, or its rows can't be read or don't fit.
    """
    topology = load(arguments.target).topology
    parked = rows.parked_rows(arguments, user_name())
    tables = emitted_again(topology, _committed(arguments)) if parked is None else _joined(parked)
    made = changes(topology, tables)
    before = {}
    if arguments.against:
        others = changes(load(arguments.against).topology, tables)
        before = {each.output: each for each in others}
    if arguments.json:
        print(json.dumps([_facts(each, before) for each in made], indent=2, default=str))
    else:
        print_lines(_lines(made, before, tables))
    return 1 if any(each.error for each in made) else 0


def _joined(parked: Sequence[rows.SpoutRows]) -> dict[str, pa.Table]:
    given: dict[str, list[pa.Table]] = {}
    for each in parked:
        given.setdefault(each.spout, []).append(each.table.drop_columns([POSITION]))
    return {spout: pa.concat_tables(found) for spout, found in given.items()}


def _committed(arguments: Namespace) -> AttemptEntry:
    """Return the committed attempt of the transaction.

    Raises:
        TridentError: there is no such attempt.
    """
    (txid,) = arguments.txids
    with closing(history_of(arguments.name, config_of(arguments))) as history:
        last = history.transaction(txid).last
    if last.outcome != "committed" or last.entry.number is None:
        raise TridentError(
            f"topology {arguments.name!r}: transaction {txid} is neither parked nor committed with a batch: only such "
            f"a transaction can be tried",
            topology=arguments.name,
            txid=txid,
        )
    return last.entry


def _lines(
    made: list[BranchChange], before: Mapping[str, BranchChange], given: Mapping[str, pa.Table]
) -> Iterator[str]:
    for spout, table in given.items():
        yield f"{counted(table.num_rows, 'row')} of spout {spout!r}"
    for each in made:
        total = Counter(each.rows).total()
        yield f"{each.output}: {each.error or counted(total, 'row')}"
        if each.output not in before:
            shown = list(each.rows.items())[: 0 if before else ROWS_SHOWN]
            yield from (f"    {_row(each, row, times)}" for row, times in shown)
            continue
        gone, new = _differences(before[each.output], each)
        yield from (f"  - {_row(before[each.output], row, times)}" for row, times in list(gone.items())[:ROWS_SHOWN])
        yield from (f"  + {_row(each, row, times)}" for row, times in list(new.items())[:ROWS_SHOWN])
        if not (gone or new or each.error):
            yield "    the same as before"


def _row(change: BranchChange, row: tuple[Any, ...], times: int) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in zip(change.fields, row, strict=True))
    return safe_text(values + (f" ({times} times)" if times > 1 else ""))


def _differences(old: BranchChange, new: BranchChange) -> tuple[Counter[Any], Counter[Any]]:
    before, after = Counter(old.rows), Counter(new.rows)
    return before - after, after - before


def _facts(change: BranchChange, before: Mapping[str, BranchChange]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "output": change.output,
        "error": change.error,
        "rows": [dict(zip(change.fields, row, strict=True)) for row in Counter(change.rows).elements()],
    }
    if change.output in before:
        old = before[change.output]
        gone, new = _differences(old, change)
        facts["gone"] = [dict(zip(old.fields, row, strict=True)) for row in gone.elements()]
        facts["new"] = [dict(zip(change.fields, row, strict=True)) for row in new.elements()]
    return facts
