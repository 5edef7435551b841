"""How Spark jobs are called."""

from __future__ import annotations

from coordinators.values.attempt import TransactionAttempt
from trident_py.engine.ports.job_names import JobNames

NAMES = JobNames("wordcount", 3)
ATTEMPTS = [TransactionAttempt(txid, 0) for txid in (7, 8, 9)]


def test_a_job_says_whose_it_is_and_what_comes_of_it() -> None:
    assert NAMES.description(ATTEMPTS[:1], "→ counts") == "wordcount: 7:0 → counts"
    assert NAMES.description(ATTEMPTS, "→ counts") == "wordcount: 7:0 to 9:0 → counts"


def test_a_job_that_is_shared_isnt_found_by_the_tag_of_one_that_is_not() -> None:
    assert NAMES.tag(ATTEMPTS[0]) == "trident:wordcount:3:7:0"
    assert NAMES.shared_tag(ATTEMPTS[:1]) == "trident:wordcount:3:7:0+0"
    assert NAMES.shared_tag(ATTEMPTS) == "trident:wordcount:3:7:0+2"
