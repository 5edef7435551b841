"""``migrate``: a change of a stored spout, state or sink, as a user declares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen
from pyspark.sql.types import DataType

from coordinators.record.declarations import Migration
from trident_py.errors import TopologyError
from trident_py.rows.schema import schema_of, shown

_FIELDS = frozenset({"keys", "value"})
_VALUES = frozenset({"value", "aggregator", "aggregated fields", "updater", "fields"})
_ARGUMENTS = "rename=, widen=, add=, with_= or drop=True"


@frozen(kw_only=True)
class DeclaredMigration:
    """One call of ``migrate``.

    Attributes:
        name: the stored name of a spout, state or sink.
        rename: its new name; empty: it stays.
        fields: by old name, the new name of each field that is renamed.
        widen: by new name, the new type of each field that is widened.
        add: by name, the value of each field that a struct gets.
        function: returns the new value for an old one; None: values stay.
        drop: whether the record forgets the part.
    """

    name: str
    rename: str = ""
    fields: Mapping[str, str] = field(factory=dict)
    widen: Mapping[str, DataType] = field(factory=dict)
    add: Mapping[str, Any] = field(factory=dict)
    function: Callable[[Any], Any] | None = None
    drop: bool = False

    @classmethod
    def of(
        cls,
        name: object,
        rename: object,
        widen: object,
        add: object,
        function: object,
        drop: object,
    ) -> DeclaredMigration:
        """Return the checked call.

        Raises:
            TopologyError: an argument is wrong, or none is given.
        """
        if not isinstance(name, str) or not name:
            raise TopologyError(f"migrate() takes the stored name of a spout, state or sink, not {shown(name)}")
        fields = _texts("rename", rename) if isinstance(rename, Mapping) else {}
        if rename is not None and not isinstance(rename, Mapping) and not (isinstance(rename, str) and rename != name):
            raise TopologyError(f"rename is another name, or fields as {{'old': 'new'}}, not {shown(rename)}")
        if function is not None and not getattr(function, "__qualname__", ""):
            raise TopologyError(f"with_ is a function with a name, under which it runs once, not {shown(function)}")
        if function is not None and add:
            raise TopologyError("give with_= or add=: the function can add the fields to the value that it returns")
        made = cls(
            name=name,
            rename=rename if isinstance(rename, str) else "",
            fields=fields,
            widen={each: _type_of(each, kind) for each, kind in _texts("widen", widen).items()},
            add=dict(add) if isinstance(add, Mapping) else _refuse("add", "{'field': value}", add),
            function=function if callable(function) else _refuse("with_", "a function", function),
            drop=drop is True,
        )
        if drop not in (True, False) or (made.drop and (made.rename or made.changes_values)):
            raise TopologyError("drop is True or False, and True only without other arguments")
        if not (made.rename or made.changes_values or made.drop):
            raise TopologyError(f"say what changes: {_ARGUMENTS}")
        return made

    @property
    def changes_values(self) -> bool:
        """Whether it changes fields or values."""
        return bool(self.fields or self.widen or self.add or self.function)

    @property
    def described(self) -> str:
        """Its arguments, for ``explain()``."""
        widened = {name: kind.simpleString() for name, kind in self.widen.items()}
        told = {"rename": self.rename or dict(self.fields), "widen": widened, "add": dict(self.add)}
        given = [f"{name}={value!r}" for name, value in told.items() if value]
        function = [f"with_={self.for_record.function}"] if self.function else []
        return ", ".join([*given, *function, *(["drop=True"] if self.drop else [])])

    @property
    def for_record(self) -> Migration:
        """Return it as the record needs it."""
        words = (_FIELDS if self.fields or self.widen or self.add else frozenset()) | (
            _VALUES if self.function else frozenset()
        )
        function = getattr(self.function, "__qualname__", "")
        return Migration(name=self.name, rename=self.rename, is_dropped=self.drop, words=words, function=function)


def _texts(what: str, given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(each, str) for pair in given.items() for each in pair):
        raise TopologyError(f"{what} is given by field, as {{'count': 'bigint'}}, not {shown(given)}")
    return dict(given)


def _type_of(name: str, kind: str) -> DataType:
    return schema_of(f"`{name}` {kind}").fields[0].dataType


def _refuse(what: str, wanted: str, given: object) -> Any:
    if given is None:
        return {} if what == "add" else None
    raise TopologyError(f"{what} is {wanted}, not {shown(given)}")
