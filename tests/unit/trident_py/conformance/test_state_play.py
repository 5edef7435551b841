"""What the check of a state expects of an aggregator."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import DecimalType, StructField

from trident_py.conformance.state_play import Aggregated
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.operations import Sum
from trident_py.rows.schema import schema_of


class Balance(CombinerAggregator[int]):
    """A sum whose key goes when it is zero."""

    in_fields = ("amount",)

    def init(self, row: Any) -> int:
        amount: int = row.amount
        return amount

    def combine(self, left: int, right: int) -> int:
        return left + right or REMOVE

    def zero(self) -> int:
        return 0


def test_keys_that_an_aggregator_removes_are_expected_to_go() -> None:
    balances = Aggregated.of(schema_of("account string, amount bigint"), Balance())
    first = balances.accumulator({}, [("a", 1), ("b", 2), ("c", 1), ("c", -1)])
    assert first == {("a",): 1, ("b",): 2}
    rows = [("a", -1), ("b", 1), ("b", -1), ("d", 4)]
    assert balances.accumulator(first, rows) == {("b",): 2, ("d",): 4}
    assert balances.change(rows).to_pydict() == {"account": ["a", "d"], "_partial": [-1, 4]}


def test_a_field_that_is_called_as_the_aggregator_is_the_value_whatever_that_takes() -> None:
    total = Aggregated.of(schema_of("word string, n bigint, Sum bigint"), Sum("n"))
    assert (total.keys.names, total.inputs.names, total.value.name) == (["word"], ["n"], "Sum")
    balances = Aggregated.of(schema_of("account string, amount bigint, balance decimal(20,0)"), Balance())
    assert (balances.keys.names, balances.value) == (["account"], StructField("balance", DecimalType(20, 0)))
    assert Aggregated.of(schema_of("word string, sum bigint"), Sum("sum")).keys.names == ["word"]
