from __future__ import annotations

from typing import Any

import pytest

from trident_py.errors import TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.spouts import IBatchSpout
from trident_py.spouts.fixed import FixedBatchSpout
from trident_py.topology import TridentTopology


class Ticks(IBatchSpout):
    output_schema = "n int"

    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None:
        collector.emit((batch_id,))


class WithoutFields(Ticks):
    output_schema = ""


class WithoutSchema(IBatchSpout):
    def emit_batch(self, batch_id: int, collector: TridentCollector) -> None: ...


@pytest.mark.parametrize("name", ["wordcount", "word-count-2", "0"])
def test_a_topology_has_a_name(name: str) -> None:
    assert TridentTopology(name).name == name


@pytest.mark.parametrize("name", ["", "WordCount", "word_count", "word count", "a/b", "ä", "a\n", None, 3])
def test_a_name_that_can_t_be_part_of_a_key_is_an_error(name: Any) -> None:
    with pytest.raises(TopologyError, match="lower-case letters, digits and '-', not "):
        TridentTopology(name)


def test_a_stream_has_the_fields_of_its_spout() -> None:
    topology = TridentTopology("wordcount")
    assert topology.new_stream("lines", FixedBatchSpout("value string", 2)).schema is not None
    assert str(topology.new_stream("ticks", Ticks()).schema) == "StructType([StructField('n', IntegerType(), True)])"


@pytest.mark.parametrize(
    ("tx_id", "spout", "message"),
    [
        ("lines", Ticks(), "there is a stream 'lines' already"),
        ("", Ticks(), "a tx_id is a string that is not empty"),
        ("a/b", Ticks(), "has no '/', not 'a/b'"),
        (7, Ticks(), "a tx_id is a string"),
        ("new", Ticks, "a spout is an instance of one of ITridentSpout, IBatchSpout, .*IRichSpout, not <class"),
        ("new", [("a",)], "a spout is an instance"),
        ("new", WithoutFields(), r"topology 'wordcount', new_stream\('new'\): schema '' has no fields"),
        ("new", WithoutSchema(), "WithoutSchema declares no output_schema"),
    ],
)
def test_a_stream_that_cannot_be_is_an_error(tx_id: Any, spout: Any, message: str) -> None:
    topology = TridentTopology("wordcount")
    topology.new_stream("lines", Ticks())
    with pytest.raises(TopologyError, match=message) as raised:
        topology.new_stream(tx_id, spout)
    assert raised.value.topology == "wordcount"


def test_a_topology_without_streams_does_not_start() -> None:
    with pytest.raises(
        TopologyError, match="topology 'wordcount' has no stream; declare one with new_stream"
    ) as raised:
        TridentTopology("wordcount").start()
    assert raised.value.topology == "wordcount"
