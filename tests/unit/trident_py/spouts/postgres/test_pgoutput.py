"""The decoder of pgoutput: every kind of message, and messages that are cut off or unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.trident_py.spouts.postgres import messages
from trident_py.errors import SpoutError
from trident_py.spouts.postgres.pgoutput import (
    Begin,
    Commit,
    Message,
    Other,
    Relation,
    RelationColumn,
    RowChange,
    Truncate,
    Unchanged,
    message_of,
)

IDS = st.integers(0, 2**32 - 1)
LSNS = st.integers(0, 2**64 - 1)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
VALUES = st.lists(st.none() | st.just(Unchanged.UNCHANGED) | TEXTS, max_size=5).map(tuple)
COLUMNS = st.lists(st.tuples(NAMES, IDS, st.integers(-1, 2**31 - 1), st.booleans()), max_size=4)

MESSAGES = st.one_of(
    LSNS.map(lambda lsn: (messages.begin(lsn), Begin(lsn))),
    st.tuples(LSNS, LSNS).map(lambda each: (messages.commit(*each), Commit(*each))),
    st.tuples(IDS, NAMES, COLUMNS, NAMES).map(
        lambda each: (
            messages.relation(*each),
            Relation(each[0], each[3] or "pg_catalog", each[1], tuple(RelationColumn(*column) for column in each[2])),
        )
    ),
    st.tuples(IDS, VALUES).map(lambda each: (messages.insert(*each), RowChange("insert", each[0], each[1], None))),
    st.tuples(IDS, VALUES, st.none() | VALUES, st.sampled_from([b"K", b"O"])).map(
        lambda each: (
            messages.update(*each),
            RowChange("update", *each[:3], is_full=each[2] is not None and each[3] == b"O"),
        )
    ),
    st.tuples(IDS, VALUES, st.sampled_from([b"K", b"O"])).map(
        lambda each: (messages.delete(*each), RowChange("delete", each[0], None, each[1], is_full=each[2] == b"O"))
    ),
    st.lists(IDS, max_size=4).map(lambda ids: (messages.truncate(*ids), Truncate(tuple(ids)))),
)


@given(MESSAGES)
def test_each_message_is_read_as_it_was_written(pair: tuple[bytes, Message]) -> None:
    data, expected = pair
    assert message_of(data) == expected


@given(MESSAGES, st.data())
def test_a_message_that_is_cut_off_is_refused(pair: tuple[bytes, Message], data: st.DataObject) -> None:
    written, expected = pair
    parts = 18 if isinstance(expected, Commit) else 9 if isinstance(expected, Begin) else len(written)
    with pytest.raises(SpoutError, match="in the middle of a value"):
        message_of(written[: data.draw(st.integers(0, parts - 1))])


@pytest.mark.parametrize("kind", [b"O", b"Y", b"M"])
def test_messages_without_rows_are_known(kind: bytes) -> None:
    assert message_of(kind + b"whatever") == Other()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"S\0\0\0\1", "message of the unknown kind 'S'"),
        (b"I\0\0\0\1X\0\0", "row of the unknown form 'X'"),
        (b"D\0\0\0\1N\0\0", "row of the unknown form 'N'"),
        (b"I\0\0\0\1N\0\1b\0\0\0\0", "value of the unknown form 'b'"),
    ],
)
def test_messages_of_other_versions_are_refused(data: bytes, what: str) -> None:
    with pytest.raises(SpoutError, match=what):
        message_of(data)
