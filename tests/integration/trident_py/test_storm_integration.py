"""Storm's own integration tests of Trident, on real Spark and ZooKeeper.

Each test has the name and the facts of one of the nine tests of ``org.apache.storm.trident.TridentIntegrationTest`` in
storm-server 2.8.3: the same topology, the same rows, the same requests and answers. If something differs on purpose,
the test says what and why. Two differences are everywhere: output fields have types, and an answer is a list of rows,
not JSON. ``feed`` returns when its batch has succeeded, as in Storm.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.topologies import until
from trident_py.errors import TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.operations import Aggregator, Filter, Function
from trident_py.interfaces.states import StateUpdater
from trident_py.operations.builtin import Count, Sum
from trident_py.operations.queries import MapGet, TupleCollectionGet
from trident_py.spouts.feeder import FeederBatchSpout, FeederCommitterBatchSpout
from trident_py.states.memory import MemoryMapState
from trident_py.streams.stream import TridentState
from trident_py.topology import TridentTopology

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.slow]


class Split(Function):
    """The words of a sentence; none for an empty one."""

    def execute(self, row: Any, collector: TridentCollector) -> None:
        for word in row[0].split():
            collector.emit((word,))


class StringLength(Function):
    """The number of characters."""

    def execute(self, row: Any, collector: TridentCollector) -> None:
        collector.emit((len(row[0]),))


class TrueFilter(Filter):
    """Keeps every row."""

    def is_keep(self, row: Any) -> bool:
        return True


class CountAsAggregator(Aggregator[list[int]]):
    """The number of rows, by an aggregator that changes its value."""

    def init(self, batch_id: Any, collector: TridentCollector) -> list[int]:
        return [0]

    def aggregate(self, value: list[int], row: Any, collector: TridentCollector) -> None:
        value[0] += 1

    def complete(self, value: list[int], collector: TridentCollector) -> None:
        collector.emit(value)


def counted(topology: TridentTopology, spout: FeederBatchSpout) -> TridentState:
    """Declare the word count of the first three tests."""
    return (
        topology.new_stream("tester", spout)
        .each("sentence", Split(), "word string")
        .group_by("word")
        .persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    )


def declare_words(topology: TridentTopology, counts: TridentState) -> None:
    """Declare a function that sums the counts of the words in its argument."""
    (
        topology.new_drpc_stream("words")
        .each("args", Split(), "word string")
        .group_by("word")
        .state_query(counts, "word", MapGet(), "count bigint")
        .aggregate(Sum("count"), "sum")
        .project("sum")
    )


def multiset(rows: list[list[Any]]) -> Counter[tuple[Any, ...]]:
    """Return how often each row is there, for answers in no order."""
    return Counter(map(tuple, rows))


def test_memory_map_get_tuples(spark: SparkSession, config: TridentConfig) -> None:
    """``testMemoryMapGetTuples``, without ``parallelismHint(6)`` and ``broadcast()``.

    In Storm, the broadcast sends the request to all six parts of the state. A shipped state is one part here.
    """
    topology, feeder = TridentTopology("testing"), FeederBatchSpout("sentence string")
    counts = counted(topology, feeder)
    (
        topology.new_drpc_stream("all-tuples")
        .state_query(counts, "args", TupleCollectionGet(), "word string, count bigint")
        .project("word", "count")
    )
    with topology.start(config, spark=spark) as query:
        feeder.feed([("hello the man said",), ("the",)])
        first = {("hello", 1): 1, ("said", 1): 1, ("the", 2): 1, ("man", 1): 1}
        assert multiset(query.execute("all-tuples", "man")) == first

        feeder.feed([("the foo",)])
        second = {("hello", 1): 1, ("said", 1): 1, ("the", 3): 1, ("man", 1): 1, ("foo", 1): 1}
        assert multiset(query.execute("all-tuples", "man")) == second


def test_word_count(spark: SparkSession, config: TridentConfig) -> None:
    """``testWordCount``."""
    topology, feeder = TridentTopology("testing"), FeederBatchSpout("sentence string")
    declare_words(topology, counted(topology, feeder))
    with topology.start(config, spark=spark) as query:
        feeder.feed([("hello the man said",), ("the",)])
        assert query.execute("words", "the") == [[2]]
        assert query.execute("words", "hello") == [[1]]

        feeder.feed([("the man on the moon",), ("where are you",)])
        assert query.execute("words", "the") == [[4]]
        assert query.execute("words", "man") == [[2]]
        assert query.execute("words", "man where you the") == [[8]]


def test_word_count_committer_spout(spark: SparkSession, config: TridentConfig) -> None:
    """``testWordCountCommitterSpout``: empty batches before a repartitioning don't stop a spout that commits.

    Storm waits half a second, in which batches without rows pass. Here the test waits for three of them.
    """
    topology, feeder = TridentTopology("testing"), FeederCommitterBatchSpout("sentence string")
    feeder.set_wait_to_emit(False)
    counts = (
        topology.new_stream("tester", feeder)
        .parallelism_hint(2)
        .each("sentence", Split(), "word string")
        .group_by("word")
        .persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    )
    declare_words(topology, counts)
    with topology.start(config, spark=spark) as query:
        feeder.feed([("hello the man said",), ("the",)])
        assert query.execute("words", "the") == [[2]]
        assert query.execute("words", "hello") == [[1]]

        txid = query.recent_progress[-1].txid
        until(lambda: query.recent_progress[-1].txid >= txid + 3)
        assert query.recent_progress[-1].num_input_rows == 0
        assert query.execute("words", "the") == [[2]]

        feeder.feed([("the man on the moon",), ("where are you",)])
        assert query.execute("words", "the") == [[4]]
        assert query.execute("words", "man") == [[2]]
        assert query.execute("words", "man where you the") == [[8]]
        feeder.feed([("the the",)])
        assert query.execute("words", "the") == [[6]]
        feeder.feed([("the",)])
        assert query.execute("words", "the") == [[7]]


def test_count_agg(spark: SparkSession, config: TridentConfig) -> None:
    """``testCountAgg``: an `Aggregator` over a request sees all of it, whatever the parallelism, and an empty one.

    Storm asks for "the" a hundred times. Five times are enough here: an answer is the result of one Spark job, and no
    tuple of another request can come in between.
    """
    topology = TridentTopology("testing")
    (
        topology.new_drpc_stream("numwords")
        .each("args", Split(), "word string")
        .aggregate(CountAsAggregator(), "count bigint")
        .parallelism_hint(2)
        .project("count")
    )
    with topology.start(config, spark=spark) as query:
        for _ in range(5):
            assert query.execute("numwords", "the") == [[1]]
        assert query.execute("numwords", "") == [[0]]
        assert query.execute("numwords", "1 2 3 4 5 6 7 8") == [[8]]


def test_split_merge(spark: SparkSession, config: TridentConfig) -> None:
    """``testSplitMerge``. Storm merges words and lengths as they are; here the streams have to have the same types."""
    topology = TridentTopology("testing")
    asked = topology.new_drpc_stream("splitter")
    words = asked.each("args", Split(), "word string").project("word")
    lengths = asked.each("args", StringLength(), "len bigint").project("len")
    with pytest.raises(TopologyError, match="merge"):
        topology.merge(words, lengths)

    topology.merge(words, lengths.map(lambda row: (str(row.len),), "len string"))
    with topology.start(config, spark=spark) as query:
        assert multiset(query.execute("splitter", "the man")) == {("7",): 1, ("the",): 1, ("man",): 1}
        assert multiset(query.execute("splitter", "hello")) == {("5",): 1, ("hello",): 1}


def test_multiple_groupings_same_stream(spark: SparkSession, config: TridentConfig) -> None:
    """``testMultipleGroupingsSameStream``."""
    topology = TridentTopology("testing")
    asked = topology.new_drpc_stream("tester").each("args", TrueFilter())
    topology.merge(*(asked.group_by("args").aggregate(CountAsAggregator(), "count bigint") for _ in range(2)))
    with topology.start(config, spark=spark) as query:
        assert query.execute("tester", "the") == [["the", 1], ["the", 1]]
        assert query.execute("tester", "aaaaa") == [["aaaaa", 1], ["aaaaa", 1]]


def test_multi_repartition(spark: SparkSession, config: TridentConfig) -> None:
    """``testMultiRepartition``. ``localOrShuffle`` has no counterpart, so ``shuffle`` is there twice."""
    topology = TridentTopology("testing")
    (
        topology.new_drpc_stream("tester")
        .each("args", Split(), "word string")
        .shuffle()
        .shuffle()
        .aggregate(CountAsAggregator(), "count bigint")
    )
    with topology.start(config, spark=spark) as query:
        assert query.execute("tester", "the man") == [[2]]
        assert query.execute("tester", "aaa") == [[1]]


class KeepNothing(StateUpdater[Any]):
    """Stands for ``CombinerAggStateUpdater``, which is inside of ``persistent_aggregate`` here."""

    def update_state(self, state: Any, tuples: Any, collector: TridentCollector) -> None: ...


def test_stream_projection_validation() -> None:
    """``testStreamProjectionValidation``: each mistake is an error where it is declared, which names the field.

    Storm's test declares two streams called "tester", one after the other; here that is an error too, so the second
    one has another name. A built-in aggregator names its field itself.
    """
    topology, feeder = TridentTopology("testing"), FeederCommitterBatchSpout("sentence string")
    counts = counted(topology, feeder)
    with pytest.raises(TopologyError, match="tester"):
        topology.new_stream("tester", feeder)
    stream = topology.new_stream("another", FeederCommitterBatchSpout("sentence string"))
    words = stream.each("sentence", Split(), "word string")
    asked = topology.new_drpc_stream("words").each("args", Split(), "word string")
    table = MemoryMapState.factory()
    for field, declare in (
        ("sentence1", lambda: stream.each("sentence1", Split(), "word string")),
        ("word1", lambda: words.group_by("word1")),
        ("word1", lambda: words.group_by("word").aggregate(Sum("word1"), "sum")),
        ("word1", lambda: words.group_by("word").aggregate(CountAsAggregator(), "count bigint", in_fields="word1")),
        ("sentence1", lambda: stream.project("sentence1")),
        ("sentence1", lambda: stream.partition_by("sentence1")),
        ("word1", lambda: words.partition_aggregate(CountAsAggregator(), "count bigint", in_fields="word1")),
        ("non-existent", lambda: words.group_by("word").persistent_aggregate(table, Sum("non-existent"), "sum")),
        ("non-existent", lambda: words.partition_persist(table, KeepNothing(), "non-existent", "count bigint")),
        ("word1", lambda: asked.group_by("word").state_query(counts, "word1", MapGet(), "count bigint")),
    ):
        with pytest.raises(TopologyError, match=field):
            declare()


class AddBang(Function):
    """The word with an exclamation mark."""

    def execute(self, row: Any, collector: TridentCollector) -> None:
        collector.emit((row[0] + "!",))


def test_set_component_resources() -> None:
    """``testSetComponentResources``: the plan has what was asked for the operations of a stream.

    Storm adds up CPU and memory of the operations that it packs into one bolt: ``Split`` and ``AddBang`` ask for 512
    and 1024 MB, and their bolt has 1536. Here the operations before `Stream.resources` are one Spark stage, so the user
    gives the sum. Spout and state run on the driver, so ``spark.driver.memory`` is for them.
    ``test_resources.py`` shows that Spark's profile has what the plan says.
    """
    topology, feeder = TridentTopology("testing"), FeederBatchSpout("sentence string")
    (
        topology.new_stream("words", feeder)
        .parallelism_hint(10)
        .each("sentence", Split(), "word string")
        .each("word", AddBang(), "`word!` string")
        .resources(cpus=1, memory="1536m")
        .group_by("word!")
        .persistent_aggregate(MemoryMapState.factory(), Count(), "count")
    )
    plan = topology.explain()
    places = [plan.index(step) for step in ("each(Split)", "each(AddBang)", "resources(cpus=1, memory='1536m')  ")]
    assert places == sorted(places)
