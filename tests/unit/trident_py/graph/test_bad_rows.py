"""Where bad rows can be taken from a stream."""

from __future__ import annotations

import pytest

from tests.unit.trident_py.worker.test_sieve import numbers, positive
from trident_py import FixedBatchSpout, Sum, TridentTopology
from trident_py.errors import TopologyError


def test_bad_rows_have_the_fields_of_the_spout_wherever_they_are_taken() -> None:
    stream = numbers(TridentTopology("t"))
    schemas = [each.on_error().schema for each in (stream, stream.map(positive, "x bigint"))]
    assert schemas[0] == schemas[1]
    assert schemas[0] is not None
    assert schemas[0].simpleString() == "struct<n:bigint,_error:string,_operation:string,_txid:bigint>"


def test_it_is_refused_behind_what_is_no_row_function() -> None:
    stream = numbers(TridentTopology("t"))
    with pytest.raises(TopologyError, match=r"aggregate\(Sum.*is not a row function: call on_error\(\) before it"):
        stream.aggregate(Sum("n"), "sum").on_error()
    with pytest.raises(TopologyError, match="is not a row function"):
        stream.shuffle().on_error()


def test_a_field_of_the_spout_with_such_a_name_is_refused() -> None:
    stream = TridentTopology("t").new_stream("s", FixedBatchSpout("_error string", 1))
    with pytest.raises(TopologyError, match="there is a field '_error' already"):
        stream.on_error()


def test_bad_rows_end_in_a_sink_or_a_state_and_nothing_else() -> None:
    with pytest.raises(TopologyError, match="to= is a sink or a state factory, not 'log'"):
        numbers(TridentTopology("t")).on_error(to="log")  # type: ignore[arg-type]
