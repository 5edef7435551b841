"""``module:topology`` and ``file.py:topology``: the targets of ``trident run`` and ``trident explain``."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from attrs import frozen

from coordinators.values.error_text import error_text
from trident_py.cli.usage import UsageError
from trident_py.errors import TopologyError, TridentError
from trident_py.topology import TridentTopology


@frozen
class Target:
    """A topology, and the code that must be sent to the workers with it.

    Attributes:
        topology: the declared topology.
        code: the file, or the directory of the top-level package, in which it is declared.
    """

    topology: TridentTopology
    code: Path


def load(target: str) -> Target:
    """Load the topology that ``target`` names; without a name, the only one of the file or module.

    Raises:
        UsageError: there is no such file, module or topology; the message names the existing topologies.
        TopologyError: the module can't be imported.
    """
    place, colon, name = target.partition(":")
    if not place or (colon and not name):
        raise UsageError(f"{target!r} names no topology; write module:topology or file.py:topology")
    module = _module(place)
    there = {key: value for key, value in vars(module).items() if isinstance(value, TridentTopology)}
    if not colon:
        return Target(_only(place, there), _code(module))
    if name not in there:
        what = "is no TridentTopology" if hasattr(module, name) else "does not exist"
        raise UsageError(f"{name!r} in {place} {what}; there is {', '.join(sorted(there)) or 'no topology at all'}")
    return Target(there[name], _code(module))


def _only(place: str, there: dict[str, TridentTopology]) -> TridentTopology:
    different = {id(topology): topology for topology in there.values()}
    if len(different) != 1:
        found = " or ".join(f"{place}:{name}" for name in sorted(there))
        raise UsageError(f"name the topology of {place}: {found}" if found else f"there is no topology in {place}")
    return next(iter(different.values()))


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        return _imported(place, place, Path.cwd())
    path = Path(place).resolve()
    if not path.is_file():
        raise UsageError(f"there is no file {place}")
    if not path.stem.isidentifier():
        raise UsageError(f"{path.name} can't be imported by Spark's workers; its name must be a Python identifier")
    module = _imported(path.stem, place, path.parent)
    found = module.__file__ and Path(module.__file__).resolve()
    if found != path:
        raise UsageError(f"{place} is hidden by another module of that name, {found}; give it another name")
    return module


def _imported(name: str, place: str, folder: Path) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(f"there is no module {place!r}, neither here nor in this Python's packages") from error
        raise TopologyError(f"{place} needs the module {error.name!r}, which is not installed") from error
    except TridentError:
        raise
    except (Exception, SystemExit) as error:  # a script may call sys.exit
        what = f"{error_text(error)}{_line(error, folder)}"
        raise TopologyError(f"{place} can't be imported: {what}") from error


def _line(error: BaseException, folder: Path) -> str:
    """Return the user's file and line, below ``folder``, that raised ``error``.

    Empty if the message of the error names it.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(folder) and "site-packages" not in file.parts and not isinstance(error, SyntaxError):
            return f" ({file.relative_to(folder)}, line {frame.lineno})"
    return ""


def _code(module: ModuleType) -> Path:
    package = sys.modules[module.__name__.partition(".")[0]]
    # a package without __init__.py has no file, but a directory
    return Path(next(iter(getattr(package, "__path__", [])), package.__file__ or "")).resolve()
