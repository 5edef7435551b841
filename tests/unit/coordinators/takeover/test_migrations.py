"""Renamed and dropped parts: the record under the names of the program, or a refusal that names the part."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from coordinators.record.bad_rows import BadRow
from coordinators.record.declarations import Declaration, Declarations, Declared, Migration
from coordinators.record.parking import Parked, ParkedList
from coordinators.record.record import CommitIntent, CoordinatorRecord, Failure
from coordinators.takeover.changes import Comparison, compared
from coordinators.takeover.migrations import migrated_text, migrating, renamed
from coordinators.takeover.takeover import Torn
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Fingerprint, Json, canonical_json, content_hash
from coordinators.values.cursors import Cursors
from coordinators.values.errors import TopologyError
from tests.unit.coordinators.comparing import NEW, USUAL, ran, spout, state, stored, window

RENAMED = (Migration(name="lines", rename="log"), Migration(name="counts", rename="totals"))
NOW = (spout("log"), state("totals", "log"))
WORDS = frozenset({"value", "aggregator"})


def taken(record: CoordinatorRecord, entries: Sequence[Declaration], *migrations: Migration) -> CoordinatorRecord:
    """The record that a takeover compares."""
    return stored(renamed("wc", record, Declarations(entries, (), migrations)))


def refused(record: CoordinatorRecord, entries: Sequence[Declaration], *migrations: Migration) -> str:
    with pytest.raises(TopologyError) as raised:
        renamed("wc", record, Declarations(entries, (), migrations))
    return str(raised.value)


def begun(record: CoordinatorRecord) -> CoordinatorRecord:
    """The record with all that it may have of a spout and a state: transactions 20 and 21 are not committed."""
    definitions = {"lines": 200, "other": 7}
    return evolve(
        record,
        attempt_ids={20: 1, 21: 0},
        metadata={**record.metadata, 20: definitions, 21: {"lines": 210}},
        committing=(
            CommitIntent(TransactionAttempt(20, 1), content_hash(canonical_json(definitions))),
            CommitIntent(TransactionAttempt(21, 0), "00000000"),
        ),
        cursors={"lines": Cursors().updated({"a.log": 5}), "other": Cursors()},
        fingerprints={20: {"lines": Fingerprint(3, 4, "rows")}},
        failures={21: Failure(1, 0, "it was away", 1.0, 2.0, spout="lines")},
        resting={"old": 3},
        gaps={"counts": range(3, 5)},
        bad_rows={20: (BadRow(branch="counts", spout="lines", hash=9, operation="map", error="no"),)},
    )


def test_everything_that_the_record_has_of_a_part_has_its_new_name() -> None:
    record = begun(ran(NEW, *USUAL, upto=19))
    found = taken(record, NOW, *RENAMED)
    definition = {"log": 200, "other": 7}
    assert found.metadata == {19: {"log": 190}, 20: definition, 21: {"log": 210}}
    assert [pin.hash for pin in found.committing] == [content_hash(canonical_json(definition)), "00000000"]
    assert found.cursors == {"log": record.cursors["lines"], "other": Cursors()}
    assert found.fingerprints == {20: {"log": Fingerprint(3, 4, "rows")}}
    assert found.failures[21].spout == "log"
    assert found.states == {"totals": 1}
    assert found.gaps == {"totals": range(3, 5)}
    assert [(each.branch, each.spout) for each in found.bad_rows[20]] == [("totals", "log")]
    assert found.resting == {"old": 3}
    assert "lines" not in str(found).replace("lines > map", "")
    assert "counts" not in str(found)


def test_after_that_nothing_has_changed_and_the_calls_change_nothing() -> None:
    record = taken(begun(ran(NEW, *USUAL, upto=19)), NOW, *RENAMED)
    found = compared(record, Declarations(NOW, (), RENAMED))
    assert (found.lines, found.refusals) == ((), ())
    assert taken(record, NOW, *RENAMED) == record
    assert taken(NEW, NOW, *RENAMED) == NEW


def test_names_may_change_more_than_once() -> None:
    twice = (Migration(name="counts", rename="sums"), Migration(name="sums", rename="totals"))
    now = (spout(), state("totals"))
    record = ran(NEW, *USUAL, upto=19)
    assert taken(record, now, *twice).states == {"totals": 1}
    assert taken(taken(record, (spout(), state("sums")), *twice[:1]), now, *twice).states == {"totals": 1}


def test_a_name_that_is_taken_is_refused() -> None:
    record = ran(ran(NEW, *USUAL, upto=19), spout(), state("totals"), upto=29)
    text = refused(record, (spout(), state("totals")), RENAMED[1])
    assert "'counts' can't be renamed to 'totals', which is stored, too: a start without migrate() has begun it" in text
    assert "or let the old one go: topology.migrate('counts', drop=True)" in text
    dropped = Migration(name="counts", is_dropped=True)
    assert taken(record, (spout(), state("totals")), dropped).states == {"totals": 20}


def test_two_parts_never_get_one_name() -> None:
    record = ran(NEW, *USUAL, state("sums"), upto=19)
    both = [Migration(name=name, rename="totals") for name in ("counts", "sums")]
    assert "can't be renamed to 'totals'" in refused(record, (spout(), state("totals")), *both)


def test_an_output_with_the_default_name_of_a_renamed_spout_never_begins_again_in_silence() -> None:
    record = ran(NEW, spout(), evolve(window(), details={"spouts": "lines"}), upto=19)
    now = (spout("log"), window(name="log-window"))
    text = refused(record, now, RENAMED[0])
    assert "window 'lines-window' reads spout 'lines', which is renamed, and is not declared any more" in text
    assert "give it its stored name, by Stream.name('lines-window')" in text
    named = (spout("log"), window("log > window", name="lines-window", is_named=True))
    assert compared(taken(record, named, RENAMED[0]), Declarations(named)).refusals == ()
    let_go = (RENAMED[0], Migration(name="lines-window", is_dropped=True))
    assert taken(record, now, *let_go).states == {}


def test_a_dropped_spout_begins_again_if_it_is_ever_declared_again() -> None:
    record = ran(NEW, *USUAL, spout("other"), upto=19)
    now, drop = (spout("log"), state(spouts="log")), Migration(name="lines", is_dropped=True)
    found = compared(taken(record, now, drop, Migration(name="other", is_dropped=True)), Declarations(now))
    assert found.refusals == ()
    assert "spout 'log' is new: it begins with transaction 20" in found.lines
    assert found.record.metadata == {19: {}}
    assert found.record.declared is not None
    assert [*Declared.of(found.record.declared).spouts] == ["log"]


def test_a_spout_whose_batches_have_begun_is_not_dropped() -> None:
    record = begun(ran(NEW, *USUAL, upto=19))
    text = refused(record, (spout("other"),), Migration(name="lines", is_dropped=True))
    assert "spout 'lines' can't be dropped: 2 of its batches have begun and are not committed. To fix" in text


def test_a_dropped_state_is_forgotten() -> None:
    record = begun(ran(NEW, *USUAL, upto=19))
    found = taken(record, (spout(),), Migration(name="counts", is_dropped=True))
    assert (found.states, found.gaps, found.bad_rows) == ({}, {}, {})
    assert found.declared is not None
    assert Declared.of(found.declared).outputs == {}


@pytest.mark.parametrize("entry", [Parked(txid=7, number=7, definition={"lines": 70}), "letters"])
def test_parked_rows_of_a_part_come_first(entry: Parked | str) -> None:
    letters = Parked(txid=7, number=0, definition={}, letters_of="counts")
    parked = ParkedList(entries=(letters if isinstance(entry, str) else entry,))
    dropped = [Migration(name=name, is_dropped=True) for name in ("lines", "counts")]
    for entries, calls in ((NOW, RENAMED), ((spout("other"),), dropped)):
        text = refused(evolve(ran(NEW, *USUAL, upto=19), parked=parked), entries, *calls)
        assert "can't be renamed or dropped: parked transactions or dead letters have rows of it. To fix this" in text


# --- values -----------------------------------------------------------------------------------------------------------


def changed_to(record: CoordinatorRecord, function: str, *words: str, **identity: str) -> Comparison:
    said: dict[str, Json] = {"aggregator": ["Sum"], **identity}
    now = (spout(), state("counts", "lines", **said))
    migration = Migration(name="counts", words=frozenset(words), function=function)
    return compared(record, Declarations(now, (), [migration]))


def test_values_that_are_migrated_may_change_and_the_function_is_remembered() -> None:
    record = ran(NEW, *USUAL, upto=19)
    found = changed_to(record, "as_sum", *WORDS)
    assert found.refusals == ()
    (line,) = found.lines
    assert line == (
        "state 'counts': its aggregator changed from 'Count' to 'Sum'; its values are migrated, with transaction 20"
    )
    assert migrating(record, found.record) == {"counts"}
    assert found.record.accepted == (migrated_text("counts", "as_sum"),)
    again = changed_to(found.record, "as_sum", *WORDS)
    assert (again.lines, again.refusals, again.record) == ((), (), found.record)
    assert migrating(found.record, again.record) == frozenset()


def test_a_function_never_migrates_twice() -> None:
    record = changed_to(ran(NEW, *USUAL, upto=19), "as_sum", *WORDS).record
    (text,) = changed_to(record, "as_sum", *WORDS, aggregator="Max").refusals
    assert "and function 'as_sum' of migrate() has migrated its values before, to an earlier declaration" in text
    assert changed_to(record, "as_max", *WORDS, aggregator="Max").refusals == ()


def test_a_function_never_migrates_twice_under_another_name_of_the_state() -> None:
    record = changed_to(ran(NEW, *USUAL, upto=19), "as_sum", *WORDS).record
    calls = (RENAMED[1], Migration(name="counts", words=WORDS, function="as_sum"))
    now = (spout(), state("totals", aggregator=["Max"]))
    found = taken(record, now, *calls)
    assert found.accepted == (migrated_text("totals", "as_sum"),)
    (text,) = compared(found, Declarations(now, (), calls)).refusals
    assert "and function 'as_sum' of migrate() has migrated its values before" in text


def test_a_function_that_is_declared_from_the_beginning_never_migrates() -> None:
    found = changed_to(NEW, "as_sum", *WORDS)
    assert found.record.accepted == (migrated_text("counts", "as_sum"),)
    assert migrating(NEW, found.record) == frozenset()
    later = evolve(found.record, current_txid=20)
    (text,) = changed_to(later, "as_sum", *WORDS, aggregator="Max").refusals
    assert "and function 'as_sum' of migrate() has migrated its values before" in text


def test_what_the_migration_does_not_name_is_refused_as_ever() -> None:
    record = ran(NEW, *USUAL, upto=19)
    (text,) = changed_to(record, "", "value").refusals
    assert "its aggregator changed from 'Count' to 'Sum'" in text
    (text,) = changed_to(record, "as_sum", *WORDS, keys="word string, day date").refusals
    assert "its keys changed" in text


def test_nothing_is_renamed_while_a_transaction_is_torn() -> None:
    record, torn = ran(NEW, *USUAL, upto=19), Torn(range(20, 21), ("counts",), ("sums",))
    found = compared(taken(record, NOW, *RENAMED), Declarations(NOW, (), RENAMED), torn)
    (text,) = found.refusals
    assert "start the version that began them once more and stop() it" in text
