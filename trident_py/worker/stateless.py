"""`is_stateless`: whether an object can be shown to keep nothing from one call to the next.

Such an object can be used for several transactions, as if each had its own copy. Plain functions over immutable values
are such objects. If it can't be shown, the answer is no.
"""

from __future__ import annotations

import datetime
import decimal
import dis
import enum
import functools
import operator
import re
import sys
import uuid
import zoneinfo
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any

import pyarrow as pa
from attrs import fields, has
from pyspark.sql.types import DataType

_VALUES = {
    *(str, bytes, int, float, complex, bool, type(None), type(Ellipsis), range, re.Pattern),
    *(decimal.Decimal, datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
    *(zoneinfo.ZoneInfo, uuid.UUID),
    *(operator.attrgetter, MethodDescriptorType, ModuleType),
}
"""Types whose objects don't change. A module is the same for all tasks of a worker, in jobs, too. An object of a
subclass may have attributes, so only these types themselves count."""

_DESCRIPTIONS = (DataType, pa.DataType, pa.Schema, pa.Field)
_LIBRARIES = (DataType.__module__, pa.Schema.__module__)
"""The modules whose own descriptions don't change."""

_OURS = ("trident_py.", "coordinators.")
_KEEPS = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"}
_MAY_KEEP = {"globals", "setattr", "delattr", "vars", "exec", "eval", "__dict__"}


def is_stateless(value: object) -> bool:
    """Return true if ``value`` certainly keeps nothing when it is called or read."""
    return _is_stateless(value, {})


def _is_stateless(value: Any, seen: dict[int, object]) -> bool:
    if id(value) in seen:
        return True
    seen[id(value)] = value  # kept, so that no other object gets its id
    match value:
        case type() | FunctionType() if _is_imported(value):
            return True
        case FunctionType():
            return _is_plain(value, seen)
        case BuiltinFunctionType():
            return value.__self__ is None or _is_stateless(value.__self__, seen)
        case type():
            return False
        case enum.Enum():
            return _is_imported(type(value))
    kind = type(value)
    if kind in _VALUES or (kind.__module__ in _LIBRARIES and isinstance(value, _DESCRIPTIONS)):
        return True
    parts = _parts(value)
    return parts is not None and all(_is_stateless(each, seen) for each in parts)


def _parts(value: Any) -> Iterable[object] | None:
    """Return the objects that ``value`` consists of; None: it may keep something, too."""
    parts: Iterable[object] | None = None
    kind = type(value)
    if kind is MethodType:
        parts = (value.__self__, value.__func__)
    elif kind is functools.partial and not value.__dict__:
        parts = (value.func, value.args, *value.keywords.values())
    elif kind in (tuple, frozenset):
        parts = value
    elif kind is operator.itemgetter:
        parts = value.__reduce__()[1]
    elif kind.__module__.startswith(_OURS):
        parts = _values(value)  # our operations keep nothing themselves, but they have objects of the user
    return parts


def _is_imported(value: Any) -> bool:
    """Return true if tasks import it: then all tasks of a worker share it, in jobs, too."""
    module = sys.modules.get(value.__module__ or "")
    if module is None or module.__name__ == "__main__":
        return False
    found: Any = module
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _is_plain(function: FunctionType, seen: dict[int, object]) -> bool:
    code = function.__code__
    if function.__dict__ or any(_keeps(each) for each in _codes(code)):
        return False
    names = {name for each in _codes(code) for name in each.co_names}
    if names & _MAY_KEEP:
        return False
    used = [function.__globals__[name] for name in names if name in function.__globals__]
    given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return all(_is_stateless(each, seen) for each in [*used, *given, *map(_content, function.__closure__ or ())])


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _keeps(code: CodeType) -> bool:
    return any(
        each.opname in _KEEPS or (each.opname in ("STORE_DEREF", "DELETE_DEREF") and each.argval in code.co_freevars)
        for each in dis.get_instructions(code)
    )


def _values(value: Any) -> Iterator[object]:
    if has(type(value)):
        yield from (getattr(value, each.name) for each in fields(type(value)))
    else:
        yield from vars(value).values() if hasattr(value, "__dict__") else ()
