"""``multi_reduce``, as it is declared."""

from __future__ import annotations

from typing import Any

import pytest

from trident_py.errors import TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import GroupedMultiReducer, MultiReducer
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


class Whole(MultiReducer[int]):
    def init(self, collector: TridentCollector) -> int:
        return 0

    def execute(self, value: int, stream_index: int, row: Any, collector: TridentCollector) -> int:
        return value + 1

    def complete(self, value: int, collector: TridentCollector) -> None:
        collector.emit([value])


class Groups(GroupedMultiReducer[int]):
    def init(self, collector: TridentCollector, group: Any) -> int:
        return 0

    def execute(self, value: int, stream_index: int, group: Any, row: Any, collector: TridentCollector) -> int:
        return value + 1

    def complete(self, value: int, group: Any, collector: TridentCollector) -> None:
        collector.emit([value])


class Two:
    """A topology with two streams."""

    def __init__(self) -> None:
        self.topology = TridentTopology("shop")
        self.orders = self.stream("orders", "id int, customer string")
        self.customers = self.stream("customers", "name string, tags map<string, int>")

    def stream(self, tx_id: str, schema: str) -> Stream:
        return self.topology.new_stream(tx_id, FixedBatchSpout(schema, 2))

    def reduce(self, *streams: Any, reducer: Any = None, out: str = "n int", in_fields: Any = None) -> Stream:
        return self.topology.multi_reduce(streams, reducer or Whole(), out, in_fields=in_fields)


@pytest.fixture
def two() -> Two:
    return Two()


def test_t10_its_fields_are_those_that_it_emits(two: Two) -> None:
    grouped = two.orders.group_by("customer"), two.customers.group_by("name")
    for made in (two.reduce(two.orders, two.customers), two.reduce(*grouped, reducer=Groups(), in_fields=["id", []])):
        assert made.schema is not None
        assert made.schema.simpleString() == "struct<n:int>"
    assert "multi_reduce(Groups, 2 streams)" in " ".join(two.topology.explain().split())
    assert grouped[0].to_stream() == two.orders


WRONG: dict[str, tuple[Any, str]] = {
    "no stream": (lambda t: t.reduce(), r"multi_reduce\(Whole, 0 streams\): Whole takes plain streams, at least one"),
    "grouped streams": (lambda t: t.reduce(t.orders.group_by("id")), "Whole takes plain streams"),
    "plain streams": (lambda t: t.reduce(t.orders, reducer=Groups()), "Groups takes grouped streams"),
    "a class": (lambda t: t.reduce(t.orders, reducer=Whole), "a reducer is a MultiReducer or GroupedMultiReducer, not"),
    "an unknown field": (lambda t: t.reduce(t.orders, in_fields=["x"]), "there is no field 'x'; there are 'id', 'cus"),
    "fields for other streams": (lambda t: t.reduce(t.orders, in_fields=["id", "id"]), "each stream has its in_fields"),
    "other types of groups": (
        lambda t: t.reduce(t.orders.group_by("id"), t.customers.group_by("name"), reducer=Groups()),
        "the keys 'id' and 'name' are int and string",
    ),
    "other numbers of groups": (
        lambda t: t.reduce(t.orders.group_by("id"), t.orders.group_by("id", "customer"), reducer=Groups()),
        "as many group fields as the others",
    ),
    "groups of maps": (lambda t: t.reduce(t.customers.group_by("tags"), reducer=Groups()), "maps don't compare"),
    "no schema": (lambda t: t.reduce(t.orders, out=""), "schema '' has no fields"),
    "another topology's": (lambda t: t.reduce(t.orders, Two().orders), "a stream of another topology"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_an_error_where_it_is_declared(case: str, two: Two) -> None:
    declare, message = WRONG[case]
    with pytest.raises(TopologyError, match=message):
        declare(two)
