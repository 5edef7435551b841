"""Files on network file systems are found by the list of mounts, and refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.trident_py.states.sql.test_fenced_state import TOPOLOGY, made_by
from trident_py.errors import StateError
from trident_py.states.sql import local_files
from trident_py.states.sql.local_files import check_local, file_system
from trident_py.states.sql.sqlite import SQLiteState

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:30 / /data rw,relatime shared:2 master:3 - nfs4 server:/data rw,vers=4.2
31 30 8:2 / /data/local rw - xfs /dev/sdb1 rw
32 22 0:31 / /with\040blank rw - fuse.sshfs user@host: rw
33 22 0:32 / /twice rw - nfs server:/one rw
34 33 8:3 / /twice rw - ext4 /dev/sdc1 rw
a line that is cut
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/home/ann", ("ext4", "/")),
        ("/data", ("nfs4", "/data")),
        ("/data/counts", ("nfs4", "/data")),
        ("/data2", ("ext4", "/")),
        ("/data/local/counts", ("xfs", "/data/local")),
        ("/with blank/counts", ("fuse.sshfs", "/with blank")),
        ("/twice/counts", ("ext4", "/twice")),
    ],
)
def test_the_innermost_mount_around_a_path_says_its_file_system(path: str, found: tuple[str, str]) -> None:
    assert file_system(Path(path), MOUNTS) == found


def test_without_a_list_of_mounts_nothing_is_known() -> None:
    assert file_system(Path("/data"), "") == ("", "")


def test_shards_on_a_network_file_system_are_refused_by_name_and_one_file_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"30 22 0:30 / {tmp_path.resolve()} rw - nfs4 server:/data rw\n")
    monkeypatch.setattr(local_files, "MOUNTS", mounts)
    factory = SQLiteState(tmp_path / "s.db", table="counts", shards=2)
    said = r"network file system \(nfs4\).* to fix this: put the file on a local disk"
    with pytest.raises(StateError, match=said):
        factory.ensure_usable()
    state = made_by(factory)
    with pytest.raises(StateError, match=f"'wordcount': table 'counts' .*{said}"):
        state.recover(TOPOLOGY, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["mounts"]
    SQLiteState(tmp_path / "s.db", table="counts").ensure_usable()


def test_a_host_without_such_a_list_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "MOUNTS", tmp_path / "missing")
    check_local(tmp_path / "s.db", "here")
