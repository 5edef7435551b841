"""Everything that is parsed from outside: ``python -m tests.fuzz.parsing --minutes 5`` searches longer than tests do.

What is stored in ZooKeeper or beside a state, what an operator wishes, and what a user declares is read, or refused by
an error of ours: never by another one, and never taken for something else.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinators.backends.zookeeper.znodes import StoredIdentity, parse
from coordinators.record.record import CommitIntent, CoordinatorRecord, Failure, decode, encode
from coordinators.record.wishes import Action, Hold, Outcome, Rate, Standing, Wish
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import canonical_json, content_hash
from coordinators.values.cursors import Cursors
from coordinators.values.errors import MetadataError, TridentError
from trident_py.rows.ddl import parse_ddl
from trident_py.sinks.files.token import NAME, FileToken
from trident_py.spouts.files.cursor import FileCursor
from trident_py.spouts.files.splits import Split
from trident_py.states.fenced import StateHeader
from trident_py.states.keys import decode_key, encode_key
from trident_py.web.signatures import SignedHeader

EXAMPLES = 200

texts = st.text(st.characters(exclude_categories=[]), max_size=30)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**401),
    st.floats(),
    texts,
    st.sampled_from(["", "a", "7", "\x00", "\ud800", "-1"]),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)

RECORD = CoordinatorRecord(
    epoch=3,
    seq=17,
    current_txid=5,
    attempt_ids={5: 2, 6: 0},
    metadata={4: {"lines": [["a.log", 0, 7]]}, 5: {"lines": {"x": 1}, "big": "y" * 5000}},
    committing=(CommitIntent(TransactionAttempt(5, 2), "00c0ffee"),),
    states={"counts": 1},
    cursors={"lines": Cursors().updated({"a.log": [7, 9], "b.log": 0})},
    success_upto=4,
    failures={5: Failure(1, 2, "ValueError: bad", 1.0, 2.0, 3)},
    times={5: 1_700_000_000_000},
    accepted=("spout:lines:00000000",),
    gaps={"counts": range(2, 4)},
    standing=Standing(Hold.PAUSED, Rate(pending=3), "why"),
    outcomes=(Outcome("w", Action.PAUSE, Standing(), 2),),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *[place for key, each in inner for place in places(each, (*at, key))]]


def replaced(value: Any, place: tuple[Any, ...], by: Any) -> Any:
    """Return a JSON value with another one at a place."""
    if not place:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = replaced(value[place[0]], place[1:], by)
    return copy


@given(st.data())
def read_a_record(data: st.DataObject) -> None:
    """A record of another shape, whose checksum is right, is read or refused by `MetadataError`."""
    encoded = encode(RECORD)
    body = json.loads(encoded.head)
    del body["crc"]
    place = data.draw(st.sampled_from(places(body)[1:]))
    body = replaced(body, place, data.draw(values))
    with suppress(MetadataError):
        text = canonical_json(body)  # what can't be written was never stored
        head = f'{{"crc":"{content_hash(text)}",{text[1:]}'
        blobs = dict(encoded.blobs)
        assert isinstance(decode(head, blobs, where="/trident/x"), CoordinatorRecord)


@given(st.integers(0, 4000), st.integers(0, 40), texts)
def read_a_damaged_record(start: int, length: int, by: str) -> None:
    """A record whose text was damaged is refused."""
    encoded = encode(RECORD)
    head = encoded.head[:start] + by + encoded.head[start + length :]
    try:
        assert (
            head == encoded.head
            or json.loads(head) == json.loads(encoded.head)
            or not decode(head, encoded.blobs, where="/trident/x")
        )
    except (MetadataError, ValueError, RecursionError):
        return


@given(st.one_of(texts, values.map(lambda value: json.dumps(value)), st.data()))
def read_a_wish(given_text: Any) -> None:
    """A wish is carried out, or has no action; what it makes of the record can be stored."""
    text = given_text
    if not isinstance(given_text, str):
        body = {"action": "pause", "reason": "why", "pending": 3, "batches_per_second": 2.0, "max_batch": 1}
        text = json.dumps(replaced(body, given_text.draw(st.sampled_from(places(body))), given_text.draw(values)))
    wish = Wish.parse("w", text)
    standing = Standing().after(wish)
    canonical_json(Outcome(wish.id, wish.action, standing, 0).to_json())
    assert standing.rate.interval >= 0


@given(st.one_of(texts, st.text("abint<>,:`' ()1string array map struct decimal NOT NULL COMMENT", max_size=60)))
def read_ddl(text: str) -> None:
    """A schema is read, or refused by an error of ours."""
    with suppress(TridentError):
        parse_ddl(text)


@given(values, values)
def read_positions_of_files(cursor: Any, split: Any) -> None:
    """The position of a file is read, or refused by an error of ours."""
    with suppress(TridentError):
        FileCursor.restored("a.log", cursor)
    with suppress(TridentError):
        Split.parse(split if isinstance(split, list) else [split])


@given(st.data())
def read_a_position_that_changed(data: st.DataObject) -> None:
    """As do those that are nearly right."""
    stored = ["a.log", 0, 7, 9, [1, 2, "aaaaaaaabbbb", "cccccccc"], "a.log.1"]
    changed = replaced(stored, data.draw(st.sampled_from(places(stored)[1:])), data.draw(values))
    with suppress(TridentError):
        Split.parse(changed)
    with suppress(TridentError):
        FileCursor.restored("a.log", changed[2:])


@given(st.lists(values, min_size=10, max_size=12))
def read_the_header_of_a_state(row: list[Any]) -> None:
    """The header beside a state is read, or refused by an error of ours."""
    with suppress(TridentError):
        StateHeader.of(row)


@given(texts, st.one_of(texts, values.map(lambda value: json.dumps(value))))
def read_keys_and_nodes(raw: str, text: str) -> None:
    """Keys come back; whatever stands in a node is read, or refused by an error of ours."""
    with suppress(UnicodeEncodeError):
        raw.encode()
        assert list(decode_key(encode_key((raw, 7, None)))) == [raw, 7, None]
    with suppress(MetadataError):
        parse(StoredIdentity, text, "/trident/x/identity")
    SignedHeader.of(text)


@given(st.data())
def read_the_token_of_files(data: st.DataObject) -> None:
    """The token in a directory is read, or refused by an error of ours."""
    facts: dict[str, Any] = {"uuid": "u", "incarnation": 1, "txid": 1, "epoch": 1, "attempt": 0, "rows": 3}
    facts |= {"format": "csv", "partition_by": ["a"], "options": {"sep": "|"}}
    facts["fields"] = {"type": "struct", "fields": [{"name": "a", "type": "string", "nullable": True, "metadata": {}}]}
    changed = replaced(facts, data.draw(st.sampled_from(places(facts))), data.draw(values))
    with TemporaryDirectory() as directory:
        (Path(directory) / NAME).write_text(json.dumps(changed), encoding="utf-8")
        with suppress(TridentError):
            FileToken.read(Path(directory))


TARGETS: tuple[Callable[..., None], ...] = (
    read_a_record,
    read_a_damaged_record,
    read_a_wish,
    read_ddl,
    read_positions_of_files,
    read_a_position_that_changed,
    read_the_header_of_a_state,
    read_keys_and_nodes,
    read_the_token_of_files,
)


def searching(target: Callable[..., None], examples: int) -> Callable[..., None]:
    """Return what searches for something that ``target`` doesn't hold for."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    profile = settings(max_examples=examples, deadline=None, database=None, suppress_health_check=checks)
    return profile(target)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5)
    searches = [searching(target, 1000) for target in TARGETS]
    until, rounds = time.monotonic() + 60 * parser.parse_args().minutes, 0
    while time.monotonic() < until:
        rounds += 1
        for search in searches:
            search()
    print(f"{rounds} rounds of {len(TARGETS)} targets, 1 000 examples each: nothing found")  # noqa: T201


if __name__ == "__main__":
    main()
