"""The bytes of a spool file: a header, then records. Pure.

Each of them is a frame: a mark, sizes, a CRC, facts as JSON, and content. The header has a fixed mark; its facts name
the random mark of the records of this file, so no content can imitate one. Records are written in groups, each with one
flush to the disk. A record names the beginning of its group (``base``): everything before it was on the disk then. So a
reader can tell an unfinished group, which was never answered, from a damaged file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any
from zlib import crc32

from attrs import frozen

from coordinators.values.canonical import Json, canonical_json, other_version
from trident_py.errors import SpoutError

_FRAME = struct.Struct("<8sQIII")  # mark, base, bytes of the facts, bytes of the content, CRC of all but the mark
_HEADER_MARK = b"TRISPOOL"
VERSION = 1
MARK_BYTES = 8


class DamagedSpoolError(SpoutError):
    """A spool file has lost data that were on the disk."""


@frozen(kw_only=True)
class Received:
    """The rows that a sender has sent at once: they are stored, defined and emitted together.

    Attributes:
        key: names it for its sender, who may send it again; None: it has no name.
        digest: distinguishes it from another one with the same key.
        rows: the number of rows.
        content: the rows.
    """

    key: str | None
    digest: str
    rows: int
    content: bytes


@frozen(kw_only=True)
class Record:
    """A record in a file.

    Attributes:
        begin, end: where it is.
        at: when it was received, in seconds since 1970.
        hash: the SHA-256 of its bytes.
    """

    begin: int
    end: int
    at: float
    received: Received
    hash: bytes


@frozen(kw_only=True)
class Header:
    """The header of a file.

    Attributes:
        mark: of the records.
        ends: the end of each older file, by name. Bytes after it were written by a leader that was replaced, or by a
            write that failed, and were never answered.
    """

    mark: bytes
    ends: Mapping[str, int]

    def encode(self) -> bytes:
        """Return its bytes."""
        facts: dict[str, Json] = {"version": VERSION, "mark": self.mark.hex(), "ends": dict(self.ends)}
        return _frame(_HEADER_MARK, 0, facts, b"")


def encode(received: Received, at: float, mark: bytes, base: int) -> bytes:
    """Return the bytes of a record; ``base`` is the beginning of its group."""
    facts: dict[str, Json] = {"digest": received.digest, "rows": received.rows, "at": at}
    if received.key is not None:
        facts["key"] = received.key
    return _frame(mark, base, facts, received.content)


def read_header(name: str, data: bytes) -> tuple[Header, int]:
    """Return the header of a file, and its end. A file appears with its whole header.

    Raises:
        DamagedSpoolError: the file has no header that this version reads.
    """
    found = _decode(data, 0, _HEADER_MARK)
    if found is None:
        raise _damaged(name, 0)
    _, facts, _, end = found
    if facts.get("version") != VERSION:
        raise DamagedSpoolError(f"spool file {name!r}: {other_version(facts.get('version'), VERSION)}")
    return Header(mark=bytes.fromhex(facts["mark"]), ends=facts["ends"]), end


def read_records(name: str, data: bytes, mark: bytes, begin: int, end: int | None) -> list[Record]:
    """Return the records of a file from ``begin`` on.

    Args:
        name: of the file, for errors.
        data: its bytes.
        mark: of its records.
        begin: the beginning of a record.
        end: the end of the last record; None: unknown, because the file's writer may have been killed.

    Raises:
        DamagedSpoolError: a record that was on the disk is missing, or isn't what was written.
    """
    records: list[Record] = []
    while begin < (len(data) if end is None else end):
        record = _record(data, begin, mark)
        if record is None:
            if end is not None or _is_before_durable(data, begin, mark):
                raise _damaged(name, begin)
            break  # its group was never finished
        records.append(record)
        begin = record.end
    if end is not None and begin != end:
        raise _damaged(name, begin)
    return records


def read_range(name: str, data: bytes, begin: int) -> list[Record]:
    """Return the records in a part of a file, which begins at ``begin``; places are those in the part.

    Raises:
        DamagedSpoolError: they aren't whole records.
    """
    found, place = list[Record](), 0
    while place < len(data):
        record = _record(data, place, data[:MARK_BYTES])
        if record is None:
            raise _damaged(name, begin + place)
        found.append(record)
        place = record.end
    return found


def range_hash(hashes: Iterable[bytes]) -> str:
    """Return the hash of records that come one after the other, by the hashes of each."""
    return sha256(b"".join(hashes)).hexdigest()[:32]


def _record(data: bytes, begin: int, mark: bytes) -> Record | None:
    found = _decode(data, begin, mark)
    if found is None:
        return None
    _, facts, content, end = found
    received = Received(key=facts.get("key"), digest=facts["digest"], rows=facts["rows"], content=content)
    return Record(begin=begin, end=end, at=facts["at"], received=received, hash=sha256(data[begin:end]).digest())


def _frame(mark: bytes, base: int, facts: Mapping[str, Json], content: bytes) -> bytes:
    text = canonical_json(dict(facts)).encode()
    crc = crc32(content, crc32(text, crc32(struct.pack("<QII", base, len(text), len(content)))))
    return b"".join((_FRAME.pack(mark, base, len(text), len(content), crc), text, content))


def _decode(data: bytes, begin: int, mark: bytes) -> tuple[int, dict[str, Any], bytes, int] | None:
    """Return base, facts, content and end of the frame at ``begin``; None: there is no whole one."""
    if len(data) < begin + _FRAME.size:
        return None
    found, base, text_size, content_size, crc = _FRAME.unpack_from(data, begin)
    end = _end_of(data, begin)
    if found != mark or len(data) < end:
        return None
    text = data[begin + _FRAME.size : begin + _FRAME.size + text_size]
    content = data[begin + _FRAME.size + text_size : end]
    if crc != crc32(content, crc32(text, crc32(struct.pack("<QII", base, text_size, content_size)))):
        return None
    return base, json.loads(text), content, end


def _end_of(data: bytes, begin: int) -> int:
    _, _, text_size, content_size, _ = _FRAME.unpack_from(data, begin)
    return begin + _FRAME.size + int(text_size) + int(content_size)


def _is_before_durable(data: bytes, begin: int, mark: bytes) -> bool:
    """Return whether a later record says that everything at ``begin`` was on the disk."""
    return any(found is not None and found[0] > begin for found in _frames_after(data, begin, mark))


def _frames_after(data: bytes, begin: int, mark: bytes) -> Iterator[tuple[int, dict[str, Any], bytes, int] | None]:
    place = data.find(mark, begin + 1)
    while place >= 0:
        yield _decode(data, place, mark)
        place = data.find(mark, place + 1)


def _damaged(name: str, place: int) -> DamagedSpoolError:
    return DamagedSpoolError(
        f"spool file {name!r} is damaged at byte {place}: records that were stored there can't be read; to fix this: "
        f"restore the file from a backup"
    )
