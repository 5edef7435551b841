"""The name and status of a topology in Storm's ZooKeeper: a reader of the two fields in Thrift's binary protocol."""

from __future__ import annotations

import gzip
import struct
import zlib
from enum import Enum

from attrs import define, field, frozen

from coordinators.values.errors import MetadataError

GZIP_MAGIC = b"\x1f\x8b"

NAME, STATUS = 1, 2
"""The ids of the fields of ``StormBase`` that are read."""

STOP, STRUCT, MAP, SET, LIST = 0, 12, 13, 14, 15
INT32, STRING = 8, 11
FIXED_BYTES = {2: 1, 3: 1, 4: 8, 6: 2, INT32: 4, 10: 8}
"""The lengths of values by their type: boolean, byte, double, and integers of 16, 32 and 64 bits."""


class StormStatus(Enum):
    """The status of a topology, by the numbers of Storm's ``TopologyStatus``."""

    ACTIVE = 1
    INACTIVE = 2
    REBALANCING = 3
    KILLED = 4


@frozen
class StormBase:
    """The fields of Storm's ``StormBase`` that an import needs."""

    name: str
    status: StormStatus


def storm_base(data: bytes, path: str) -> StormBase:
    """Return the topology that Storm has stored at ``path`` as ``data``: gzip over Thrift, or Thrift alone.

    Raises:
        MetadataError: it is something else.
    """
    try:
        text = gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data
        found = _Thrift(text).fields()
        return StormBase(found[NAME].decode(), StormStatus(struct.unpack(">i", found[STATUS])[0]))
    except (EOFError, OSError, ValueError, LookupError, struct.error, zlib.error) as error:
        raise MetadataError(
            f"{path} is not a topology as Storm 1.0 to 2.8 stores one ({type(error).__name__}: {error}), so it is "
            f"unknown whether the topology still runs; nothing was imported. To fix this: if "
            f"storm.meta.serialization.delegate is set to another class, kill the topology before the import"
        ) from error


@define
class _Thrift:
    """Reads Thrift's binary protocol. Every value has its type before it, so unknown fields can be skipped."""

    data: bytes
    _at: int = field(default=0, init=False)

    def fields(self) -> dict[int, bytes]:
        """Return the strings and 32-bit integers of a struct, as stored, by field id."""
        found: dict[int, bytes] = {}
        while (kind := self._take(1)[0]) != STOP:
            (number,) = struct.unpack(">h", self._take(2))
            if kind == STRING:
                found[number] = self._string()
            elif kind == INT32:
                found[number] = self._take(4)
            else:
                self._skip(kind)
        return found

    def _skip(self, kind: int) -> None:
        match kind:
            case _ if kind in FIXED_BYTES:
                self._take(FIXED_BYTES[kind])
            case _ if kind == STRING:
                self._string()
            case _ if kind == STRUCT:
                self.fields()
            case _ if kind == MAP:
                key, value = self._take(2)
                self._skip_all(key, value)
            case _ if kind in (SET, LIST):
                self._skip_all(self._take(1)[0])
            case _:
                raise ValueError(f"there is no type {kind}")

    def _skip_all(self, *kinds: int) -> None:
        for _ in range(self._length()):
            for kind in kinds:
                self._skip(kind)

    def _string(self) -> bytes:
        return self._take(self._length())

    def _length(self) -> int:
        (length,) = struct.unpack(">i", self._take(4))
        return int(length)

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self._at:
            raise EOFError(f"{count} bytes are missing at {self._at}")
        self._at += count
        return self.data[self._at - count : self._at]
