"""Messages of pgoutput, as a server makes them."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

from trident_py.spouts.postgres.pgoutput import Texts, Unchanged


def begin(lsn: int) -> bytes:
    return b"B" + pack(">QQI", lsn, 0, 7)


def commit(lsn: int, end: int) -> bytes:
    return b"C" + pack(">BQQQ", 0, lsn, end, 0)


def relation(id: int, name: str, columns: Sequence[tuple[str, int, int, bool]], schema: str = "public") -> bytes:
    described = b"".join(
        pack(">B", is_key) + column.encode() + b"\0" + pack(">Ii", kind, modifier)
        for column, kind, modifier, is_key in columns
    )
    named = b"\0".join([schema.encode(), name.encode(), b""])
    return b"R" + pack(">I", id) + named + b"d" + pack(">H", len(columns)) + described


def row(values: Texts) -> bytes:
    return pack(">H", len(values)) + b"".join(map(_value, values))


def _value(value: object) -> bytes:
    if value is None:
        return b"n"
    if isinstance(value, Unchanged):
        return b"u"
    data = str(value).encode()
    return b"t" + pack(">I", len(data)) + data


def insert(id: int, new: Texts) -> bytes:
    return b"I" + pack(">I", id) + b"N" + row(new)


def update(id: int, new: Texts, old: Texts | None = None, form: bytes = b"K") -> bytes:
    before = b"" if old is None else form + row(old)
    return b"U" + pack(">I", id) + before + b"N" + row(new)


def delete(id: int, old: Texts, form: bytes = b"K") -> bytes:
    return b"D" + pack(">I", id) + form + row(old)


def truncate(*ids: int) -> bytes:
    return b"T" + pack(">IB", len(ids), 0) + b"".join(pack(">I", id) for id in ids)
