"""``migrate``: changes of stored spouts, states and sinks, checked at declaration and at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import field, frozen
from pyspark.sql.types import DataType

from coordinators.record.declarations import Migration
from trident_py.errors import TopologyError
from trident_py.graph.graph import Graph
from trident_py.graph.output import Output, output_of
from trident_py.rows.schema import schema_of, shown
from trident_py.states.sql.factory import SQLState
from trident_py.states.sql.migrating import ValueMigration

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
    def for_record(self) -> Migration:
        """Return it as the record needs it."""
        words = (_FIELDS if self.fields or self.widen or self.add else frozenset()) | (
            _VALUES if self.function else frozenset()
        )
        function = getattr(self.function, "__qualname__", "")
        return Migration(name=self.name, rename=self.rename, is_dropped=self.drop, words=words, function=function)


def value_migrations(graph: Graph) -> dict[str, ValueMigration]:
    """Return the migrations of SQL states by the declared name of each; those of other parts are only names."""
    found: dict[str, ValueMigration] = {}
    for output in _outputs(graph):
        calls = [each for each in graph.migrations if _final(graph, each.name) == output.name]
        if calls and isinstance(output.factory, SQLState):
            found[output.name] = _value_migration(output.name, calls)
    return found


def check_migrations(graph: Graph) -> None:
    """Check all calls of ``migrate`` against the declared parts.

    Raises:
        TopologyError: a part isn't declared, or can't be migrated.
    """
    spouts, outputs = {each.tx_id for each in graph.sources}, {each.name: each for each in _outputs(graph)}
    for each in graph.migrations:
        with graph.declaring(f"migrate({each.name!r})"):
            _check(each, _final(graph, each.name), spouts, outputs)
    for name, output in outputs.items():
        calls = [each for each in graph.migrations if _final(graph, each.name) == name]
        with graph.declaring(f"migrate({name!r})"):
            _check_calls(calls, output)


def _check(each: DeclaredMigration, final: str, spouts: set[str], outputs: Mapping[str, Output]) -> None:
    declared = spouts | outputs.keys()
    if each.drop and each.name in declared:
        raise TopologyError("it is still declared; leave it out of the topology, or leave out this call")
    if not each.drop and final not in declared:
        raise TopologyError(
            f"there is no spout, state or sink {final!r}; declare it, or call migrate({each.name!r}, drop=True)"
        )
    if each.rename and each.name in declared:
        raise TopologyError(f"{each.name!r} is declared, too; a part that is renamed has only its new name")
    if each.changes_values and final not in outputs:
        raise TopologyError("a spout has no values; it can be renamed or dropped")


def _check_calls(calls: list[DeclaredMigration], output: Output) -> None:
    if not calls:
        return
    if output.kind == "window":
        raise TopologyError(
            "a window can't be migrated: its table is named after it, and its rows depend on its fields; keep the "
            "stored name by Stream.name(…), or declare a new window, which begins empty"
        )
    if any(each.changes_values for each in calls) and not isinstance(output.factory, SQLState):
        made = type(output.factory).__name__ if output.factory else f"a {output.kind}"
        raise TopologyError(
            f"values of SQLiteState, PostgresState and MySQLState can be migrated, and this is {made}; to fix this: "
            f"fill a new one by a second topology, as docs/how-to/changing-a-topology.md shows"
        )
    for what in ("fields", "widen", "add", "function"):
        if sum(bool(getattr(each, what)) for each in calls) > 1:
            raise TopologyError(
                "two calls change the same values; leave out the one of an earlier version, which every store has "
                "carried out, or start that version first"
            )


def _value_migration(name: str, calls: list[DeclaredMigration]) -> ValueMigration:
    names = [each.name for each in reversed(calls) if each.name != name]
    function = next((each.function for each in calls if each.function), None)
    return ValueMigration(
        names=list(dict.fromkeys(names)),
        fields={old: new for each in calls for old, new in each.fields.items()},
        widened={field: kind for each in calls for field, kind in each.widen.items()},
        added={field: value for each in calls for field, value in each.add.items()},
        function=function,
        called=getattr(function, "__qualname__", ""),
    )


def _outputs(graph: Graph) -> Iterator[Output]:
    return (output for node in graph.nodes if (output := output_of(node)))


def _final(graph: Graph, name: str) -> str:
    """Return the name that a stored part has from now on."""
    for each in graph.migrations:
        if each.rename and each.name == name:
            name = each.rename
    return name


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
