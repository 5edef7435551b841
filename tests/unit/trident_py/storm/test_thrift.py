"""The two fields of Storm's ``StormBase``: as Storm 2.8.3 wrote them, and damaged in every way."""

from __future__ import annotations

import gzip
import struct

import pytest

from coordinators.values.errors import MetadataError
from tests.storm_data.dumps import NAMES, nodes_of
from trident_py.storm.thrift import StormBase, StormStatus, storm_base


def stored(name: str, moment: str) -> bytes:
    (data,) = (data for path, data in nodes_of(name, moment).items() if path.startswith(f"/storm/storms/{name}-"))
    return data


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("moment", ["active", "inactive"])
def test_name_and_status_are_read_as_storm_wrote_them(name: str, moment: str) -> None:
    wanted = StormBase(name, StormStatus[moment.upper()])
    assert storm_base(stored(name, moment), "/storms/x") == wanted
    assert storm_base(gzip.decompress(stored(name, moment)), "/storms/x") == wanted


def test_fields_of_every_type_are_skipped() -> None:
    fields = [
        b"\x02\x00\x15\x01",  # a boolean
        b"\x04\x00\x16" + bytes(8),  # a double
        b"\x0f\x00\x17\x0b\x00\x00\x00\x02" + 2 * b"\x00\x00\x00\x01x",  # a list of strings
        b"\x0d\x00\x18\x08\x0c\x00\x00\x00\x01" + bytes(4) + b"\x0a\x00\x01" + bytes(8) + b"\x00",  # a map to structs
        b"\x0b\x00\x01\x00\x00\x00\x02ab",
        b"\x08\x00\x02" + struct.pack(">i", 4),
    ]
    assert storm_base(b"".join(fields) + b"\x00", "x") == StormBase("ab", StormStatus.KILLED)


def test_what_is_damaged_is_never_taken_for_a_topology_that_has_stopped() -> None:
    whole = gzip.decompress(stored("storm-exact", "inactive"))
    damaged = [whole[:end] for end in range(len(whole))]
    damaged += [b"", b"\x1f\x8b", gzip.compress(whole)[:-9], b"\x05\x00\x01" + whole, b"\xac\xed\x00\x05sr"]
    damaged.append(whole.replace(b"\x08\x00\x02\x00\x00\x00\x02", b"\x08\x00\x02\x00\x00\x00\x09"))
    for data in damaged:
        with pytest.raises(MetadataError, match=r"^/storms/x is not a topology as Storm .* kill the topology before"):
            storm_base(data, "/storms/x")
