"""A table that a topology fills, to be asked by another one: ``new_static_state`` over a state of ours."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from pyspark.sql.types import StructField, StructType

from trident_py.errors import StateError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import ITupleCollection, Key, ReadOnlyMapState, ReadOnlyState, StateFactory
from trident_py.states.keys import encode_keys
from trident_py.states.sql.columns import TypedColumn, loaded_rows


class TableReader(ReadOnlyState, ReadOnlyMapState[Any], ITupleCollection):
    """Values by key, as they are committed when they are asked for; nothing is made or written."""

    def multi_get(self, keys: Sequence[Key]) -> list[Any]:
        """The value of each key; None where there is none."""
        texts = encode_keys(keys)
        *_, value = self.columns
        stored = {text: value.loaded(its) for text, its in self.read(texts)}
        return [stored.get(text) for text in texts]

    def get_tuples(self) -> list[tuple[Any, ...]]:
        """For each key its values, then the value."""
        return loaded_rows(self.columns, self.read_all())

    @property
    def keys(self) -> StructType:
        """The fields of its keys; their nullability is not known."""
        return StructType([StructField(column.name, column.kind) for column in self.columns[:-1]])

    @property
    @abstractmethod
    def columns(self) -> Sequence[TypedColumn]:
        """The columns that the table's topology has declared: the keys', then the value's."""

    @abstractmethod
    def read(self, texts: list[str]) -> Sequence[tuple[Any, ...]]:
        """Key text and stored value of each of these keys that is there."""

    @abstractmethod
    def read_all(self) -> Sequence[tuple[Any, ...]]:
        """What is stored in `columns`, of each key that has a value."""


@frozen(repr=False)
class ReadTable(StateFactory):
    """Makes the reader of the table that the states of ``source`` are in."""

    source: StateFactory
    name: str
    opened: Callable[[], TableReader]

    def __repr__(self) -> str:
        return repr(self.source)

    def make_state(
        self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int
    ) -> TableReader:
        """The reader.

        Raises:
            StateError: there is no such table, or it can't be read.
        """
        return self.opened()


def missing(where: str) -> StateError:
    """The error for a table that isn't there."""
    return StateError(f"{where}: no topology has made such a table; start the one that fills it first")
