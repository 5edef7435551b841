"""Who waits to lead: what ends the waiting."""

from __future__ import annotations

import pytest

from coordinators.status.candidate import Candidate, Leader, Withdrawn
from coordinators.values.errors import FencedError


def test_a_leader_says_who_it_is() -> None:
    assert str(Leader("h", 7, "2026-01-01T00:00:00+00:00")) == "pid 7 on host h, since 2026-01-01T00:00:00+00:00"


def test_patience_that_is_over_names_the_leader_and_the_way_out() -> None:
    candidate = Candidate("wordcount", patience=0.0)
    candidate.saw(Leader("h", 7, "today"))
    with pytest.raises(FencedError, match=r"'wordcount' is led by pid 7 on host h, since today.*--standby"):
        candidate.wait(60.0)


def test_a_candidate_that_was_woken_looks_once_more_although_its_patience_is_over() -> None:
    candidate = Candidate("wordcount", patience=0.0)
    candidate.wake()
    candidate.wait(60.0)
    with pytest.raises(FencedError):
        candidate.wait(60.0)


def test_a_withdrawn_candidate_waits_no_longer() -> None:
    candidate = Candidate("wordcount")
    candidate.withdraw()
    with pytest.raises(Withdrawn):
        candidate.wait(60.0)
