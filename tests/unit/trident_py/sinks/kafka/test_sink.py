"""What `KafkaSink` takes, and what it says of itself; none of it needs a broker."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from trident_py import FixedBatchSpout, IBatchSpout, KafkaSink, TopologyError, TridentCollector, TridentTopology


def test_it_promises_exactly_once_and_shows_no_secret() -> None:
    sink = KafkaSink(["a:1", "b:2"], "words", options={"sasl.password": "hush"})
    topology = TridentTopology("words")
    topology.new_stream("words", FixedBatchSpout("value string", 1)).write_to(sink)
    said = topology.explain()
    assert "KafkaSink\n      exactly-once: attempts are staged apart" in said
    assert repr(sink) == "KafkaSink('a:1,b:2', 'words')"
    assert sink.details() == {"topic": "words"}
    assert "hush" not in said + repr(sink) + repr(sink._transactions)


def test_fields_are_looked_at_where_they_are_declared() -> None:
    stream = TridentTopology("words").new_stream("words", FixedBatchSpout("word string", 1))
    with pytest.raises(TopologyError, match="a record has no field 'word'"):
        stream.write_to(KafkaSink("a:1", "words"))


def test_an_opaque_spout_is_refused() -> None:
    class Drawing(IBatchSpout):
        output_schema = "value string"

        def emit_batch(self, batch_id: int, collector: TridentCollector) -> None: ...

    stream = TridentTopology("words").new_stream("drawn", Drawing())
    with pytest.raises(TopologyError, match="spout 'drawn' is opaque"):
        stream.write_to(KafkaSink("a:1", "words"))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("", "t"), {}, "bootstrap_servers are"),
        (("a:1", ""), {}, "a topic is a name"),
        (("a:1", "a b"), {}, "a topic is a name, not .a b. .str.; Kafka.s topics have names"),
        (("a:1", 3), {}, "a topic is a name"),
        (("a:1", "t"), {"transactional.id": "x"}, "options can't have 'transactional.id'"),
    ],
)
def test_arguments_that_can_not_work_are_refused(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        KafkaSink(*arguments, options=options)


def test_where_the_library_is_missing_the_error_says_how_to_install_it() -> None:
    code = """
import sys
sys.modules["confluent_kafka"] = None
from trident_py import ConfigError, KafkaSink
try:
    KafkaSink("a:1", "words")
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("KafkaSink needs confluent-kafka (")
    assert done.stdout.endswith("pip install 'trident-py[kafka]'\n")
