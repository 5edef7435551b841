"""Spouts that changed: which go on, which are refused, and what can be accepted; see `takeover.spout_changes`."""

from __future__ import annotations

import pytest
from attrs import evolve

from coordinators.record.record import Bindings, CommitIntent
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Fingerprint, Json
from tests.unit.coordinators.comparing import (
    NEW,
    USUAL,
    changed,
    lines,
    offered,
    ran,
    refusal,
    spout,
    state,
)


def test_a_spout_that_is_added_begins_where_the_topology_is() -> None:
    record = ran(NEW, *USUAL, upto=19)
    added = lines(record, *USUAL, spout("others"))
    assert added == ["spout 'others' is new: it begins with transaction 20"]


def test_a_renamed_spout_is_refused_with_both_names_the_states_it_would_fill_and_the_ways_on() -> None:
    record = ran(NEW, *USUAL, upto=1)
    text = refusal(record, spout("log-lines"), state(spouts="log-lines"))
    assert text.startswith(
        "spout 'log-lines' is new and would be read from the beginning, while 'lines', which was read before "
        "transaction 2, is not declared any more. If they are the same source, all its rows count twice in counts: "
        "call it 'lines' as before, or say that it is renamed: topology.migrate('lines', rename='log-lines'). "
        "If it is another source, accept it: TridentConfig(accept=['spout:log-lines:"
    )


def test_another_source_in_place_of_a_spout_can_be_accepted() -> None:
    record = ran(NEW, *USUAL, upto=1)
    now = (spout("others"), state(spouts="others"))
    text = offered(refusal(record, *now))
    assert lines(record, *now, accept=[text]) == [
        f"spout 'others': continues, as accepted by {text}, from transaction 2 on",
        "spout 'lines' was read until transaction 1 and is not declared any more; its position is kept, and it "
        "continues from there when it is declared again",
        "state 'counts': its spouts changed from 'lines' to 'others', with transaction 2",
    ]
    after = ran(record, *now, upto=5, accept=[text])
    assert after.accepted == (text,)
    assert lines(after, *now) == []


def test_a_spout_renamed_in_two_steps_is_refused_too() -> None:
    record = ran(NEW, spout("a"), spout("b"), upto=3)
    record = ran(record, spout("a"), upto=5)
    assert "spout 'c' is new and would be read from the beginning, while 'b'" in refusal(record, spout("a"), spout("c"))


def test_a_spout_that_was_left_out_goes_on_where_it_was_when_it_comes_back() -> None:
    record = ran(NEW, spout("a"), spout("b"), upto=3)
    left = changed(record, spout("a"))
    assert left.lines == (
        "spout 'b' was read until transaction 3 and is not declared any more; its position is kept, and it "
        "continues from there when it is declared again",
    )
    assert (left.record.metadata, left.record.resting) == ({3: {"a": 30}}, {"b": 30})
    record = ran(record, spout("a"), upto=7)
    assert lines(record, spout("a")) == []
    back = changed(record, spout("a"), spout("b"))
    assert back.lines == (
        "spout 'b' is declared again: it continues with transaction 8 where it was after transaction 3",
    )
    assert (back.record.metadata, back.record.resting) == ({7: {"a": 70, "b": 30}}, {})


def test_a_spout_cannot_be_left_out_of_transactions_that_are_not_committed() -> None:
    record = evolve(ran(NEW, spout("a"), spout("b"), upto=3), attempt_ids={4: 0, 5: 0})
    record = evolve(record, metadata={**record.metadata, 4: {"a": 40, "b": 41}, 5: {"a": 50, "b": 51}})
    text = refusal(record, spout("a"))
    assert text.startswith(
        "spout 'b' is not declared any more, and transactions 4 to 5, which it has a part in, are not committed: its "
        "rows in them would be lost. To fix this: start the topology with it once more and stop() it, which commits "
        "them. If they are to continue without it, accept it: "
    )
    found = changed(record, spout("a"), accept=[offered(text)])
    assert found.refusals == ()
    assert found.record.metadata == {3: {"a": 30}, 4: {"a": 40}, 5: {"a": 50}}
    assert found.record.resting == {"b": 51}


def test_a_spout_of_another_class_under_the_same_name_is_refused() -> None:
    record = ran(NEW, *USUAL, upto=19)
    now = (spout(kind=["KafkaSpout"]), state())
    text = refusal(record, *now)
    assert text.startswith(
        "spout 'lines': its kind changed from 'FileSpout' to 'KafkaSpout', and it would continue from a posi"
    )
    assert changed(record, *now, accept=[offered(text)]).refusals == ()


@pytest.mark.parametrize(("before", "now"), [(["Old"], ["New", "Old"]), (["New", "Old"], ["Old"])])
def test_a_class_and_one_derived_from_it_are_the_same_kind(before: Json, now: Json) -> None:
    record = ran(NEW, spout(kind=before), upto=19)
    assert lines(record, spout(kind=now)) == []


def test_a_spout_may_give_other_fields_and_what_was_read_before_is_not_compared_with_them() -> None:
    record = evolve(
        ran(NEW, spout(), spout("others"), upto=2),
        fingerprints={3: {"lines": Fingerprint(3, 7), "others": Fingerprint(1, 1)}, 4: {"lines": Fingerprint(3, 8)}},
    )
    found = changed(record, spout(fields="value string, source string"), spout("others"))
    assert found.lines == (
        "spout 'lines': its fields changed from 'value string' to 'value string, source string', with transaction 3",
        "transactions 3 to 4 were read before and not committed; whether the rows are the same now is not compared: "
        "they have other fields, or an older release read them",
    )
    assert found.record.fingerprints == {3: {"others": Fingerprint(1, 1)}}


def test_definitions_go_by_numbers_and_what_is_told_by_transactions() -> None:
    ran_before = ran(NEW, spout(), spout("others"), upto=2)
    numbers, metadata = Bindings((3, 5)), {2: {"lines": 20, "others": 1}, 3: {"lines": 30}, 4: {"lines": 40}}
    record = evolve(ran_before, current_txid=4, metadata=metadata, fingerprints={4: {"lines": Fingerprint(3, 7)}})
    record = evolve(record, bindings=numbers)
    assert "transactions 4 to 6, which it has a part in, are not committed" in refusal(record, spout("others"))
    found = changed(record, spout(fields="value string, source string"), spout("others"))
    assert "transaction 6 was read before and not committed" in found.lines[-1]
    back = changed(evolve(record, metadata={}, resting={"lines": 20}), spout(), spout("others"))
    assert back.record.metadata == {2: {"lines": 20}}


def test_what_an_older_release_has_read_is_not_compared() -> None:
    record = evolve(NEW, current_txid=3, metadata={3: {"lines": 1}}, fingerprints={3: {"lines": Fingerprint(3, 7)}})
    found = changed(record, spout())
    assert found.record.fingerprints == {}
    assert "transaction 3 was read before and not committed" in found.lines[-1]


def test_a_spout_may_promise_something_else_unless_a_commit_may_have_begun() -> None:
    record = ran(NEW, *USUAL, upto=2)
    now = (spout(replay="opaque"), state())
    assert lines(record, *now) == ["spout 'lines': its replay changed from 'exact' to 'opaque', with transaction 3"]
    begun = evolve(record, committing=(CommitIntent(TransactionAttempt(3, 0), "00000000"),))
    assert "its replay changed from 'exact' to 'opaque'" in refusal(begun, *now)


def test_a_narrower_pattern_goes_on_with_a_line() -> None:
    record = ran(NEW, spout(details={"glob": "logs/*"}), upto=19)
    assert lines(record, spout(details={"glob": "logs/*.txt"})) == [
        "spout 'lines': its glob changed from 'logs/*' to 'logs/*.txt', with transaction 20"
    ]


def test_what_a_spout_says_of_itself_is_compared_where_both_versions_say_it() -> None:
    record = ran(NEW, spout(topic="a"), upto=19)
    assert "its topic changed from 'a' to 'b'" in refusal(record, spout(topic="b"))
    assert lines(record, spout()) == []
    assert lines(ran(NEW, spout(), upto=19), spout(topic="b")) == []
