"""What is special about the in-memory store; what it shares with the real one is in tests/contract."""

from __future__ import annotations

import pytest

from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import InMemoryCoordination, TopologyIdentity
from coordinators.values.errors import FencedError


def test_an_older_leadership_knows_at_once_that_it_is_over() -> None:
    coordination = InMemoryCoordination()
    older = coordination.acquire()
    coordination.acquire()
    for refused in (older.ensure_leading, older.heartbeat, lambda: older.write(CoordinatorRecord(1))):
        with pytest.raises(FencedError, match="epoch 1 is over, epoch 2 leads"):
            refused()


def test_two_coordinations_are_two_topologies() -> None:
    assert InMemoryCoordination().identity.uuid != InMemoryCoordination().identity.uuid


def test_an_identity_can_be_given() -> None:
    identity = TopologyIdentity("wordcount", "u", 3)
    assert InMemoryCoordination(identity).acquire().identity == identity


def test_what_is_stored_outlives_the_leadership_that_wrote_it() -> None:
    coordination = InMemoryCoordination()
    leadership = coordination.acquire()
    leadership.write(CoordinatorRecord(1, seq=4))
    leadership.close()
    assert coordination.acquire().read() == CoordinatorRecord(1, seq=4)
