"""`SQLQuery`: rows of a database, looked up for the rows of a stream."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from attrs import field, frozen
from pyspark.sql.types import StructType

from coordinators.values.secret import Secret, as_secret
from trident_py.errors import TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.states import QueryFunction, ReadOnlyState, StateFactory, StateKind
from trident_py.states.sql.databases import database_of
from trident_py.states.sql.dialect import Database

_PART = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|::|(?<!\w):([A-Za-z_]\w*)|%")
"""The parts of a query to be examined: quoted texts and casts, which stay; parameters; a percent sign."""


_WAY_OUT = (
    "correct the query, or let the user read what it names; a table without a schema is found as in any "
    "client of this URL, in PostgreSQL by the search_path of the URL or of the role"
)


@frozen
class Question:
    """A query with named parameters.

    Attributes:
        names: the names of the parameters, in the order in which they are bound.
    """

    text: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, query: str, mark: str) -> Question:
        """Return the query with ``mark`` for each ``:name``."""
        names: list[str] = []

        def replaced(found: re.Match[str]) -> str:
            if found[1]:
                names.append(found[1])
                return mark
            return found[0].replace("%", "%%") if mark == "%s" else found[0]

        return cls(_PART.sub(replaced, query), tuple(names))


class SQLLookup(ReadOnlyState):
    """A connection for look-ups; it is made again after it broke."""

    def __init__(self, database: Database, question: Question) -> None:
        self._database, self._question = database, question
        self._name = f"SQLQuery of {database.shown}"
        self._link = database.beside()
        with database.starting(self._name), self._link.transaction():
            pass

    def rows_for(self, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows that the query finds for these values of its parameters, in their order."""
        bound = list(map(self._database.dialect.bound, values))
        with self._database.explained(self._name, way_out=_WAY_OUT), self._link.transaction() as connection:
            return [tuple(row) for row in connection.execute(self._question.text, bound).fetchall()]

    def close(self) -> None:
        """Close the connection."""
        with self._link.lock:
            self._link.close()


@frozen
class SQLQuery(StateFactory, QueryFunction[SQLLookup, list[tuple[Any, ...]]]):
    """Looks up rows of a database: both the static state, and the function that queries it.

    ``prices = SQLQuery(url, "SELECT price FROM prices WHERE item = :item")``, then
    ``stream.state_query(topology.new_static_state(prices), "item", prices, "price double")``. For each row of the
    stream, the parameters are its input fields of the same names. As in an inner join, the row is emitted once with
    each row that is found, and dropped if none is. The same works in a DRPC stream. Columns become the output fields in
    their order. Each different combination of values is queried once in a batch, on the commit thread, and the query
    reads the data committed at that moment.

    Args:
        url: as for `SQLSink`.
        query: a SELECT; ``:name`` stands for a value, which is bound, never pasted into the text.

    Raises:
        TopologyError: ``url`` or ``query`` cannot work.
        ConfigError: the database's library is not installed.
    """

    kind = StateKind.NON_TRANSACTIONAL
    needs = (SQLLookup,)

    url: Secret = field(converter=as_secret)
    query: str = field()

    def __attrs_post_init__(self) -> None:
        _ = database_of(self.url)

    @query.validator
    def _check_query(self, _: object, query: str) -> None:
        if not isinstance(query, str) or not query.strip().lower().startswith(("select", "with", "values")):
            raise TopologyError(f"SQLQuery takes a SELECT, not {query!r}")

    @property
    def question(self) -> Question:
        """The query in the form that the database accepts."""
        return Question.of(self.query, database_of(self.url).dialect.mark)

    def ensure_usable(self) -> None:
        """Check that the database exists and accepts the user."""
        database = database_of(self.url)
        with database.starting(f"SQLQuery of {database.shown}"):
            database.ensure_usable()

    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> SQLLookup:
        """Return the look-up connection."""
        return SQLLookup(database_of(self.url), self.question)

    def check(self, seen: StructType | None, keys: StructType | None, out: StructType) -> None:
        """Check that each parameter is an input field."""
        for name in self.question.names if seen is not None else ():
            if name not in seen.names:  # type: ignore[union-attr]
                raise TopologyError(f"the query has :{name}, and the input fields are {', '.join(seen.names)}")  # type: ignore[union-attr]

    def batch_retrieve(self, state: SQLLookup, args: Sequence[Any]) -> Sequence[list[tuple[Any, ...]]]:
        """Return the rows for each of ``args``."""
        names, found = self.question.names, dict[str, list[tuple[Any, ...]]]()
        results = []
        for row in args:
            values = [row[name] for name in names]
            known = repr(values)
            if known not in found:
                found[known] = state.rows_for(values)
            results.append(found[known])
        return results

    def execute(self, row: Any, result: list[tuple[Any, ...]], collector: TridentCollector) -> None:
        """Emit each row that was found."""
        for each in result:
            collector.emit(each)
