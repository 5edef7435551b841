"""A topology that changed: what is told, what is refused, what can be accepted, and what becomes of the record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from coordinators.attempt import TransactionAttempt
from coordinators.canonical import Json
from coordinators.changes import Comparison, compared
from coordinators.cursors import Cursors
from coordinators.declarations import Declaration, Declarations
from coordinators.errors import TopologyError
from coordinators.fingerprint import Fingerprint
from coordinators.numbers import SpoutNumbers
from coordinators.record import CommitIntent, CoordinatorRecord, decode, encode
from coordinators.takeover import Torn


def spout(name: str = "lines", *, details: dict[str, Json] | None = None, **identity: Json) -> Declaration:
    said: dict[str, Json] = {"kind": ["FileSpout"], "fields": "value string", "replay": "exact"}
    return Declaration(kind="spout", name=name, identity={**said, **identity}, details=details or {})


def state(name: str = "counts", spouts: str = "lines", **identity: Json) -> Declaration:
    said: dict[str, Json] = {"kind": ["SQLiteState"], "keys": "word string", "aggregator": ["Count"]}
    return Declaration(
        kind="state",
        name=name,
        identity={**said, **identity},
        details={"spouts": spouts},
        fixed=frozenset({"keys"}),
        way="lines > map > persistent_aggregate",
    )


def window(way: str = "lines > window", *, name: str = "lines-window", is_named: bool = False) -> Declaration:
    identity: dict[str, Json] = {"window": "tumbling_count_10"}
    return Declaration(kind="window", name=name, identity=identity, way=way, is_named=is_named)


def ran(record: CoordinatorRecord, *entries: Declaration, upto: int, accept: Sequence[str] = ()) -> CoordinatorRecord:
    """The record after these have run until ``upto`` was committed, and were stopped."""
    found = compared(record, Declarations(entries, accept))
    assert found.refusals == ()
    spouts = [each.name for each in entries if each.kind == "spout"]
    return stored(evolve(found.record, current_txid=upto + 1, metadata={upto: {name: upto * 10 for name in spouts}}))


def stored(record: CoordinatorRecord) -> CoordinatorRecord:
    """What a later process reads."""
    encoded = encode(record)
    return decode(encoded.head, encoded.blobs, where="here")


NEW = CoordinatorRecord(epoch=1)
USUAL = (spout(), state())


def changed(record: CoordinatorRecord, *entries: Declaration, accept: Sequence[str] = ()) -> Comparison:
    return compared(record, Declarations(entries, accept))


def lines(record: CoordinatorRecord, *entries: Declaration, accept: Sequence[str] = ()) -> list[str]:
    found = changed(record, *entries, accept=accept)
    assert found.refusals == ()
    return list(found.lines)


def refusal(record: CoordinatorRecord, *entries: Declaration, accept: Sequence[str] = ()) -> str:
    found = changed(record, *entries, accept=accept)
    assert len(found.refusals) == 1
    return found.refusals[0]


def offered(text: str) -> str:
    found = re.search(r"TridentConfig\(accept=\['([a-z]+:.+:[0-9a-f]{8})'\]\)", text)
    assert found
    return found[1]


# --- nothing to say ---------------------------------------------------------------------------------------------------


def test_a_new_topology_has_nothing_to_compare_and_is_remembered() -> None:
    found = changed(NEW, *USUAL)
    assert (found.lines, found.refusals) == ((), ())
    assert found.record.declared is not None
    assert found.record.states == {"counts": 1}


def test_the_same_declarations_say_nothing() -> None:
    record = ran(NEW, *USUAL, upto=19)
    found = changed(record, *USUAL)
    assert (found.lines, found.refusals) == ((), ())
    assert found.record == record


def test_before_anything_was_read_everything_may_change() -> None:
    record = changed(NEW, *USUAL).record
    assert lines(record, spout("others"), state("sums", keys="n int"), state(aggregator=["Max"])) == []


def test_a_record_of_a_release_that_kept_no_declarations_counts_as_unchanged() -> None:
    record = evolve(NEW, current_txid=20, metadata={19: {"lines": 1}}, states={"counts": 1})
    (line,) = lines(record, *USUAL)
    assert "kept no declarations: what is declared now is taken for unchanged" in line
    assert lines(changed(record, *USUAL).record, *USUAL) == []


def test_a_record_without_declarations_still_knows_names() -> None:
    record = evolve(NEW, current_txid=20, metadata={19: {"lines": 1}}, cursors={"lines": Cursors()}, states={"a": 1})
    assert "spout 'log' is new and would begin from its beginning, while 'lines'" in refusal(record, spout("log"))
    _, left, new = lines(record, spout(), state())
    assert left == "state 'counts' is new: it begins with transaction 20, what the 19 before it did is not in it"
    assert new == "state 'a' was fed until transaction 19 and is not declared any more; it stays as it is"


# --- spouts -----------------------------------------------------------------------------------------------------------


def test_a_spout_that_is_added_begins_where_the_topology_is() -> None:
    record = ran(NEW, *USUAL, upto=19)
    added = lines(record, *USUAL, spout("others"))
    assert added == ["spout 'others' is new: it begins with transaction 20"]


def test_a_renamed_spout_is_refused_with_both_names_the_states_it_would_fill_and_the_ways_on() -> None:
    record = ran(NEW, *USUAL, upto=1)
    text = refusal(record, spout("log-lines"), state(spouts="log-lines"))
    assert text.startswith(
        "spout 'log-lines' is new and would begin from its beginning, while 'lines', which was read before transaction "
        "2, is not declared any more. If they are the same source, all its rows count again in counts: call it 'lines' "
        "as before. If it is another source, accept it: TridentConfig(accept=['spout:log-lines:"
    )


def test_another_source_in_place_of_a_spout_can_be_accepted() -> None:
    record = ran(NEW, *USUAL, upto=1)
    now = (spout("others"), state(spouts="others"))
    text = offered(refusal(record, *now))
    assert lines(record, *now, accept=[text]) == [
        f"spout 'others': goes on as accepted by {text}, from transaction 2 on",
        "spout 'lines' was read until transaction 1 and is not declared any more; its position is kept, and it goes on "
        "from there when it is declared again",
        "state 'counts': its spouts changed from 'lines' to 'others', with transaction 2",
    ]
    after = ran(record, *now, upto=5, accept=[text])
    assert after.accepted == (text,)
    assert lines(after, *now) == []


def test_a_spout_renamed_in_two_steps_is_refused_too() -> None:
    record = ran(NEW, spout("a"), spout("b"), upto=3)
    record = ran(record, spout("a"), upto=5)
    assert "spout 'c' is new and would begin from its beginning, while 'b'" in refusal(record, spout("a"), spout("c"))


def test_a_spout_that_was_left_out_goes_on_where_it_was_when_it_comes_back() -> None:
    record = ran(NEW, spout("a"), spout("b"), upto=3)
    left = changed(record, spout("a"))
    assert left.lines == (
        "spout 'b' was read until transaction 3 and is not declared any more; its position is kept, and it goes on "
        "from there when it is declared again",
    )
    assert (left.record.metadata, left.record.resting) == ({3: {"a": 30}}, {"b": 30})
    record = ran(record, spout("a"), upto=7)
    assert lines(record, spout("a")) == []
    back = changed(record, spout("a"), spout("b"))
    assert back.lines == (
        "spout 'b' is declared again: it goes on with transaction 8 where it was after transaction 3",
    )
    assert (back.record.metadata, back.record.resting) == ({7: {"a": 70, "b": 30}}, {})


def test_a_spout_cannot_be_left_out_of_transactions_that_are_not_committed() -> None:
    record = evolve(ran(NEW, spout("a"), spout("b"), upto=3), attempt_ids={4: 0, 5: 0})
    record = evolve(record, metadata={**record.metadata, 4: {"a": 40, "b": 41}, 5: {"a": 50, "b": 51}})
    text = refusal(record, spout("a"))
    assert text.startswith(
        "spout 'b' is not declared any more, and transactions 4 to 5, which it has a part in, are not committed: what "
        "it gave to them would be nowhere. Start the topology with it once more and stop() it, which commits them. If"
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
        "spout 'lines': its kind changed from 'FileSpout' to 'KafkaSpout', and it would go on from a posi"
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
    numbers, metadata = SpoutNumbers((3, 5)), {2: {"lines": 20, "others": 1}, 3: {"lines": 30}, 4: {"lines": 40}}
    record = evolve(ran_before, current_txid=4, metadata=metadata, fingerprints={4: {"lines": Fingerprint(3, 7)}})
    record = evolve(record, numbers=numbers)
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


# --- states, windows and sinks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "earlier"), [(2, "transaction 1 did is not in it"), (20, "the 19 before it did is not in it")]
)
def test_a_state_that_is_added_says_from_where(at: int, earlier: str) -> None:
    record = ran(NEW, *USUAL, upto=at - 1)
    now = changed(record, *USUAL, state("by_url"))
    assert now.lines == (f"state 'by_url' is new: it begins with transaction {at}, what {earlier}",)
    assert now.record.states == {"counts": 1, "by_url": at}


def test_a_state_that_is_left_out_says_until_when() -> None:
    record = ran(NEW, *USUAL, upto=3)
    assert lines(record, spout()) == [
        "state 'counts' was fed until transaction 3 and is not declared any more; it stays as it is"
    ]
    assert lines(ran(record, spout(), upto=9), spout()) == []


def test_a_state_that_comes_back_misses_transactions_and_may_be_accepted_so() -> None:
    record = ran(ran(NEW, *USUAL, upto=3), spout(), upto=9)
    text = refusal(record, *USUAL)
    assert text.startswith(
        "state 'counts' was left out after transaction 3, and transactions 4 to 9 are not in it. Give the new one a "
        "name or table of its own, which begins with transaction 10. If it is to go on without, accept it: "
    )
    found = changed(record, *USUAL, accept=[offered(text)])
    assert found.refusals == ()
    assert (found.record.states, found.record.gaps) == ({"counts": 1}, {"counts": range(4, 10)})


def test_a_state_that_comes_back_is_the_one_that_was_left_out() -> None:
    record = ran(ran(NEW, *USUAL, upto=3), spout(), upto=9)
    missing, other = changed(record, spout(), state(aggregator=["Max"])).refusals
    assert "transactions 4 to 9 are not in it" in missing
    assert "its aggregator changed from 'Count' to 'Max'" in other


def test_a_gap_grows_where_a_state_is_left_out_again_before_it_has_gone_on() -> None:
    record = ran(ran(NEW, *USUAL, upto=3), spout(), upto=9)
    record = stored(changed(record, *USUAL, accept=[offered(refusal(record, *USUAL))]).record)
    assert stored(changed(record, *USUAL).record).gaps == {"counts": range(4, 10)}
    record = ran(record, spout(), upto=12)
    text = refusal(record, *USUAL)
    assert "transactions 10 to 12 are not in it" in text
    assert changed(record, *USUAL, accept=[offered(text)]).record.gaps == {"counts": range(4, 13)}


def test_a_gap_begins_anew_where_a_state_had_gone_on_before_it_was_left_out_again() -> None:
    record = ran(ran(NEW, *USUAL, upto=3), spout(), upto=9)
    record = ran(record, *USUAL, upto=10, accept=[offered(refusal(record, *USUAL))])
    record = ran(record, spout(), upto=12)
    found = changed(record, *USUAL, accept=[offered(refusal(record, *USUAL))])
    assert found.record.gaps == {"counts": range(11, 13)}


def test_a_state_that_comes_back_before_anything_was_committed_misses_nothing() -> None:
    record = changed(ran(NEW, *USUAL, upto=3), spout()).record
    assert lines(record, *USUAL) == []
    assert changed(record, *USUAL).record.gaps == {}


def test_a_state_that_is_left_out_before_anything_was_committed_to_it_is_new_when_it_comes_back() -> None:
    record = changed(ran(NEW, *USUAL, upto=3), *USUAL, state("sums")).record
    record = ran(record, *USUAL, upto=9)
    assert record.states == {"counts": 1}
    assert lines(record, *USUAL, state("sums")) == [
        "state 'sums' is new: it begins with transaction 10, what the 9 before it did is not in it"
    ]
    gaps = changed(record, *USUAL, state("sums")).record.gaps
    assert gaps == {"sums": range(4, 10)}, "an attempt of 4 may have died that had committed to it"


def test_another_aggregator_is_refused_and_can_be_accepted() -> None:
    record = ran(NEW, *USUAL, upto=19)
    now = (spout(), state(aggregator=["Max"]))
    text = refusal(record, *now)
    assert text.startswith(
        "state 'counts': its aggregator changed from 'Count' to 'Max'; what is stored under this name was made by "
        "the other. Declare it as it was, or give the new one a name or table of its own, which begins with "
        "transaction 20. If both belong together, accept it: "
    )
    after = ran(record, *now, upto=21, accept=[offered(text)])
    assert lines(after, *now) == []


def test_what_a_table_holds_fast_cannot_be_accepted() -> None:
    record = ran(NEW, *USUAL, upto=19)
    text = refusal(record, spout(), state(keys="word string, lang string"))
    assert "its keys changed from 'word string' to 'word string, lang string'" in text
    assert "accept" not in text


def test_a_state_that_becomes_a_sink_of_the_same_name_is_refused() -> None:
    record = ran(NEW, *USUAL, upto=19)
    text = refusal(record, spout(), evolve(state(), kind="sink"))
    assert text.startswith("sink 'counts': it was a state and is a sink now")


def test_a_state_that_is_fed_by_another_spout_too_goes_on_with_a_line() -> None:
    record = ran(NEW, *USUAL, upto=19)
    assert lines(record, spout(), spout("more"), state(spouts="lines, more")) == [
        "spout 'more' is new: it begins with transaction 20",
        "state 'counts': its spouts changed from 'lines' to 'lines, more', with transaction 20",
    ]


def test_a_window_that_nobody_named_is_known_by_what_leads_to_it() -> None:
    record = ran(NEW, spout(), window("lines > map > filter > window"), upto=9)
    assert lines(record, spout(), window("lines > map > filter > window")) == []
    text = refusal(record, spout(), window("lines > map > window"))
    assert text.startswith(
        "window 'lines-window': it has no name of its own, and what leads to it changed from 'lines > map > filter > "
        "window' to 'lines > map > window', so it may be another one. If it is the same, say so by name('lines-window')"
    )
    assert lines(record, spout(), window("lines > map > window", is_named=True)) == []
    assert changed(record, spout(), window("lines > map > window"), accept=[offered(text)]).refusals == ()


# --- transactions that only some states have --------------------------------------------------------------------------

SUMS = (*USUAL, state("sums"))
TORN = Torn(range(20, 22), ("counts",), ("sums",))


def test_the_plan_that_began_a_torn_transaction_goes_on_with_it() -> None:
    record = ran(NEW, *SUMS, upto=19)
    mended = (*USUAL, evolve(state("sums"), details={"spouts": "lines", "workers": 4}))
    for same in (SUMS, mended):
        assert compared(record, Declarations(same), TORN).refusals == ()


@pytest.mark.parametrize(
    "other",
    [
        (*USUAL,),
        (*SUMS, spout("more")),
        (*SUMS, state("products")),
        (*USUAL, evolve(state("sums"), way="lines > filter > persistent_aggregate")),
    ],
)
def test_another_plan_is_refused_while_only_some_states_have_a_transaction_and_both_ways_on_are_told(
    other: Sequence[Declaration],
) -> None:
    record = ran(NEW, *SUMS, upto=19)
    (text,) = compared(record, Declarations(other), TORN).refusals
    assert text.startswith("transactions 20 to 21 are in counts and not in sums, since a crash came between their comm")
    assert "Start the version that began them once more and stop() it, which commits them" in text
    assert compared(record, Declarations(other)).refusals == ()
    found = compared(record, Declarations(other, [offered(text)]), TORN)
    assert found.refusals == ()
    assert f"torn '20-21': goes on as accepted by {offered(text)}, from transaction 20 on" in found.lines
    assert found.record.accepted == (offered(text),)


def test_where_all_that_keep_tokens_have_a_transaction_the_refusal_names_nobody_who_lacks_it() -> None:
    torn = evolve(TORN, having=("counts", "sums"), lacking=())
    (text,) = compared(ran(NEW, *SUMS, upto=19), Declarations(USUAL), torn).refusals
    assert "are in counts and sums; whether the rest has committed too isn't known, since a crash came between" in text


def test_accepting_one_torn_transaction_says_nothing_of_the_next() -> None:
    record, other = ran(NEW, *SUMS, upto=19), (*SUMS, spout("more"))
    text = offered(compared(record, Declarations(other), TORN).refusals[0])
    later = compared(record, Declarations(other, [text]), evolve(TORN, txids=range(20, 21)))
    assert len(later.refusals) == 1


def test_a_state_cannot_join_a_torn_transaction_of_a_release_that_kept_no_declarations() -> None:
    record = evolve(NEW, current_txid=20, metadata={19: {"lines": 1}}, states={"counts": 1, "sums": 1})
    assert compared(record, Declarations(SUMS), TORN).refusals == ()
    (text,) = compared(record, Declarations((*SUMS, state("products"))), TORN).refusals
    assert "transactions 20 to 21 are in counts and not in sums" in text


# --- accepting --------------------------------------------------------------------------------------------------------


def test_what_fits_nothing_is_told_and_ignored() -> None:
    record = ran(NEW, *USUAL, upto=19)
    found = changed(record, *USUAL, accept=["state:counts:12345678"])
    assert found.lines == ("accept='state:counts:12345678' fits no change of this start, and is ignored",)
    assert found.record.accepted == ()


def test_what_was_used_may_stay_in_the_program_and_fits_no_second_change() -> None:
    count, most = (spout(), state()), (spout(), state(aggregator=["Max"]))
    record = ran(NEW, *count, upto=1)
    first = offered(refusal(record, *most))
    record = ran(record, *most, upto=2, accept=[first])
    assert lines(record, *most, accept=[first]) == []
    back = offered(refusal(record, *count, accept=[first]))
    record = ran(record, *count, upto=3, accept=[first, back])
    again = offered(refusal(record, *most, accept=[first, back]))
    assert len({first, back, again}) == 3
    assert changed(record, *most, accept=[again]).record.accepted == (first, back, again)


def test_all_refusals_are_told_at_once_with_topology_and_transaction() -> None:
    record = ran(NEW, *USUAL, state("sums"), upto=19)
    found = changed(record, spout("others"), state(aggregator=["Max"]), state("sums", aggregator=["Min"]))
    with pytest.raises(
        TopologyError, match=r"'wc' is not what it was.*at transaction 20:\n- spout .*\n- state .*\n- st"
    ):
        found.check("wc")


# --- the plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        (spout(), state(), spout("more")),
        (spout(), state(aggregator=["Max"])),
        (spout(replay="opaque"), state()),
        (spout(), evolve(state(), way="lines > filter > persistent_aggregate")),
    ],
)
def test_another_plan_has_another_hash(other: Any) -> None:
    assert Declarations(other).plan != Declarations(USUAL).plan


def test_order_details_and_bases_are_no_part_of_the_plan() -> None:
    same = (state(), spout(details={"glob": "*"}, kind=["FileSpout", "Base"]))
    assert Declarations(same).plan == Declarations(USUAL).plan
