"""What stores must agree on: transactions, the rows of sources that several read, and values that one gives another."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations

from tests.simulation.rules import Violation
from tests.simulation.stores import ParkedRows, Rows, Store, source_of


def check_agreement(stores: Mapping[str, Store], committed: int, group_max: int, parked: ParkedRows) -> None:
    """S2, S4, S11 over stores: what the record calls committed is the same in all of them, and at most one run more."""
    there = {name: store for name, store in stores.items() if not store.lags}
    for store in there.values():
        if not committed <= len(store.ledger) <= committed + group_max:
            story = f"{store.name} has {len(store.ledger)} transactions, the record says {committed} are committed"
            raise Violation("S11", story)
        if store.fed_by:
            check_values(store, stores[store.fed_by], committed)
    releases = {
        number
        for store in there.values()
        if store.collects
        for number, entry in enumerate(store.ledger[:committed])
        if any(position < 0 for _, position in entry.rows)
    }
    for one, other in combinations([store for store in there.values() if not (store.fed_by or store.collects)], 2):
        _check_rows(one, other, committed, releases)
    for letters in (store for store in there.values() if store.collects):
        for good in (store for store in there.values() if store.leaves_out):
            _check_whole(good, letters, committed, parked)


def check_together(stores: Mapping[str, Store]) -> None:
    """S22: who reads a database sees all of a transaction, or none of it."""
    has = {name: len(store.ledger) for name, store in stores.items()}
    if len(set(has.values())) > 1:
        raise Violation("S22", f"a reader of the database finds {has} transactions")


def check_values(downstream: Store, feeding: Store, committed: int) -> None:
    """S21: a store has, of each transaction, the new values that the other one had when it had committed it."""
    entries = zip(downstream.ledger, feeding.ledger, feeding.new_values(), strict=False)
    for txid, (here, there, values) in enumerate(entries, 1):
        # What isn't committed for good may be there as an older attempt has made it.
        if here.rows != values and (txid <= committed or here.token == there.token):
            raise Violation("S21", f"{downstream.name} has {here}, {feeding.name} gave {values} with {there}")


def _check_rows(one: Store, other: Store, committed: int, releases: Collection[int]) -> None:
    for number, (here, there) in enumerate(zip(one.ledger[:committed], other.ledger[:committed], strict=True)):
        is_gap = here.is_passed_over or there.is_passed_over or number in releases
        if not is_gap and _read_by(other, here.rows) != _read_by(one, there.rows):
            raise Violation("S2", f"{one.name} has {here}, {other.name} has {there}")


def _check_whole(good: Store, letters: Store, committed: int, parked: ParkedRows) -> None:
    """S25: each row of a batch is in a store, or it is a bad one; S26: it may move from there to here, once.

    A batch that is left out has its rows in its turn, but nowhere; its release has them elsewhere.
    """
    due: dict[str, int] = {}
    for here, bad in zip(good.ledger[:committed], letters.ledger[:committed], strict=True):
        told = [(name.partition("@"), n) for name, n in bad.rows if name.endswith(f"@{good.name}")]
        gone = [(spout, ~n) for (spout, *_), n in told if n < 0]
        rows = [*here.rows, *((spout, n) for (spout, *_), n in told if n >= 0)]
        if gone and sorted(gone) != sorted(rows):
            raise Violation("S26", f"{good.name} has {here}, {letters.name} has {bad}")
        part = parked.released.get(here.token.txid)
        if part is not None and not gone and not here.is_left_out and sorted(rows) != sorted(parked.rows[part]):
            raise Violation("S25", f"{good.name} has {here}, {letters.name} has {bad}, released is {part}")
        if here.is_left_out and part is None:
            rows = [*parked.whole.get(here.token.txid, ())]
        for spout, position in sorted(rows) if part is None else ():
            if position != due.get(spout, 0):
                raise Violation("S25", f"{good.name} has {here}, {letters.name} has {bad}, due is {due}")
            due[spout] = position + 1
    if wrong := {row: count for row, count in letters.letters(good.name).items() if count not in (0, 1)}:
        raise Violation("S26", f"{letters.name} has bad rows of {good.name} so often: {wrong}")


def _read_by(store: Store, rows: Rows) -> Rows:
    return tuple(row for row in rows if source_of(row[0]) in store.reads) if store.reads else rows
