"""The lease: how long a session may be relied on, by our own clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinators.backends.zookeeper.connecting import ROUNDS_PER_SESSION
from coordinators.backends.zookeeper.session import Lease

moments = st.floats(0, 1000)


@given(st.floats(0.1, 60), moments, moments)
def test_it_ends_before_the_session_can_have_ended(seconds: float, answered: float, now: float) -> None:
    lease = Lease(seconds, answered)
    assert answered < lease.ends_at < answered + seconds
    assert lease.patience(now) >= seconds / ROUNDS_PER_SESSION, "one round has to have its time"
    assert lease.patience(now) >= lease.ends_at - now


@given(st.floats(0.1, 60), moments)
def test_a_round_is_due_long_before_the_end(seconds: float, answered: float) -> None:
    lease = Lease(seconds, answered)
    assert not lease.is_round_due(answered)
    assert lease.is_round_due(lease.ends_at)
    assert lease.silence(answered + 1.0) > 0.9
