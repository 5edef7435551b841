"""The data plane with real threads: which transactions commit in one step, and what exceptions mean."""

from __future__ import annotations

import pytest

from coordinators.driver.batch_streams import Batch
from coordinators.protocol.messages import Failed, FailureKind, SuccessDelivered
from coordinators.protocol.protocol import StreamId
from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.engine.driving import Driven, driven, spout_of
from tests.unit.trident_py.engine.numbers import CommitterNumbers, Numbers
from tests.unit.trident_py.engine.steps import Steps
from trident_py.engine.plane.emitted import SMALL_ROWS
from trident_py.errors import FailedException
from trident_py.interfaces.collector import TridentCollector


def test_what_an_emitter_raises_as_a_failed_exception_says_whose_source_is_away(world: Driven) -> None:
    class Away(Numbers):
        def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
            raise FailedException("nobody there")

    world.streams.workers.spouts[0].executor.emitter = Away()
    world.emit(1, {"s": 1})
    failed = world.next()
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.spouts) == (FailureKind.UNREACHABLE, ("s",))


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ("sss", [[1, 2, 3]]),
        ("lll", [[1], [2], [3]]),
        ("sslss", [[1, 2], [3], [4, 5]]),
        ("lssl", [[1], [2, 3], [4]]),
    ],
)
def test_small_transactions_commit_in_one_step_and_each_large_one_alone(
    world: Driven, steps: Steps, caplog: pytest.LogCaptureFixture, sizes: str, taken: list[list[int]]
) -> None:
    attempts = [world.emit(txid, {"s": 1 if size == "s" else SMALL_ROWS + 1}) for txid, size in enumerate(sizes, 1)]
    world.acked(StreamId.BATCH, 2 * len(sizes))  # by the emitter and by the job
    world.commit(*attempts)
    world.acked(StreamId.COMMIT, len(sizes))
    assert steps.taken == taken
    assert steps.groups == {1}, "each step knows what the record may not have yet"
    # Whoever waits for those before it doesn't fall silent.
    waiting = [set(range(part[0], len(sizes) + 1)) for part in taken]
    assert all(txids <= alive for txids, alive in zip(waiting, steps.alive, strict=True))
    # And it is said what they wait for.
    assert caplog.messages == [
        f"topology t: the commit of transaction {part[-1]} (steps) has taken 7 s so far; commits "
        f"and queries of states wait for it"
        for part in taken
    ]


def test_an_empty_transaction_commits_and_succeeds_and_no_spout_hears_of_it(steps: Steps) -> None:
    class Unasked(CommitterNumbers):
        def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: TridentCollector) -> None:
            raise AssertionError(attempt)

        def commit(self, attempt: TransactionAttempt) -> None:
            raise AssertionError(attempt)

        def success(self, attempt: TransactionAttempt) -> None:
            raise AssertionError(attempt)

    with driven([spout_of(Unasked(), "n bigint")], [steps]) as world:
        steps.world = world
        attempt = world.emit(1, {}, is_empty=True)
        world.acked(StreamId.BATCH, 2)
        world.commit(attempt)
        world.acked(StreamId.COMMIT, 2)
        world.turn(lambda: world.streams.emit_success(attempt, None))
        assert world.next() == SuccessDelivered(1)
    assert steps.taken == [[1]]


def test_spouts_hear_of_numbers(steps: Steps) -> None:
    emitter = CommitterNumbers()
    with driven([spout_of(emitter, "n bigint")], [steps]) as world:
        steps.world = world
        attempt = TransactionAttempt(5, 1)
        batch = Batch(attempt=attempt, number=3, commits=3, metadata={"s": 1}, time=0, edges=[1])
        world.turn(lambda: world.streams.emit_batch(batch))
        world.acked(StreamId.BATCH, 2)
        world.commit(attempt)
        world.acked(StreamId.COMMIT, 2)
        world.turn(lambda: world.streams.emit_success(attempt, 3))
        assert world.next() == SuccessDelivered(5)
    assert emitter.heard == [("emit", "3:1"), ("commit", "3:1"), ("success", "3:1")]
    assert steps.taken == [[5]]
