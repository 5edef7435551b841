"""Files and directories that are still there after a loss of power."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def sync(path: Path) -> None:
    """Have the content of a file, or the names in a directory, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """Have a directory on the disk, with all that is below it."""
    for parent, _, files in os.walk(directory):
        for name in files:
            sync(Path(parent, name))
        sync(Path(parent))


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, where there are none."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def move(files: Iterable[Path], source: Path, target: Path) -> None:
    """Rename files below ``source`` to where they belong below ``target``, which is made."""
    make_directory(target)
    for file in files:
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.rename(place)
