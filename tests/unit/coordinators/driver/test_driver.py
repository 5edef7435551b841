"""The driver: one write a turn, store then announce, and every rule about what is asked and retried when."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from coordinators.driver.batch_streams import Batch
from coordinators.protocol.master import MasterBatchCoordinator
from coordinators.protocol.messages import (
    Acked,
    Broken,
    Failed,
    FailureKind,
    Fingerprinted,
    IdleWanted,
    OffsetsResolved,
    PauseRequested,
    Reported,
    ResumeRequested,
    StopRequested,
    SuccessDelivered,
)
from coordinators.protocol.protocol import Command, StreamId
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Fingerprint
from coordinators.values.errors import FencedError, PoisonBatchError, SpoutError, TridentError
from tests.unit.coordinators.world import Numbers, World, attempt


def test_a_transaction_goes_from_definition_to_success() -> None:
    world = World().start()
    assert world.run_until_quiet() == ["BATCH 1:0"]
    assert world.processed("1:0") == ["COMMIT 1:0"]
    assert world.committed("1:0") == ["SUCCESS 1:0", "BATCH 2:0"]
    assert world.metadata == {"1:0": {"lines": [1, "first"]}, "2:0": {"lines": [2, "first"]}}
    assert world.spouts["lines"].calls[:2] == [(1, None, None), (2, [1, "first"], None)]


@pytest.mark.parametrize("pending", [1, 3])
def test_one_write_a_transaction_in_steady_state_whatever_is_pending(pending: int) -> None:
    world = World().start(max_spout_pending=pending)
    world.run_until_quiet()
    before = world.driver.store.writes
    for txid in range(1, 11):
        world.processed(f"{txid}:0")
        world.committed(f"{txid}:0")
        world.delivered(txid)
    assert world.driver.store.writes - before == 10


@pytest.mark.parametrize("order", [1, -1])
def test_a_turn_takes_every_ack_before_it_emits_and_the_next_waits_for_a_message(order: int) -> None:
    world = World(spouts={"lines": Numbers(upto=3)}).start(max_spout_pending=2)
    world.run_until_quiet()
    world.processed("1:0")
    ends = [("1:0", StreamId.COMMIT), ("2:0", StreamId.BATCH)]
    acks = [Acked(attempt(text), stream, edge) for text, stream in ends for edge in world.edges[text, stream]]
    assert world.turn(*acks[::order]) == ["SUCCESS 1:0", "COMMIT 2:0", "BATCH 3:0"]
    world.run_until_quiet()
    assert world.driver.next_turn_at(world.now) > world.now


def test_metadata_and_attempt_are_durable_before_the_batch_is_announced() -> None:
    stored: list[object] = []

    class Watching(World):
        def emit_batch(self, batch: Batch) -> None:
            txid, record = batch.attempt.txid, self.driver.store.read()
            assert record is not None
            stored.append((record.attempt_ids[txid], record.metadata[txid]))
            super().emit_batch(batch)

    Watching().start(max_spout_pending=2).run_until_quiet()
    assert stored == [(0, {"lines": [1, "first"]}), (0, {"lines": [2, "first"]})]


def test_a_failure_replays_the_transaction_and_every_later_one_with_the_same_metadata() -> None:
    world = World().start(max_spout_pending=3)
    assert world.run_until_quiet() == ["BATCH 1:0", "BATCH 2:0", "BATCH 3:0"]
    world.spouts["lines"].tag = "second"
    assert world.run_until_quiet(Failed(attempt("2:0"), ValueError("boom"))) == ["CANCEL 2:0", "CANCEL 3:0"]
    assert world.after(0.2) == ["BATCH 2:1", "BATCH 3:1"]
    assert world.metadata["2:1"] == {"lines": [2, "first"]}
    assert world.processed("2:0") == []
    assert world.processed("1:0") == ["COMMIT 1:0"]


def test_what_was_defined_ahead_is_not_asked_for_again() -> None:
    world = World().start(max_spout_pending=2)
    world.run_until_quiet()
    world.run_until_quiet(Failed(attempt("1:0"), ValueError("boom")))
    assert world.after(0.2) == ["BATCH 1:1", "BATCH 2:1"]
    txids = [call[0] for call in world.spouts["lines"].calls]
    assert txids == [1, 2, 3, 1, 2]
    world.processed("1:1")
    assert world.committed("1:1") == ["SUCCESS 1:1", "BATCH 3:0"]


def test_what_an_opaque_spout_defined_ahead_is_asked_for_again_after_what_it_follows() -> None:
    world = World(exact=False).start(max_spout_pending=2)
    world.run_until_quiet()
    world.run_until_quiet(Failed(attempt("1:0"), ValueError("boom")))
    world.after(0.2)
    world.processed("1:1")
    world.committed("1:1")
    assert [call[0] for call in world.spouts["lines"].calls[:6]] == [1, 2, 3, 1, 2, 3]


def test_a_stale_failure_changes_nothing() -> None:
    world = World().start()
    world.run_until_quiet()
    world.run_until_quiet(Failed(attempt("1:0"), ValueError("boom")))
    assert world.after(1) == ["BATCH 1:1"]
    assert world.run_until_quiet(Failed(attempt("1:0"), ValueError("late"))) == []
    assert world.processed("1:1") == ["COMMIT 1:1"]


def test_an_attempt_that_fails_twice_in_one_turn_has_failed_once() -> None:
    world = World().start()
    world.run_until_quiet()
    world.reports = [Failed(attempt("1:0"), ValueError(branch)) for branch in ("one", "two")]
    assert world.run_until_quiet(Reported())[0] == "CANCEL 1:0"
    assert world.driver.failures.retries.known[1].count == 1


def test_five_failures_of_its_own_make_a_poison_batch() -> None:
    world = World().start()
    world.run_until_quiet()
    for tries in range(4):
        world.run_until_quiet(Failed(attempt(f"1:{tries}"), ValueError("boom")))
        assert world.after(30) == [f"BATCH 1:{tries + 1}"]
    with pytest.raises(PoisonBatchError, match="transaction 1 failed 5 times, last as 1:4: ValueError: boom") as caught:
        world.turn(Failed(attempt("1:4"), ValueError("boom")))
    assert isinstance(caught.value.__cause__, ValueError)


def test_failures_of_spark_and_collateral_replays_do_not_count() -> None:
    world = World().start(max_spout_pending=2)
    world.run_until_quiet()
    for tries in range(20):
        world.run_until_quiet(Failed(attempt(f"1:{tries}"), OSError("executor lost"), FailureKind.INTERRUPTED))
        assert world.after(60) == [f"BATCH 1:{tries + 1}", f"BATCH 2:{tries + 1}"]


def test_the_wait_before_a_replay_doubles_up_to_its_maximum() -> None:
    world = World().start()
    world.run_until_quiet()
    for tries, wait in enumerate([0.1, 0.2, 0.4]):
        world.run_until_quiet(Failed(attempt(f"1:{tries}"), OSError("gone"), FailureKind.INTERRUPTED))
        assert world.after(wait - 0.01) == []
        assert world.after(0.02) == [f"BATCH 1:{tries + 1}"]


def test_silence_fails_a_phase_and_a_living_job_is_not_silent() -> None:
    world = World().start(message_timeout=10.0)
    world.run_until_quiet()
    world.working = [(attempt("1:0"), StreamId.BATCH)]
    for _ in range(8):
        assert world.after(5) == []
    world.working = []
    said = [line for _ in range(4) for line in world.after(5)]
    assert said == ["CANCEL 1:0", "BATCH 1:1"]


def test_a_stream_without_consumers_acks_itself() -> None:
    world = World(committers=0).start()
    world.run_until_quiet()
    assert world.processed("1:0") == ["COMMIT 1:0", "SUCCESS 1:0", "BATCH 2:0"]


def test_nothing_is_emitted_past_a_txid_that_is_not_ready() -> None:
    world = World(spouts={"lines": Numbers(upto=2)}).start(max_spout_pending=5)
    assert world.run_until_quiet() == ["BATCH 1:0", "BATCH 2:0"]
    world.spouts["lines"].upto = 3
    assert world.after(1) == ["BATCH 3:0"]


def test_a_group_is_ready_when_any_spout_is_and_then_all_define() -> None:
    world = World(spouts={"a": Numbers(upto=0), "b": Numbers(upto=1)}).start(max_spout_pending=2)
    assert world.run_until_quiet() == ["BATCH 1:0"]
    assert world.metadata["1:0"] == {"a": [1, "first"], "b": [1, "first"]}
    assert world.after(5) == []


def test_a_new_leader_replays_what_was_in_flight_with_the_next_attempt_ids() -> None:
    first = World().start(max_spout_pending=3)
    first.run_until_quiet()
    first.processed("1:0")
    first.committed("1:0")
    second = World(coordination=first.coordination, spouts={"lines": Numbers(tag="second")})
    second.start(max_spout_pending=3)
    assert second.said == ["SUCCESS 1:0"]  # it was owed: the first leader never heard that it was delivered
    assert second.run_until_quiet() == ["BATCH 2:1", "BATCH 3:1", "BATCH 4:1"]
    assert second.metadata["3:1"] == {"lines": [3, "first"]}
    assert second.spouts["lines"].calls[0] == (2, [1, "first"], [2, "first"])


def test_a_success_that_is_delivered_in_the_turn_that_closes_the_next_leaves_that_one_owed() -> None:
    first = World(spouts={"lines": Numbers(upto=2)}).start(max_spout_pending=2)
    first.run_until_quiet()
    first.processed("1:0")
    first.processed("2:0")
    first.committed("1:0")
    closing = [Acked(attempt("2:0"), StreamId.COMMIT, edge) for edge in first.edges["2:0", StreamId.COMMIT]]
    assert "SUCCESS 2:0" in first.turn(*closing, SuccessDelivered(1))  # as if it crashed before it was heard
    second = World(first.coordination, spouts={"lines": Numbers(upto=2)}).start()
    assert second.said == ["SUCCESS 2:0"]


def test_a_delivered_success_is_not_owed_to_the_next_leader() -> None:
    first = World(spouts={"lines": Numbers(upto=1)}).start()
    first.run_until_quiet()
    first.processed("1:0")
    first.committed("1:0")
    first.delivered(1)
    second = World(coordination=first.coordination, spouts={"lines": Numbers(upto=1)}).start()
    assert second.run_until_quiet() == []
    assert second.said == []


def test_a_smaller_window_keeps_the_metadata_outside_it() -> None:
    first = World().start(max_spout_pending=4)
    first.run_until_quiet()
    second = World(coordination=first.coordination, spouts={"lines": Numbers(tag="second")}).start()
    assert second.run_until_quiet() == ["BATCH 1:1"]
    second.processed("1:1")
    second.committed("1:1")
    assert second.metadata["2:1"] == {"lines": [2, "first"]}


def test_a_fenced_leader_says_nothing_more() -> None:
    world = World().start()
    world.run_until_quiet()
    world.processed("1:0")
    world.coordination.acquire()
    with pytest.raises(FencedError):
        world.committed("1:0")
    assert "SUCCESS 1:0" not in world.said


def test_pause_lets_commits_go_on_and_holds_new_batches_and_replays() -> None:
    world = World().start(max_spout_pending=2)
    world.run_until_quiet()
    world.run_until_quiet(PauseRequested())
    assert world.processed("1:0") == ["COMMIT 1:0"]
    assert world.committed("1:0") == ["SUCCESS 1:0"]
    world.run_until_quiet(Failed(attempt("2:0"), ValueError("boom")))
    assert world.after(60) == []
    assert world.run_until_quiet(ResumeRequested()) == ["BATCH 2:1", "BATCH 3:0"]


def test_the_interval_holds_new_batches_but_no_replays() -> None:
    world = World().start(max_spout_pending=3, batch_interval=10.0)
    assert world.run_until_quiet() == ["BATCH 1:0"]
    assert world.after(5) == []
    assert world.after(5) == ["BATCH 2:0"]
    world.run_until_quiet(Failed(attempt("1:0"), ValueError("boom")))
    assert world.after(0.2) == ["BATCH 1:1", "BATCH 2:1"]
    assert world.after(10) == ["BATCH 3:0"]


def test_idleness_is_told_after_a_check_begun_after_the_question() -> None:
    world = World(spouts={"lines": Numbers(upto=0)}).start()
    world.after(1)
    told: list[BaseException | None] = []
    world.spouts["lines"].upto = 1
    world.run_until_quiet(IdleWanted(told.append))
    assert world.said == ["BATCH 1:0"]
    world.processed("1:0")
    world.committed("1:0")
    assert told == []
    world.delivered(1)
    world.after(1)
    assert told == [None]


def test_idleness_is_not_told_while_some_input_will_soon_be_ready() -> None:
    world = World(spouts={"lines": Numbers(upto=0, pending=1)}).start()
    told: list[BaseException | None] = []
    world.run_until_quiet(IdleWanted(told.append))
    world.after(1)
    assert told == []
    world.spouts["lines"].upto = 1
    world.after(1)
    world.processed("1:0")
    world.committed("1:0")
    world.delivered(1)
    world.after(1)
    assert told == [None]


def test_idleness_is_refused_while_paused_and_at_the_end() -> None:
    world = World().start()
    world.run_until_quiet(PauseRequested())
    told: list[BaseException | None] = []
    world.run_until_quiet(IdleWanted(told.append))
    assert [str(error) for error in told] == ["topology 'test' is paused; resume() it first"]
    world.driver.end(None, [IdleWanted(told.append)])
    assert len(told) == 1  # who waits is told when everything is closed
    over = TridentError("over")
    world.driver.idle.refuse(over)
    assert told[1:] == [over]


def test_who_waits_for_idleness_while_it_drains_is_told_when_it_has_ended() -> None:
    world = World().start()
    told: list[BaseException | None] = []
    world.run_until_quiet(StopRequested(drain=True), IdleWanted(told.append))
    assert world.driver.stopping
    assert told == []


def test_draining_commits_what_is_active_and_starts_nothing() -> None:
    world = World().start(max_spout_pending=2)
    world.run_until_quiet()
    world.run_until_quiet(StopRequested(drain=True))
    assert not world.driver.finished
    for txid in (1, 2):
        world.processed(f"{txid}:0")
        world.committed(f"{txid}:0")
        world.delivered(txid)
    assert world.driver.finished
    assert world.said == ["BATCH 1:0", "BATCH 2:0", "COMMIT 1:0", "SUCCESS 1:0", "COMMIT 2:0", "SUCCESS 2:0"]
    record = world.driver.store.read()
    assert record is not None
    assert (record.current_txid, record.success_upto) == (3, 2)


def test_an_exact_spout_that_changes_a_definition_is_an_error_that_names_it() -> None:
    class Fickle(Numbers):
        def initialize_transaction(self, txid: int, prev_metadata: object, curr_metadata: object) -> object:
            return [txid, len(self.calls), self.calls.append(())]  # type: ignore[func-returns-value]

    world = World(spouts={"lines": Fickle()}).start()
    world.run_until_quiet()
    world.run_until_quiet(Failed(attempt("1:0"), ValueError("boom")))
    with pytest.raises(SpoutError, match="spout 'lines', transaction 1: was defined as"):
        world.after(1)
    opaque = World(spouts={"lines": Fickle()}, exact=False).start()
    opaque.run_until_quiet()
    opaque.run_until_quiet(Failed(attempt("1:0"), ValueError("boom")))
    assert opaque.after(1) == ["BATCH 1:1"]
    assert opaque.metadata["1:0"] != opaque.metadata["1:1"]


def test_metadata_that_json_cannot_hold_is_an_error_at_once() -> None:
    class Tuples(Numbers):
        def initialize_transaction(self, txid: int, prev_metadata: object, curr_metadata: object) -> object:
            return (1, 2)

    world = World(spouts={"lines": Tuples()}).start()
    with pytest.raises(TridentError, match=r"spout 'lines', transaction 1: .*\(1, 2\) \(tuple\)"):
        world.run_until_quiet()


def test_pinned_commits_are_stored_before_they_are_announced() -> None:
    world = World().start(store_intents=True)
    world.run_until_quiet()
    before = world.driver.store.writes
    assert world.processed("1:0") == ["COMMIT 1:0"]
    record = world.driver.store.read()
    assert record is not None
    assert world.driver.store.writes == before + 1
    assert [pin.attempt for pin in record.committing] == [attempt("1:0")]
    world.run_until_quiet(Failed(attempt("1:0"), ValueError("boom")))
    world.after(1)
    record = world.driver.store.read()
    assert record is not None
    assert [pin.attempt for pin in record.committing] == [attempt("1:0")]  # a late task may still apply it


def test_a_defect_of_the_machine_ends_the_leadership_before_anything_is_stored_or_announced() -> None:
    class ForgetsSuccess(MasterBatchCoordinator):
        __slots__ = ()

        def _close(self, attempt: TransactionAttempt) -> Iterator[Command]:
            return islice(super()._close(attempt), 1)

    world = World().start()
    world.run_until_quiet()
    world.processed("1:0")
    world.driver.machine.__class__ = ForgetsSuccess
    writes, said = world.driver.store.writes, list(world.said)
    with pytest.raises(AssertionError, match="a defect of trident_py, please report it: a transaction came or went"):
        world.committed("1:0")
    assert (world.driver.store.writes, world.said) == (writes, said)
    again = World(coordination=world.coordination).start()
    assert again.run_until_quiet() == ["BATCH 1:1"]


def test_what_no_replay_mends_ends_the_leadership() -> None:
    world = World().start()
    world.run_until_quiet()
    with pytest.raises(RuntimeError, match="defect"):
        world.turn(Broken(RuntimeError("defect")))
    with pytest.raises(FencedError, match="newer"):
        world.turn(Failed(attempt("1:0"), FencedError("newer"), FailureKind.FATAL))


# --- what is learned by emitting ------------------------------------------------------------------------------------


def learned(text: str, *split: int) -> OffsetsResolved:
    return OffsetsResolved(attempt(text), "lines", {"extents": list(split)}, {"a": split[-1]})


def test_extents_are_durable_before_the_commit_and_move_the_cursors_when_it_is_closed() -> None:
    world = World().start(max_spout_pending=2, store_intents=True)
    world.run_until_quiet(learned("1:0", 0, 5))
    world.run_until_quiet(learned("1:0", 0, 5), learned("2:0", 5, 9))
    assert world.processed("1:0") == ["COMMIT 1:0"]
    assert world.driver.record.metadata[1] == {"lines": {"extents": [0, 5]}}
    assert world.driver.record.cursors == {}
    world.committed("1:0")
    assert dict(world.driver.record.cursors["lines"].items()) == {"a": 5}
    again = World(coordination=world.coordination, spouts={"lines": Numbers(tag="other")}).start(max_spout_pending=2)
    again.run_until_quiet()
    assert again.metadata["2:1"] == {"lines": {"extents": [5, 9]}}


def test_what_a_dead_attempt_learned_moves_nothing() -> None:
    world = World(exact=False).start()
    world.run_until_quiet()
    world.run_until_quiet(learned("1:0", 0, 5), Failed(attempt("1:0"), ValueError("boom")))
    assert world.after(0.2) == ["BATCH 1:1"]
    world.run_until_quiet(learned("1:0", 0, 7), learned("1:1", 0, 3))
    world.processed("1:1")
    world.committed("1:1")
    assert dict(world.driver.record.cursors["lines"].items()) == {"a": 3}


def test_a_replay_of_an_exact_batch_with_other_rows_ends_the_leadership_by_name_also_after_a_restart() -> None:
    seen = [Fingerprinted(attempt(text), "lines", Fingerprint(3, 7)) for text in ("1:0", "1:1")]
    world = World().start(store_intents=True)
    world.run_until_quiet()
    world.run_until_quiet(seen[0])
    world.processed("1:0")
    restarted = World(coordination=world.coordination).start(store_intents=True)
    restarted.run_until_quiet()
    restarted.run_until_quiet(seen[1])
    for other, what in [(Fingerprint(4, 7), "4 rows where .* read 3 rows"), (Fingerprint(3, 8), "other rows")]:
        with pytest.raises(SpoutError, match=f"spout 'lines', transaction 1: attempt 1:1 read.*{what}"):
            restarted.turn(Fingerprinted(attempt("1:1"), "lines", other))


def test_what_an_older_release_hashed_otherwise_is_compared_by_the_number_of_rows() -> None:
    world = World().start(store_intents=True)
    world.run_until_quiet()
    world.run_until_quiet(Fingerprinted(attempt("1:0"), "lines", Fingerprint(3, 7)))
    world.run_until_quiet(Fingerprinted(attempt("1:0"), "lines", Fingerprint(3, 8, "values")))
    with pytest.raises(SpoutError, match="4 rows where"):
        world.turn(Fingerprinted(attempt("1:0"), "lines", Fingerprint(4, 8)))
    with pytest.raises(SpoutError, match="other rows"):  # the later one counts from then on
        world.turn(Fingerprinted(attempt("1:0"), "lines", Fingerprint(3, 7, "values")))


def test_an_opaque_batch_may_have_other_rows_each_time() -> None:
    world = World(exact=False).start()
    world.run_until_quiet()
    world.run_until_quiet(Fingerprinted(attempt("1:0"), "lines", Fingerprint(3, 7)))
    assert world.run_until_quiet(Fingerprinted(attempt("1:0"), "lines", Fingerprint(4, 7))) == []


def test_nothing_grows_with_the_length_of_a_run() -> None:
    world = World(spouts={"lines": Numbers(upto=10_000)}).start(max_spout_pending=3)
    world.run_until_quiet()
    sizes, heads = [], []
    for txid in range(1, 601):
        if txid % 7 == 0:
            world.run_until_quiet(Failed(attempt(f"{txid}:0"), OSError("gone"), FailureKind.INTERRUPTED))
            world.after(60)
        live = str(world.driver.machine.active[txid].attempt)
        world.processed(live)
        world.committed(live)
        world.delivered(txid)
        if txid % 100 == 0:
            stored = world.coordination.stored
            driver = world.driver
            assert stored is not None
            sizes.append((len(driver.machine.attempt_ids), len(driver.definitions.known)))
            heads.append(len(stored.head))
    assert sizes[1:] == sizes[:1] * 5
    assert max(heads) - min(heads) < 100  # of some 500: numbers get longer


# --- several transactions at once -------------------------------------------------------------------------------------


def test_what_is_there_is_defined_with_one_question_and_admitted_with_one_write() -> None:
    world = World().start(max_spout_pending=4)
    writes = world.driver.record.seq
    assert world.run_until_quiet() == ["BATCH 1:0", "BATCH 2:0", "BATCH 3:0", "BATCH 4:0"]
    assert world.driver.record.seq == writes + 1
    asked = [call[:2] for call in world.spouts["lines"].calls]
    assert asked == [(1, None), (2, [1, "first"]), (3, [2, "first"]), (4, [3, "first"]), (5, [4, "first"])]


def test_a_turn_admits_what_fits_into_one_write_and_the_next_turns_the_rest() -> None:
    world = World(spouts={"lines": Numbers(tag="x" * 200_000)}).start(max_spout_pending=8)
    world.turn()
    assert world.turn() == ["BATCH 1:0", "BATCH 2:0"]
    assert world.run_until_quiet() == [f"BATCH {txid}:0" for txid in range(3, 9)]


def test_a_definition_above_what_a_turn_admits_is_admitted_alone() -> None:
    world = World(spouts={"lines": Numbers(tag="x" * 600_000)}).start(max_spout_pending=2)
    world.turn()
    assert world.turn() == ["BATCH 1:0"]
    assert world.turn() == ["BATCH 2:0"]


def test_a_spout_that_runs_out_in_between_is_asked_again_for_the_next_transaction() -> None:
    world = World(spouts={"lines": Numbers(upto=2)}).start(max_spout_pending=4)
    assert world.run_until_quiet() == ["BATCH 1:0", "BATCH 2:0"]
    world.spouts["lines"].upto = 3
    assert world.after(1) == ["BATCH 3:0"]


def test_what_fails_behind_others_costs_them_nothing() -> None:
    world = World(spouts={"lines": Numbers(upto=3, fails={2: 1})}).start(max_spout_pending=4)
    assert world.run_until_quiet() == ["BATCH 1:0"]
    assert world.after(60) == ["BATCH 2:0", "BATCH 3:0"]


def test_definitions_that_come_while_an_earlier_transaction_fails_stand() -> None:
    world = World().start(max_spout_pending=2)
    world.turn()
    first, *others = world._taken()
    assert world.turn(first) == ["BATCH 1:0"]
    assert world.turn(Failed(attempt("1:0"), RuntimeError("once"))) == ["CANCEL 1:0"]
    world.turn(*others)
    assert world.after(60) == ["BATCH 1:1", "BATCH 2:0"]
    calls = [txid for txid, *_ in world.spouts["lines"].calls]
    assert calls == [1, 2, 3, 1]


def test_a_spout_that_may_define_otherwise_is_asked_for_one_transaction_at_a_time() -> None:
    world = World(exact=False).start(max_spout_pending=3)
    world.turn()
    assert [txid for txid, *_ in world.spouts["lines"].calls] == [1]


def test_with_an_interval_each_batch_is_defined_when_it_is_due() -> None:
    world = World().start(max_spout_pending=3, batch_interval=5.0)
    assert world.run_until_quiet() == ["BATCH 1:0"]
    assert len(world.spouts["lines"].calls) == 1
    assert world.after(5) == ["BATCH 2:0"]


def test_what_is_processed_commits_together_is_closed_in_order_and_succeeds_in_order() -> None:
    world = World().start(max_spout_pending=3, group_max=8)
    world.run_until_quiet()
    assert world.processed("3:0") == []
    assert world.processed("2:0") == []
    assert world.processed("1:0") == ["COMMIT 1:0", "COMMIT 2:0", "COMMIT 3:0"]
    assert world.groups == [["1:0", "2:0", "3:0"]]
    assert world.committed("2:0") == []
    assert world.committed("1:0")[:2] == ["SUCCESS 1:0", "SUCCESS 2:0"]
    assert world.committed("3:0")[0] == "SUCCESS 3:0"


def test_a_run_is_closed_with_one_write() -> None:
    world = World().start(max_spout_pending=3, group_max=3)
    world.run_until_quiet()
    for text in ("3:0", "2:0", "1:0"):
        world.processed(text)
    before = world.driver.record
    acks = [
        Acked(attempt(text), StreamId.COMMIT, edge)
        for text in world.groups[0]
        for edge in world.edges[text, StreamId.COMMIT]
    ]
    world.turn(*acks)
    assert (world.driver.record.current_txid, world.driver.record.seq) == (4, before.seq + 1)


def test_a_member_that_fails_fails_its_run() -> None:
    world = World().start(max_spout_pending=3, group_max=3)
    world.run_until_quiet()
    for text in ("3:0", "2:0", "1:0"):
        world.processed(text)
    said = world.turn(Failed(attempt("2:0"), RuntimeError("busy"), FailureKind.INTERRUPTED))
    assert said == ["CANCEL 1:0", "CANCEL 2:0", "CANCEL 3:0"]
