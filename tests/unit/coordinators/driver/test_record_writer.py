"""What a write of the record has of everything that a leadership knows, and when one is due."""

from __future__ import annotations

from coordinators.record.record import CommitIntent
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import canonical_json, content_hash
from tests.unit.coordinators.world import World


def test_what_is_written_is_what_a_later_leader_finds() -> None:
    world = World().start(max_spout_pending=2)
    world.run_until_quiet()
    writer = world.driver.writer
    assert writer.record == writer.store.read()
    assert writer.record.attempt_ids == {1: 0, 2: 0}
    assert writer.record.metadata == {1: {"lines": [1, "first"]}, 2: {"lines": [2, "first"]}}


def test_a_write_without_the_machines_wish_leaves_its_position_as_it_was() -> None:
    world = World().start()
    world.run_until_quiet()
    before = world.driver.record
    world.driver.writer.write()
    after = world.driver.record
    assert (after.current_txid, after.attempt_ids, after.seq) == (
        before.current_txid,
        before.attempt_ids,
        before.seq + 1,
    )


def test_an_intent_keeps_the_hash_of_the_definition_that_it_was_first_stored_with() -> None:
    world = World().start(store_intents=True)
    world.run_until_quiet()
    world.processed("1:0")
    intent = CommitIntent(TransactionAttempt(1, 0), content_hash(canonical_json({"lines": [1, "first"]})))
    assert world.driver.record.committing == (intent,)
    world.driver.writer.write()
    assert world.driver.record.committing == (intent,)


def test_a_delivered_success_is_due_only_when_no_other_write_is_in_sight() -> None:
    world = World().start()
    world.run_until_quiet()
    writer = world.driver.writer
    assert not writer.is_due
    writer.owed.upto += 1  # delivered, while transaction 1 is active: it rides on the next write
    assert (writer.has_new_success, writer.is_due) == (True, False)
