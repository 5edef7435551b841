"""What a store does with odd values: each comes back the same, or is refused before anything is committed.

A store plugs in by a module ``tests/values/test_<store>.py`` that runs `check_store` over a `Store` of its own, way by
way, and by a file ``tests/values/refused/<store>.json``: for each type the odd values that it refuses, each with the
reason, or one reason for the type. What isn't named there has to come back as it was. ``python -m tests.values``
writes the table of ``docs/reference/values.md`` from these files; no type may be missing.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.values.odd import NULL, ODD, same
from trident_py.errors import FailedException, TridentError

REFUSED = Path(__file__).parent / "refused"


class Store(ABC):
    """A sink, state, format or spout, as one test of values sees it."""

    @abstractmethod
    def write(self, ddl: str, values: Sequence[Any]) -> None:
        """Commit one batch of ``values`` of the type ``ddl``, in a field ``v``, into a place that nothing is in yet.

        Rows have a field ``n int`` besides, with their number from 0 on.

        Raises:
            TridentError, FailedException, TypeError: one of them is refused, by name; nothing is committed.
        """

    @abstractmethod
    def read(self) -> list[Any]:
        """Return the values by their numbers, as a client that is not ours reads them from where they were written."""

    def same(self, stored: Any, value: Any, ddl: str) -> bool:
        """Tell whether ``stored`` is ``value``; a client that has other Python types for it turns them back here."""
        return same(stored, value)


def refusals(name: str) -> Mapping[str, Mapping[str, str] | str]:
    """Return what the store ``name`` refuses: by type a reason, or reasons by the names of odd values."""
    found: dict[str, Mapping[str, str] | str] = json.loads((REFUSED / f"{name}.json").read_text())
    return found


def check_type(store: Store, name: str, ddl: str) -> None:
    """Check that each odd value of ``ddl`` is the same afterwards, all in one batch, or is refused, each alone."""
    refused = refusals(name).get(ddl, {})
    odd = ODD[ddl]
    if isinstance(refused, str):
        _check_refused(store, ddl, "any value", next(iter(odd.values())))
        return
    unknown = refused.keys() - odd.keys()
    assert not unknown, f"{name}.json names values of {ddl} that there are not: {unknown}"
    for each in refused:
        _check_refused(store, ddl, each, odd[each])
    taken = {each: value for each, value in odd.items() if each not in refused} | {"null": NULL}
    store.write(ddl, list(taken.values()))
    stored = store.read()
    assert len(stored) == len(taken), f"{name}, {ddl}: {len(taken)} values were written and {len(stored)} read"
    changed = {
        each: (value, now)
        for (each, value), now in zip(taken.items(), stored, strict=True)
        if not store.same(now, value, ddl)
    }
    assert not changed, f"{name}, {ddl}: values changed on their way (given, stored): {changed}"


def _check_refused(store: Store, ddl: str, each: str, value: Any) -> None:
    with pytest.raises((TridentError, FailedException, TypeError)) as refusal:
        store.write(ddl, [value])
    assert re.search("""['"`]v['"`.]""", str(refusal.value)), f"{ddl}, {each}: which field? {refusal.value}"
