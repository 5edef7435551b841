"""The calls of ``migrate``: checks against the declared parts, and the migration of each SQL state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trident_py.errors import TopologyError
from trident_py.graph.graph import Graph
from trident_py.graph.migrations import DeclaredMigration
from trident_py.graph.output import Output, output_of
from trident_py.states.sql.factory import SQLState
from trident_py.states.sql.migrating import ValueMigration


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
    if output.kind not in ("state", "sink"):
        raise TopologyError(
            f"a {output.kind} can't be migrated: its table is named after it, and what it has stored depends on its "
            f"fields; keep the stored name by Stream.name(…), or declare a new {output.kind}, which begins empty"
        )
    factory = output.factory
    if isinstance(factory, SQLState) and not factory.is_one_table:
        raise TopologyError(
            f"{factory!r} has several files, and is neither migrated nor renamed; to fix this: fill a new one by a "
            f"second topology, as docs/how-to/changing-a-topology.md shows"
        )
    if any(each.changes_values for each in calls) and not isinstance(factory, SQLState):
        made = type(factory).__name__ if factory else f"a {output.kind}"
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
