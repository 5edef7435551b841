"""``chained_agg()…chain_end()``: several aggregators in one pass over a stream or its groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from attrs import evolve, frozen
from pyspark.sql.types import StructType

from trident_py.graph.aggregation import Aggregation, AnyAggregator, Scope, aggregate_call, with_call
from trident_py.streams.row_stream import RowStream

S = TypeVar("S", bound=RowStream)


@frozen
class _Chain(Generic[S]):
    """The aggregators added so far, and the stream to aggregate."""

    _stream: S
    _aggregation: Aggregation

    def _longer(
        self, scope: Scope, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None
    ) -> Aggregation:
        chained = [*(call.aggregator for call in self._aggregation.calls), aggregator]
        with self._stream._declaring("chained_agg", *chained, *self._aggregation.keys) as title:  # noqa: SLF001
            longer = with_call(self._aggregation, aggregate_call(aggregator, out, in_fields), title)
            if self._stream.schema is not None:
                longer.output([self._stream.schema])
            return evolve(longer, scope=scope)

    def _ended(self) -> S:
        with self._stream._graph.declaring(self._aggregation.title):  # noqa: SLF001 - one concept
            return self._stream._next(self._aggregation)  # noqa: SLF001


@frozen
class ChainedFullAggregatorDeclarer(_Chain[S]):
    """A chain of `aggregate`: results for the batch, or for each group of it."""

    def aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> ChainedFullAggregatorDeclarer[S]:
        """Add an aggregator; the arguments are those of `Stream.aggregate`.

        If all aggregators are combiners, they are combined by partition first. If there is any other kind, each
        aggregator sees all rows of a group.

        Raises:
            TopologyError: it can't aggregate these fields, or another aggregator has an output field of the same name.
        """
        return ChainedFullAggregatorDeclarer(self._stream, self._longer(Scope.BATCH, aggregator, out, in_fields))

    def chain_end(self) -> S:
        """End the chain: the result has the group fields, then the results of the aggregators, in order.

        If `Aggregator` objects emit several rows, the result has every combination of them. If one of them emits no
        row, the result has no row.
        """
        return self._ended()


@frozen
class ChainedPartitionAggregatorDeclarer(_Chain[S]):
    """A chain of `partition_aggregate`: results for each partition of the batch."""

    def partition_aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> ChainedPartitionAggregatorDeclarer[S]:
        """Add an aggregator; the arguments are those of `Stream.aggregate`.

        Raises:
            TopologyError: it can't aggregate these fields, or another aggregator has an output field of the same name.
        """
        return ChainedPartitionAggregatorDeclarer(
            self._stream, self._longer(Scope.PARTITION, aggregator, out, in_fields)
        )

    def chain_end(self) -> S:
        """End the chain as `ChainedFullAggregatorDeclarer.chain_end` does, for each partition."""
        return self._ended()


@frozen
class ChainedAggregatorDeclarer(_Chain[S]):
    """The beginning of a chain; the first aggregator decides whether it is for the batch or for each partition."""

    def aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> ChainedFullAggregatorDeclarer[S]:
        """Add the first aggregator; the arguments are those of `Stream.aggregate`."""
        return ChainedFullAggregatorDeclarer(self._stream, self._aggregation).aggregate(aggregator, out, in_fields)

    def partition_aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> ChainedPartitionAggregatorDeclarer[S]:
        """Add the first aggregator; the arguments are those of `Stream.aggregate`."""
        begun = ChainedPartitionAggregatorDeclarer(self._stream, self._aggregation)
        return begun.partition_aggregate(aggregator, out, in_fields)


def chained(stream: S, keys: tuple[str, ...]) -> ChainedAggregatorDeclarer[S]:
    """Begin an empty chain."""
    return ChainedAggregatorDeclarer(stream, Aggregation(title="chained_agg()", keys=keys, calls=()))
