from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from coordinators.record.record import (
    INLINE_BYTES_MAX,
    INLINE_TOTAL_BYTES_MAX,
    Bindings,
    CommitIntent,
    CoordinatorRecord,
    EncodedRecord,
    Failure,
    KeptPieces,
    blob_names,
    decode,
    encode,
)
from coordinators.record.wishes import Action, Hold, Outcome, Rate, Standing
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import Fingerprint, canonical_json, content_hash
from coordinators.values.cursors import Cursors
from coordinators.values.errors import MetadataError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COUNTS = st.integers(0, 2**63)
SECONDS = st.floats(0, 2**40)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
LARGE = st.just("x" * INLINE_BYTES_MAX)
JSON = st.recursive(SCALARS | LARGE, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=5)
CURSORS = st.dictionaries(TEXT, SCALARS | LARGE, min_size=1, max_size=30).map(lambda values: Cursors().updated(values))
RATES = st.builds(
    Rate,
    batches_per_second=st.none() | st.floats(0.001, 1000.0),
    pending=st.none() | st.integers(1, 256),
    max_batch=st.none() | st.integers(1, 10**9),
)
STANDING = st.builds(Standing, st.sampled_from(Hold), RATES)
RECORDS = st.builds(
    CoordinatorRecord,
    epoch=COUNTS,
    seq=COUNTS,
    current_txid=COUNTS,
    attempt_ids=st.dictionaries(COUNTS, COUNTS, max_size=3),
    metadata=st.dictionaries(COUNTS, st.dictionaries(TEXT, JSON, max_size=2), max_size=3),
    committing=st.lists(st.builds(CommitIntent, st.builds(TransactionAttempt, COUNTS, COUNTS), TEXT), max_size=2).map(
        tuple
    ),
    states=st.dictionaries(TEXT, COUNTS, max_size=2),
    cursors=st.dictionaries(TEXT, CURSORS, max_size=2),
    success_upto=COUNTS,
    fingerprints=st.dictionaries(
        COUNTS, st.dictionaries(TEXT, st.builds(Fingerprint, COUNTS, st.integers(), TEXT), max_size=2), max_size=2
    ),
    failures=st.dictionaries(COUNTS, st.builds(Failure, COUNTS, COUNTS, TEXT, SECONDS, SECONDS), max_size=2),
    times=st.dictionaries(COUNTS, COUNTS, max_size=3),
    declared=st.none() | st.dictionaries(TEXT, JSON, max_size=3),
    accepted=st.lists(TEXT, max_size=2).map(tuple),
    gaps=st.dictionaries(TEXT, st.builds(range, COUNTS, COUNTS), max_size=2),
    bindings=st.builds(Bindings, st.lists(COUNTS, max_size=2).map(tuple), COUNTS),
    standing=STANDING,
    outcomes=st.lists(st.builds(Outcome, TEXT, st.none() | st.sampled_from(Action), STANDING, COUNTS), max_size=2).map(
        tuple
    ),
)


def _decoded(encoded: EncodedRecord) -> CoordinatorRecord:
    return decode(encoded.head, encoded.blobs, where="here")


def _decoded_or_refused(encoded: EncodedRecord) -> CoordinatorRecord | None:
    try:
        return _decoded(encoded)
    except MetadataError:
        return None


@given(RECORDS)
def test_a_record_comes_back_equal(record: CoordinatorRecord) -> None:
    assert _decoded(encode(record)) == record


DEFINITIONS = st.dictionaries(TEXT, JSON, max_size=2)
SEEN = st.dictionaries(TEXT, st.builds(Fingerprint, COUNTS, st.integers(), TEXT), max_size=2)
NUMBERS = st.integers(0, 12)


@given(
    st.lists(
        st.tuples(
            RECORDS,
            st.dictionaries(NUMBERS, DEFINITIONS | st.none(), max_size=12),
            st.dictionaries(NUMBERS, SEEN | st.none(), max_size=12),
        ),
        min_size=2,
        max_size=5,
    )
)
def test_kept_pieces_give_the_text_of_a_fresh_encoding(
    writes: list[tuple[CoordinatorRecord, dict[int, Any], dict[int, Any]]],
) -> None:
    kept = KeptPieces()
    metadata: dict[int, Any] = {}
    fingerprints: dict[int, Any] = {}
    for record, defined, seen in writes:
        metadata = {number: each for number, each in (metadata | defined).items() if each is not None}
        fingerprints = {number: each for number, each in (fingerprints | seen).items() if each is not None}
        now = evolve(record, metadata=metadata, fingerprints=fingerprints)
        encoded = encode(now, kept)
        assert encoded == encode(now)
        assert list(encoded.blobs) == list(encode(now).blobs)
        body = json.loads(encoded.head)
        del body["crc"]
        assert encoded.head.endswith(canonical_json(body)[1:])


@given(RECORDS)
def test_the_head_names_every_blob_and_no_other(record: CoordinatorRecord) -> None:
    encoded = encode(record)
    assert sorted(blob_names(encoded.head, where="here")) == sorted(encoded.blobs)


@given(RECORDS, st.data())
def test_damage_anywhere_is_found(record: CoordinatorRecord, data: st.DataObject) -> None:
    encoded = encode(record)
    name = data.draw(st.sampled_from([None, *encoded.blobs]))
    text = encoded.head if name is None else encoded.blobs[name]
    damaged = data.draw(_damages(text))
    if name is None:
        broken = EncodedRecord(damaged, encoded.blobs)
    else:
        broken = EncodedRecord(encoded.head, {**encoded.blobs, name: damaged})
    # a space between two tokens of the head is no damage
    assert _decoded_or_refused(broken) in (record, None)


@given(RECORDS, st.data())
def test_a_lost_blob_is_found(record: CoordinatorRecord, data: st.DataObject) -> None:
    encoded = encode(CoordinatorRecord(1, metadata={1: {"lines": "x" * 5000}}, cursors=record.cursors))
    lost = data.draw(st.sampled_from(sorted(encoded.blobs)))
    kept = {name: text for name, text in encoded.blobs.items() if name != lost}
    with pytest.raises(MetadataError, match="missing"):
        _decoded(EncodedRecord(encoded.head, kept))


@given(RECORDS, st.data())
def test_a_part_that_is_missing_or_of_another_kind_is_found(record: CoordinatorRecord, data: st.DataObject) -> None:
    encoded = encode(record)
    body = json.loads(encoded.head)
    del body["crc"]
    key = data.draw(st.sampled_from(sorted(body)))
    if data.draw(st.booleans()):
        del body[key]
    else:
        body[key] = data.draw(st.sampled_from([None, 7.5, "x", [3], [[]], {"x": 1}, {"1": {"x": {}}}, {"x": ["y"]}]))
    found = _decoded_or_refused(EncodedRecord(_sealed(body), encoded.blobs))
    assert found is None or isinstance(found, CoordinatorRecord)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "it is not a coordinator record"),
        ("{}", "it is not a coordinator record"),
        ('{"version":7}', "it has format version 7, and this release reads version 8 only; a version before the first"),
        ('{"version":9}', "it has format version 9, and this release reads version 8 only; another release wrote it"),
        ('{"version":8}', "its checksum does not match"),
    ],
)
def test_what_is_no_record_is_refused_with_the_reason_and_the_way_out(head: str, why: str) -> None:
    for refused in (lambda: decode(head, {}, where="here"), lambda: blob_names(head, where="here")):
        with pytest.raises(MetadataError) as error:
            refused()
        assert why in str(error.value)
        assert "the record at here" in str(error.value)
        assert "trident reset" in str(error.value)


def test_small_metadata_are_in_the_head_and_large_ones_in_blobs() -> None:
    encoded = encode(CoordinatorRecord(1, metadata={7: {"small": "s", "large": "l" * INLINE_BYTES_MAX}}))
    assert [name.partition("=")[0] for name in encoded.blobs] == ["metadata.large.7"]
    assert '"s"' in encoded.head
    assert len(encoded.head) < 600


def test_a_shard_that_did_not_change_keeps_its_text() -> None:
    cursors = Cursors().updated({f"file-{number:05}": number for number in range(20_000)})
    before = encode(CoordinatorRecord(1, cursors={"lines": cursors})).blobs
    after = encode(CoordinatorRecord(1, seq=1, cursors={"lines": cursors.updated({"file-00000": -1})})).blobs
    assert len(before) > 3
    [changed] = after.keys() - before.keys()
    assert changed.startswith("cursors.lines.0=")
    assert len(after) == len(before)


def test_the_head_stays_small_however_many_definitions_it_has() -> None:
    metadata = {txid: {"lines": "x" * (INLINE_BYTES_MAX - 100)} for txid in range(1, 257)}
    encoded = encode(CoordinatorRecord(1, metadata=metadata))
    assert len(encoded.head) < 2 * INLINE_TOTAL_BYTES_MAX
    assert len(encoded.blobs) == 256
    assert _decoded(encoded).metadata == metadata


def test_metadata_that_are_not_json_are_refused() -> None:
    metadata: Any = {1: {"lines": (1, 2)}}
    with pytest.raises(MetadataError, match=r"\(1, 2\)"):
        encode(CoordinatorRecord(1, metadata=metadata))


def _sealed(body: dict[str, Any]) -> str:
    return canonical_json({**body, "crc": content_hash(canonical_json(body))})


@st.composite
def _damages(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, max(0, len(text) - 1)))
    length = draw(st.integers(0, 3))
    return text[:at] + draw(st.text(max_size=3)) + text[at + length :]
