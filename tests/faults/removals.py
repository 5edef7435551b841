"""Faults under states that remove keys, by `REMOVE` or after a time: a key that is back, or one that is gone for good.

One commits together with the counts, the other in SQLite. What they should have is known from what was read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from tests.faults import churn
from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.check import words_in, words_of
from tests.faults.crashes import crash
from tests.faults.databases import crash_at
from tests.faults.points import SHARED, SQLITE


def _compared(case: Case, kind: str, harm: Callable[[], None], expected: Callable[[Case], dict[str, int]]) -> None:
    """Whatever ``harm`` does, both states have what is expected."""
    case.churn = kind
    harm()
    case.drain()
    there = expected(case)
    assert dict(case.query("SELECT word, n FROM going")) == there, "in PostgreSQL"
    assert churn.rows_in(case.churn_file) == there, "in SQLite"


def _odd(words: Counter[str]) -> dict[str, int]:
    odd = {word: 1 for word, times in words.items() if times % 2}
    happened(0 < len(odd) < len(words), "some words are there, others not")
    return odd


def removing(case: Case, harm: Callable[[], None]) -> None:
    """The states have the words that came an odd number of times: each transaction turns them over."""
    _compared(case, "odd", harm, lambda case: _odd(words_in(case.feeder.files)))


for point in ("after_db_commit", *SHARED, *SQLITE):

    @fault(f"removal-crash-{point.replace('_', '-')}")
    def _(case: Case, point: str = point) -> None:
        """A2, A3: the leader dies when the keys are about to be removed, are, and when that is committed."""
        removing(case, partial(crash, point, case))


@fault("removal-postgres-restarted")
def _(case: Case) -> None:
    """D2: the server crashes when the keys are removed, and that is not committed."""
    removing(case, partial(crash_at, case, before_shared_commit=["hold", 1]))


def _drawn(case: Case) -> dict[str, int]:
    """The words that came an odd number of times, each transaction as it was drawn last."""
    [(upto,)] = case.query("SELECT max(txid) FROM ledger")
    drawn = [(event["txid"], event["words"]) for event in case.events("drawn") if event["txid"] <= upto]
    last = dict(drawn)
    happened(any(words != last[txid] for txid, words in drawn), "a transaction came again, and had other words")
    return _odd(Counter(word for words in last.values() for word in words))


for point in SHARED:

    @fault(f"removal-opaque-crash-{point.replace('_', '-')}")
    def _(case: Case, point: str = point) -> None:
        """A2, A3: what was removed is there again for the transaction's new rows, at the takeover."""
        _compared(case, "opaque", partial(crash, point, case), _drawn)


def _recent(case: Case) -> dict[str, int]:
    """What a run that nothing happens to leaves alive, by the times of the transactions."""
    read = case.query("SELECT time, extents FROM ledger ORDER BY txid")
    there = churn.alive((int(time), words_of(splits)) for time, splits in read)
    happened(0 < len(there) < len(words_in(case.feeder.files)), "some words are there, others have expired")
    return there


for point in SHARED:

    @fault(f"ttl-crash-{point.replace('_', '-')}")
    def _(case: Case, point: str = point) -> None:
        """A2, A3: the leader dies around the commit in which keys expire; by the next one's time many more have."""
        _compared(case, "recent", partial(crash, point, case), _recent)
