"""Network file systems, on which SQLite's locks are not safe; found by Linux's list of mounts."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from trident_py.errors import StateError

NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"),
        *("pvfs2", "ocfs2", "gfs2", "davfs", "fuse.sshfs", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.s3fs"),
        *("fuse.rclone", "fuse.gcsfuse", "fuse.mount-s3", "fuse.davfs", "fuse.juicefs"),
    }
)
"""The types of file systems that several hosts may write to, as the list of mounts shows them."""

MOUNTS = Path("/proc/self/mountinfo")


def check_local(path: Path, where: str) -> None:
    """Check that the directory of ``path`` is on this host. Without Linux's list of mounts, it passes.

    Raises:
        StateError: it is on a network file system.
    """
    mounts = ""
    with suppress(OSError):
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    kind, mount = file_system(path.parent.resolve(), mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StateError(
            f"{where}: {mount} is a network file system ({kind}), where SQLite's locks don't exclude other hosts; to "
            f"fix this: put the file on a local disk, or use PostgresState or MySQLState"
        )


def file_system(path: Path, mounts: str) -> tuple[str, str]:
    """Return the type and the place of the file system of ``path``; both are empty if it is unknown.

    Args:
        path: absolute, without symbolic links.
        mounts: the text of ``/proc/self/mountinfo``, see proc(5).
    """
    found, around = ("", ""), {str(each) for each in (path, *path.parents)}
    for line in mounts.splitlines():
        mount, _, source = line.partition(" - ")
        fields, kind = mount.split(" "), source.partition(" ")[0]
        place = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), fields[4]) if len(fields) > 4 else ""
        if place in around and len(place) >= len(found[1]):  # the later of two mounts at one place hides the other
            found = (kind, place)
    return found
