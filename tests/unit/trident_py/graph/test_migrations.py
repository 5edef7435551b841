"""`migrate`: wrong arguments are told at once."""

from __future__ import annotations

from typing import Any

import pytest

from coordinators.record.declarations import Migration
from trident_py.errors import TopologyError
from trident_py.graph.migrations import DeclaredMigration
from trident_py.rows.schema import schema_of
from trident_py.topology import TridentTopology


def as_text(value: int) -> str:
    return str(value)


def test_the_record_is_told_names_and_the_facts_that_may_change() -> None:
    topology = TridentTopology("wc")
    topology.migrate("lines", rename="log")
    topology.migrate("counts", rename={"count": "n"}, widen={"n": "bigint"})
    topology.migrate("sums", with_=as_text)
    topology.migrate("other", drop=True)
    renamed, fields, values, dropped = topology._graph.migrations
    assert renamed.for_record == Migration(name="lines", rename="log")
    assert fields.widen == {"n": schema_of("n bigint").fields[0].dataType}
    assert fields.for_record == Migration(name="counts", words=frozenset({"keys", "value"}))
    assert values.for_record.words >= {"value", "aggregator"}
    assert "keys" not in values.for_record.words
    assert values.for_record.function == "as_text"
    assert dropped == DeclaredMigration(name="other", drop=True)
    assert dropped.for_record == Migration(name="other", is_dropped=True)
    assert [each.described for each in topology._graph.migrations] == [
        "rename='log'",
        "rename={'count': 'n'}, widen={'n': 'bigint'}",
        "with_=as_text",
        "drop=True",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "say what changes: rename=, widen=, add=, with_= or drop=True"),
        ({"rename": "counts"}, "rename is another name, or fields as"),
        ({"rename": {"n": 1}}, "rename is given by field"),
        ({"widen": "bigint"}, "widen is given by field"),
        ({"widen": {"n": "wide"}}, "expected a type"),
        ({"with_": 5}, "with_ is a function with a name"),
        ({"add": "n"}, "add is {'field': value}, not 'n'"),
        ({"add": {"n": 1}, "with_": as_text}, "give with_= or add="),
        ({"drop": True, "rename": "totals"}, "drop is True or False, and True only without other arguments"),
    ],
)
def test_wrong_arguments_are_told_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=r"topology 'wc', migrate\('counts'\): ") as raised:
        TridentTopology("wc").migrate("counts", **arguments)
    assert message in str(raised.value)
