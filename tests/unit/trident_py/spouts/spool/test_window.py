from __future__ import annotations

from trident_py.spouts.spool.window import DedupWindow, Seen, decode_keys, encode_keys


def test_a_key_is_known_for_its_time_and_then_forgotten() -> None:
    window = DedupWindow(10.0)
    window.add({"a": Seen("x", 2, 100.0), "b": Seen("y", 1, 105.0)})
    assert window.find("a", 110.0) == Seen("x", 2, 100.0)
    assert window.find("a", 110.5) is None
    assert window.find(None, 100.0) is None
    window.expire(112.0)
    window.add({"a": Seen("z", 1, 112.0)})
    assert [window.find(key, 112.0) for key in "ab"] == [Seen("z", 1, 112.0), Seen("y", 1, 105.0)]


def test_keys_are_read_as_they_were_written() -> None:
    keys = {"ä": Seen("x", 2, 100.25)}
    assert decode_keys(encode_keys(keys)) == keys
