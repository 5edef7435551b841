"""Frames between the driver and resident tasks."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from trident_py.worker.wire import BadFrame, Frame, FrameReader, packed, proof, unpacked

FRAMES = [Frame({"number": 1, "text": "ä"}, b"rows"), Frame({}), Frame({"end": True})]
BYTES = b"".join(frame.encoded() for frame in FRAMES)


@pytest.mark.parametrize("size", [1, 7, len(BYTES)])
def test_frames_come_whole_in_whatever_pieces_the_network_delivers(size: int) -> None:
    reader = FrameReader()
    pieces = [BYTES[at : at + size] for at in range(0, len(BYTES), size)]
    assert [frame for piece in pieces for frame in reader.take(piece)] == FRAMES


@pytest.mark.parametrize(
    "received",
    [
        struct.pack("!II", 100, 0),
        struct.pack("!II", 2, 99),
        struct.pack("!II", 4, 0) + b"\xff{}\x00",
        struct.pack("!II", 2, 0) + b"[]",
        struct.pack("!II", 60, 0) + b"[" * 60,
    ],
    ids=["a long head", "a long body", "no JSON", "no object", "deep JSON"],
)
def test_other_bytes_are_refused(received: bytes) -> None:
    with pytest.raises(BadFrame):
        list(FrameReader(bytes_max=100).take(received))


def test_a_proof_needs_the_secret_and_is_good_for_one_side_and_one_greeting() -> None:
    shown = {proof(b"secret", "task", 1, 23), proof(b"secret", "driver", 1, 23), proof(b"secret", "task", 12, 3)}
    assert len({*shown, proof(b"other", "task", 1, 23)}) == 4


def test_rows_survive() -> None:
    table = pa.table({"txid": pa.array([1, 2], pa.int64()), "word": ["a", None]})
    assert unpacked(packed(table)) == table
    assert unpacked(packed(table.slice(2))).schema == table.schema
