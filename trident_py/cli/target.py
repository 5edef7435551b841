"""``module:topology`` and ``file.py:topology``: what ``trident run`` and ``trident explain`` are pointed at."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from attrs import frozen

from trident_py.cli.usage import UsageError
from trident_py.errors import TopologyError, TridentError
from trident_py.topology import TridentTopology


@frozen
class Target:
    """A topology, and the code that has to travel to the workers with it.

    Attributes:
        topology: as it was declared.
        code: the file, or the directory of the top-level package, that it is declared in.
    """

    topology: TridentTopology
    code: Path


def load(target: str) -> Target:
    """The topology that ``target`` names.

    Raises:
        UsageError: there is no such file, module or topology; names the topologies that there are.
        TopologyError: the module can't be imported.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise UsageError(f"{target!r} names no topology; write module:topology or file.py:topology")
    module = _module(place)
    topology = getattr(module, name, None)
    if not isinstance(topology, TridentTopology):
        there = sorted(key for key, value in vars(module).items() if isinstance(value, TridentTopology))
        what = "is no TridentTopology" if hasattr(module, name) else "does not exist"
        raise UsageError(f"{name!r} in {place} {what}; there is {', '.join(there) or 'no topology at all'}")
    return Target(topology, _code(module))


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
    except Exception as error:
        raise TopologyError(f"{place} can't be imported: {type(error).__name__}: {error}") from error


def _code(module: ModuleType) -> Path:
    package = sys.modules[module.__name__.partition(".")[0]]
    # a package may lack __init__.py, then it has no file, but it has a place
    return Path(next(iter(getattr(package, "__path__", [])), package.__file__ or "")).resolve()
