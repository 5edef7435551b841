"""The common part of the factories of SQL states."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from attrs import evolve
from pyspark.sql.types import StructField, StructType

from coordinators.values.canonical import Json
from trident_py.errors import StateError, TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import DRIVER, TASKS, FencedState, StateFactory, StateKind
from trident_py.states.fenced import milliseconds, ttl_detail
from trident_py.states.sql.reading import ReadTable, TableReader

if TYPE_CHECKING:
    from trident_py.states.sql.dialect import Database
    from trident_py.states.sql.table import Table


def checked_placement(placement: str) -> str:
    """Return ``placement``, which is ``"driver"`` or ``"tasks"``.

    Raises:
        TopologyError: it is neither.
    """
    if placement not in (DRIVER, TASKS):
        raise TopologyError(f"placement is {DRIVER!r} or {TASKS!r}, not {placement!r}")
    return placement


class SQLState(StateFactory):
    """Makes states in a table of a database.

    Attributes:
        table: the table's name.
    """

    guarantee = "exactly-once"
    kind = StateKind.FENCED

    table: str
    _schema: Table | None

    @property
    @abstractmethod
    def database(self) -> Database:
        """The database of the table."""

    def details(self) -> Mapping[str, Json]:
        """Return how long keys stay without a write, and where values change."""
        return {**ttl_detail(self.ttl), **({"placement": TASKS} if self.placement == TASKS else {})}

    @property
    def is_one_table(self) -> bool:
        """Whether its values are in one table: it can commit with others of its database, and be migrated."""
        return True

    @property
    def lacks_fields(self) -> bool:
        """Whether the types of its columns are still unknown."""
        return self._schema is None

    def for_fields(self, keys: StructType, value: StructField) -> Self:
        """Return this factory for values of these types.

        Raises:
            StateError: a column can't hold such a type, or can't have such a name.
        """
        from trident_py.states.sql.table import Table

        this: Any = self  # of attrs, each
        told: Self = evolve(this, schema=Table.of(self.database.dialect, self.table, keys, value))
        return told

    def for_reading(self) -> ReadTable:
        """Return a factory that reads the existing table; any topology may fill it."""
        return ReadTable(
            self, self.table, partial(TableReader.opened, self.database, self.table, by_tasks=self.placement == TASKS)
        )

    def ensure_usable(self) -> None:
        """Check that the database exists and accepts the user."""
        database = self.database
        with database.starting(f"table {self.table!r} of {database.shown}"):
            database.ensure_usable()

    def make_state(
        self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int
    ) -> FencedState[Any]:
        """Return the state; it connects when it recovers."""
        if self._schema is None:
            raise StateError(
                f"table {self.table!r} of {self.database.shown}: {type(self).__name__} keeps typed columns, and gets "
                f"their types only from persistent_aggregate; to fix this: use it there, or call for_fields"
            )
        return self._made(self._schema)

    def _made(self, table: Table) -> FencedState[Any]:
        database = self.database
        if self.placement == TASKS:
            from trident_py.states.sql.updating import TaskedSQLMapState

            return TaskedSQLMapState(database, table, milliseconds(self.ttl))
        if database.dialect.stages:
            from trident_py.states.sql.staging import StagingSQLMapState

            return StagingSQLMapState(database, table, milliseconds(self.ttl))
        from trident_py.states.sql.state import SQLMapState

        return SQLMapState(database, table, milliseconds(self.ttl))
