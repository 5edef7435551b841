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
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any

import pyarrow as pa
from attrs import fields, has
from pyspark.sql.types import DataType

_VALUES = (
    *(str, bytes, int, float, complex, bool, type(None), type(Ellipsis), range, slice, enum.Enum, re.Pattern),
    *(decimal.Decimal, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(DataType, pa.DataType, pa.Schema, pa.Field),
    *(operator.itemgetter, operator.attrgetter, operator.methodcaller, MethodDescriptorType, ModuleType),
)
"""Types whose objects don't change. A module is the same for all tasks of a worker, in jobs, too."""

_OURS = ("trident_py.", "coordinators.")
_KEEPS = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"}
_MAY_KEEP = {"globals", "setattr", "delattr", "vars", "exec", "eval", "__dict__"}


def is_stateless(value: object) -> bool:
    """Return true if ``value`` certainly keeps nothing when it is called or read."""
    return _is_stateless(value, set())


def _is_stateless(value: Any, seen: set[int]) -> bool:
    if id(value) in seen:
        return True
    seen.add(id(value))
    match value:
        case type() | FunctionType() if _is_imported(value):
            return True
        case FunctionType():
            return _is_plain(value, seen)
        case BuiltinFunctionType():
            return value.__self__ is None or _is_stateless(value.__self__, seen)
        case type():
            return False
        case _ if isinstance(value, _VALUES):
            return True
    return _has_stateless_parts(value, seen)


def _has_stateless_parts(value: Any, seen: set[int]) -> bool:
    match value:
        case MethodType():
            parts: Iterable[object] = (value.__self__, value.__func__)
        case functools.partial():
            parts = (value.func, value.args, *value.keywords.values())
        case tuple() | frozenset():
            parts = value
        case _ if type(value).__module__.startswith(_OURS):
            parts = _values(value)  # our operations keep nothing themselves, but they have objects of the user
        case _:
            return False
    return all(_is_stateless(each, seen) for each in parts)


def _is_imported(value: Any) -> bool:
    """Return true if tasks import it: then all tasks of a worker share it, in jobs, too."""
    module = sys.modules.get(value.__module__ or "")
    if module is None or module.__name__ == "__main__":
        return False
    found: Any = module
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _is_plain(function: FunctionType, seen: set[int]) -> bool:
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
