"""Which code of the user's ran: a short name that is another one when the code is."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

Code: TypeAlias = Path | Sequence[Path]

HEX_DIGITS = 12
_OURS = ("trident_py", "coordinators")


def code_version(code: Code = ()) -> str:
    """Return the first digits of a hash of the user's code; empty where there are no files of it, as in a notebook.

    That is ``code``, and each loaded module that is neither Python's own, nor installed, nor of trident_py. Where the
    files are doesn't matter, so the same code has the same name on each machine.

    Args:
        code: files, archives, and directories of packages.
    """
    given = [code] if isinstance(code, Path) else code
    digests = sorted({_digest(file) for file in {*_loaded(), *_files(given)}} - {""})
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:HEX_DIGITS] if digests else ""


def _loaded() -> Iterator[Path]:
    installed = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or name.partition(".")[0] in _OURS:
            continue
        path = Path(file).absolute()
        if "site-packages" in path.parts or "dist-packages" in path.parts:
            continue
        if not any(path.is_relative_to(root) for root in installed):
            yield path


def _files(given: Iterable[Path]) -> Iterator[Path]:
    for path in given:
        yield from (path.absolute().rglob("*.py") if path.is_dir() else [path.absolute()])


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:  # it was loaded from there, and is gone
        return ""
