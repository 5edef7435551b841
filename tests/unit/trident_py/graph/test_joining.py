"""``merge`` and ``join``, as they are declared."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from tests.topologies import fields
from trident_py.errors import TopologyError
from trident_py.graph.joining import Join, Merge
from trident_py.operations.builtin import Count
from trident_py.planner.plan import plan
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.streams.stream import Stream
from trident_py.topology import TridentTopology


class Two:
    """A topology with two streams."""

    def __init__(self) -> None:
        self.topology = TridentTopology("shop")
        self.orders = self.stream("orders", "id int, customer string, amount double")
        self.customers = self.stream("customers", "name string, city string, tags map<string, int>")

    def stream(self, tx_id: str, schema: str) -> Stream:
        return self.topology.new_stream(tx_id, FixedBatchSpout(schema, 2))

    def join(self, *, how: Any = "inner", fields: Any = ("customer", "id", "amount", "city", "tags")) -> Stream:
        return self.topology.join(self.orders, "customer", self.customers, "name", fields, how=how)


@pytest.fixture
def two() -> Two:
    return Two()


def test_t12_a_merge_has_the_names_of_the_first_stream_and_reads_all_spouts(two: Two) -> None:
    others = two.stream("others", "number int, who string, total double")
    merged = two.topology.merge(two.orders, others, two.orders.filter("id > 1"))
    assert fields(merged) == "id int, customer string, amount double"
    branches = {branch.name: (branch.spouts, branch.rereads) for branch in plan(two.topology._graph).branches}
    assert branches["orders-others"] == (("orders", "others"), frozenset({"orders"}))
    assert branches["customers"] == (("customers",), frozenset())
    assert two.topology.merge(merged, two.orders.transform(lambda frame: frame)).schema is None
    assert fields(two.topology.merge(two.customers)) == fields(two.customers)


def test_t12_a_merged_field_may_be_null_where_one_of_them_may(two: Two) -> None:
    strict = StructType([StructField("a", IntegerType(), False)])
    loose = two.stream("loose", "b int")
    streams = [two.topology.new_stream(name, FixedBatchSpout(strict, 1)) for name in ("x", "y")]
    nullable = [two.topology.merge(*each).schema for each in (streams, [*streams, loose], [loose, *streams])]
    assert [schema.fields[0].nullable for schema in nullable if schema] == [False, True, True]


def test_t15_a_join_has_the_keys_once_then_the_other_fields_of_each_side(two: Two) -> None:
    names = "customer string, id int, amount double, city string, tags map<string,int>"
    assert [fields(two.join(how=how)) for how in ("inner", "left", "outer")] == [names] * 3
    renamed = two.join(fields=["name", "a", "b", "c", "d"])
    assert fields(renamed) == "name string, a int, b double, c string, d map<string,int>"
    twice = two.topology.join(two.orders, ["customer", "id"], two.orders, ["customer", "id"], ["c", "i", "x", "y"])
    assert fields(twice) == "c string, i int, x double, y double"
    assert two.topology.join(
        two.orders, "id", two.orders.transform(lambda frame: frame), "anything", ["id", "x"]
    ).schema is None  # fmt: skip


def test_t16_a_join_that_preserves_has_all_fields_of_each_side(two: Two) -> None:
    names = ["id", "customer", "amount", "name", "city", "tags"]
    joined = two.topology.join(two.orders, "customer", two.customers, "name", names, "left", preserve=True)
    assert fields(joined) == "id int, customer string, amount double, name string, city string, tags map<string,int>"
    again = two.topology.join_all([two.orders] * 3, ["id"] * 3, [f"f{n}" for n in range(9)], preserve=True)
    assert again.schema is not None
    assert again.schema.names == [f"f{n}" for n in range(9)]
    with pytest.raises(TopologyError, match=r"the result has 6 fields, \['id', .*'tags'\]; named are 1, \['x'\]"):
        two.topology.join(two.orders, "customer", two.customers, "name", "x", preserve=True)


def test_t14_a_field_may_be_null_where_a_partner_may_be_missing(two: Two) -> None:
    strict = [StructType([StructField(name, IntegerType(), False) for name in names]) for names in ("kl", "kr")]
    streams = [two.topology.new_stream(str(n), FixedBatchSpout(schema, 1)) for n, schema in enumerate(strict)]
    found: dict[str, list[bool]] = {}
    ways: tuple[Literal["inner", "left", "outer"], ...] = ("inner", "left", "outer")
    for how in ways:
        schema = two.topology.join(streams[0], "k", streams[1], "k", list("klr"), how=how).schema
        assert schema is not None
        found[how] = [field.nullable for field in schema.fields]
    assert found == {"inner": [False, False, False], "left": [False, False, True], "outer": [True, True, True]}


def test_t14_a_key_may_be_null_where_it_may_be_in_every_stream_that_is_there(two: Two) -> None:
    nullable = [
        StructType([StructField("k", IntegerType(), null), StructField("v", IntegerType(), False)])
        for null in (True, False)
    ]
    loose, strict = [two.topology.new_stream(str(n), FixedBatchSpout(each, 1)) for n, each in enumerate(nullable)]
    for streams, how, expected in (
        ([loose, strict, loose], ["inner", "inner", "outer"], [False, False, False, True]),
        ([loose, strict, loose], ["inner", "outer", "outer"], [True, False, True, True]),
        ([strict, strict], "outer", [True, True, True]),
    ):
        names = ["k", *(f"v{number}" for number in range(len(streams)))]
        joined: Any = two.topology.join_all(streams, ["k"] * len(streams), names, how=how)  # type: ignore[arg-type]
        assert [field.nullable for field in joined.schema.fields] == expected


WRONG: dict[str, tuple[Any, str]] = {
    "merge nothing": (lambda t: t.topology.merge(), r"topology 'shop', merge\(0 streams\): name the streams"),
    "merge other types": (
        lambda t: t.topology.merge(t.orders, t.orders.project("id", "customer")),
        r"stream 2 has the fields struct<id:int,customer:string>, the first one struct<id:int,customer:string,amount",
    ),
    "merge another order": (
        lambda t: t.topology.merge(t.orders, t.orders.project("customer", "id", "amount")),
        "names may differ, types and their order may not",
    ),
    "merge no stream": (lambda t: t.topology.merge(t.orders, "customers"), "an instance of Stream, not 'customers'"),
    "merge a grouped stream": (lambda t: t.topology.merge(t.orders.group_by("id")), "an instance of Stream, not Grou"),
    "merge another topology's": (lambda t: t.topology.merge(t.orders, Two().orders), "of another topology can't"),
    "join another topology's": (
        lambda t: t.topology.join(t.orders, "id", Two().orders, "id", []),
        r"join\('id', 'id', 'inner'\): a stream of another topology",
    ),
    "join by nothing": (
        lambda t: t.topology.join(t.orders, [], t.customers, [], []),
        r"at least one, not \(\) and \(\)",
    ),
    "join by more on one side": (
        lambda t: t.topology.join(t.orders, ["id", "customer"], t.customers, "name", []),
        r"as many keys on each side, at least one, not \('id', 'customer'\) and \('name',\)",
    ),
    "join by an unknown field": (
        lambda t: t.topology.join(t.orders, "customer", t.customers, "nam", []),
        r"topology 'shop', join\('customer', 'nam', 'inner'\): there is no field 'nam'; there are 'name', 'city'",
    ),
    "join by a field twice": (
        lambda t: t.topology.join(t.orders, ["id", "id"], t.customers, ["name", "city"], []),
        "'id' is named twice",
    ),
    "join by other types": (
        lambda t: t.topology.join(t.orders, "id", t.customers, "name", []),
        "the keys 'id' and 'name' are int and string; map one to the type of the other",
    ),
    "join by maps": (lambda t: t.topology.join(t.customers, "tags", t.customers, "tags", []), "maps don't compare"),
    "join to too few fields": (
        lambda t: t.join(fields=["customer", "id"]),
        r"5 fields, the keys \['customer'\] and then \['id', 'amount', 'city', 'tags'\]; named are 2, \['cus",
    ),
    "join to a field twice": (lambda t: t.join(fields=["a", "b", "c", "c", "d"]), "'c' is named twice"),
    "join all of one": (lambda t: t.topology.join_all([t.orders], ["id"], []), "two streams or more, .* not 1 and 1"),
    "join all by too few keys": (lambda t: t.topology.join_all([t.orders] * 3, ["id"], []), "not 3 and 1"),
    "join all in another way": (
        lambda t: t.topology.join_all([t.orders] * 2, ["id"] * 2, [], how="left"),
        "how is 'inner' or 'outer', or one of them for each stream, not 'left'",
    ),
    "join all in too few ways": (
        lambda t: t.topology.join_all([t.orders] * 2, ["id"] * 2, [], how=["outer"]),
        r"for each of 2 streams, not \['outer'\]",
    ),
    "join all by other types": (
        lambda t: t.topology.join_all([t.orders] * 3, ["id", "id", "amount"], []),
        r"join_all\('id', 'id', 'amount', 'inner'\): the keys 'id' and 'amount' are int and double",
    ),
    "join in another way": (lambda t: t.join(how="right"), r"how is one of 'inner', 'left', 'outer', not 'right'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_an_error_where_it_is_declared(case: str, two: Two) -> None:
    declare, message = WRONG[case]
    with pytest.raises(TopologyError, match=message):
        declare(two)
    assert not [node for node in two.topology._graph.nodes if isinstance(node.operation, Merge | Join)]


def test_new_values_can_be_joined_and_merged_with_those_of_the_same_state_only(two: Two) -> None:
    state, other = (
        two.orders.group_by("id").persistent_aggregate(MemoryMapState.factory(), Count(), "count") for _ in range(2)
    )
    values = state.new_values_stream()
    joined = two.topology.join(values, "id", state.new_values_stream(), "id", ["id", "count", "again"])
    assert joined.schema is not None
    assert two.topology.merge(values, values.filter(lambda row: row.count > 1)).schema == values.schema
    with pytest.raises(TopologyError, match="rows of different moments: new values of 'orders-state' and those of a"):
        two.topology.merge(values, two.orders)
    with pytest.raises(TopologyError, match="rows of different moments: those of a batch and new values of"):
        two.topology.join(two.orders, "id", values, "id", ["a", "b", "c", "d"])
    with pytest.raises(TopologyError, match="new values of 'orders-state' and new values of 'orders-state-2'"):
        two.topology.merge(values, other.new_values_stream())


def test_the_plan_shows_both_ways_into_a_join(two: Two) -> None:
    two.join(how="left").name("city-of-order").peek(print)
    lines = [" ".join(line.split()) for line in two.topology.explain().splitlines()]
    start = lines.index("city-of-order")
    assert lines[start + 1 : start + 4] == [
        "orders",
        "customers",
        "join('customer', 'name', 'left') Spark customer string, id int, amount double, city string, "
        "tags map<string,int>",
    ]
