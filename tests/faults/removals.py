"""Faults under a state that removes keys: words that came an even number of times have no key, the others have one.

It commits together with the counts. A key that was removed, and is there again, or one that is gone though its removal
was rolled back, would be wrong from then on: each transaction turns it over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.faults.case import Case
from tests.faults.catalogue import fault, happened
from tests.faults.check import words_in
from tests.faults.crashes import crash
from tests.faults.databases import crash_at


def removing(case: Case, harm: Callable[[], None]) -> None:
    """Whatever ``harm`` does, the state has the words that came an odd number of times."""
    case.removes = True
    harm()
    case.drain()
    words = words_in(case.feeder.files)
    odd = {word for word, times in words.items() if times % 2}
    happened(0 < len(odd) < len(words), "some words are there, others not")
    assert {word for (word,) in case.query("SELECT word FROM odd")} == odd


for point in ("after_db_commit", "before_shared_commit", "after_shared_commit"):

    @fault(f"removal-crash-{point.replace('_', '-')}")
    def _(case: Case, point: str = point) -> None:
        """A2, A3: the leader dies when the keys are about to be removed, are, and when that is committed."""
        removing(case, partial(crash, point, case))


@fault("removal-postgres-restarted")
def _(case: Case) -> None:
    """D2: the server crashes when the keys are removed, and that is not committed."""
    removing(case, partial(crash_at, case, before_shared_commit=["hold", 1]))
