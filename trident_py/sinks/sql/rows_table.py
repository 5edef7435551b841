"""The table that a `SQLSink` fills, and its SQL."""
# ruff: noqa: S608 - every name in a statement was checked, or is quoted; values are always bound

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, field, frozen
from pyspark.sql.types import StructField, StructType

from trident_py.errors import StateError, TopologyError
from trident_py.states.sql.catalog import ONLY_KEY, FoundTable
from trident_py.states.sql.columns import TypedColumn, as_key, check_distinct, declared
from trident_py.states.sql.dialect import Dialect
from trident_py.states.sql.table import AnyTable, Staging, declarations


@frozen
class RowsTable(AnyTable):
    """A table of rows, each with the text of its key if rows of the same key replace each other.

    Attributes:
        keys: the positions of the key fields; empty: rows are only added.
    """

    dialect: Dialect
    name: str
    _fields: tuple[TypedColumn, ...]
    keys: tuple[int, ...]
    schema: str = ""
    columns: str = field(init=False)
    """The declared fields, to be compared with the fields of the existing table."""

    @columns.default
    def _declared(self) -> str:
        by_key = ", ".join(self._fields[place].name for place in self.keys)
        return declared(self._fields) + (f"; by {by_key}" if by_key else "")

    @classmethod
    def of(cls, dialect: Dialect, name: str, fields: StructType, keys: Sequence[str]) -> RowsTable:
        """Return the table for rows of these fields.

        Raises:
            TopologyError: a key field does not exist.
            StateError: a column can't have one of the types or names.
        """
        made = [_column(dialect, spec) for spec in fields.fields]
        columns = tuple(as_key(column) if column.name in keys else column for column in made)
        check_distinct(columns, "SQL")
        for key in keys:
            if key not in fields.names:
                raise TopologyError(f"there is no field {key!r} for keys=; there are {', '.join(fields.names)}")
        return cls(dialect, name, columns, tuple(fields.names.index(key) for key in keys))

    @property
    def fields(self) -> tuple[TypedColumn, ...]:
        """The fields of the rows."""
        return self._fields

    @property
    def storages(self) -> tuple[str, ...]:
        """The types of the columns."""
        return tuple(each.storage for each in self._fields)

    @property
    def create(self) -> str:
        """CREATE TABLE IF NOT EXISTS."""
        of = self.dialect
        key = f", {of.quoted('_key')} {of.key} NOT NULL PRIMARY KEY" if self.keys else ""
        return f"CREATE TABLE IF NOT EXISTS {self.there} ({declarations(of, self._fields)}{key}) {of.engine}"

    def fitted(self, found: FoundTable) -> RowsTable:
        """Return this table with the types and limits of the existing columns.

        Raises:
            StateError: a column is gone, or would round, cut or replace the values of its field.
        """
        if found.is_gone:
            raise StateError("there is no such table; to fix this: restore it, or have the sink write to another table")
        key = found.column("_key")
        if self.keys and (key is None or key.written not in self.dialect.as_found(self.dialect.key)):
            raise StateError(
                f"its column _key was made as {self.dialect.as_found(self.dialect.key)[0]} and "
                f"{f'is {key.written}' if key else 'is gone'}; to fix this: alter the table back"
            )
        if self.keys and found.keys not in (None, ONLY_KEY):
            raise StateError(
                f"rows replace each other by its column _key only, and its unique keys are {found.keys or 'none'}; "
                f"to fix this: restore the primary key on _key and drop other unique keys, or take another table"
            )
        return evolve(self, fields=tuple(self._fitted(each, found) for each in self._fields))

    def _fitted(self, field: TypedColumn, found: FoundTable) -> TypedColumn:
        column = found.column(field.name)
        if column is None:
            there = ", ".join(each.name for each in found.columns) or "none"
            raise StateError(
                f"it has no column for the field {field.name!r}, its columns are {there}; to fix this: add the column, "
                f"or leave the field out"
            )
        limits = self.dialect.limits_of(field, column)
        return evolve(field, storage=column.written, check="", limits=limits if limits.are_needed else None)

    @property
    def has_rows(self) -> str:
        """SQL that finds a row."""
        return f"SELECT 1 FROM {self.there} LIMIT 1"

    def insert(self, rows: int = 1) -> str:
        """Return SQL that adds or replaces rows; bound are the fields of each row, and with keys its key's text."""
        marks = f"({self.dialect.marks(len(self._fields) + bool(self.keys))})"
        return f"INSERT INTO {self.there} ({self._names}) VALUES {', '.join([marks] * rows)}{self._conflict}"

    def insert_staged(self, staging: Staging) -> str:
        """Return SQL that adds or replaces the rows which some tasks have staged; bound is the list of these tasks."""
        of = self.dialect
        return (
            f"INSERT INTO {self.there} ({self._names}) SELECT {self._names} FROM {staging.there} AS "
            f"{of.quoted('_staged')} WHERE {of.quoted('_task')} {of.among}{self._conflict}"
        )

    @property
    def empty(self) -> str:
        """SQL that deletes all rows."""
        return f"DELETE FROM {self.there}"

    @property
    def delete(self) -> str:
        """SQL that deletes rows; bound is the list of their keys' texts."""
        return f"{self.empty} WHERE {self.dialect.quoted('_key')} {self.dialect.among}"

    def update(self, names: Sequence[str]) -> str:
        """Return SQL that changes columns of a row; bound are their values, the new text of its key, and the old one.

        Args:
            names: the columns; empty: only its key changes.
        """
        of = self.dialect
        changed = ", ".join(f"{of.quoted(name)} = {of.mark}" for name in (*names, "_key"))
        return f"UPDATE {self.there} SET {changed} WHERE {of.quoted('_key')} = {of.mark}"

    def find_double(self, staging: Staging) -> str:
        """Return SQL that finds a key of several staged rows; bound are tasks."""
        of, key = self.dialect, self.dialect.quoted("_key")
        return (
            f"SELECT {key} FROM {staging.there} WHERE {of.quoted('_task')} {of.among} "
            f"GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
        )

    @property
    def _names(self) -> str:
        names = [column.name for column in self._fields]
        return self.dialect.quoted(*names, *(["_key"] if self.keys else []))

    @property
    def _conflict(self) -> str:
        of = self.dialect
        if not self.keys:
            return ""
        others = [each.name for place, each in enumerate(self._fields) if place not in self.keys] or ["_key"]
        new = ", ".join(f"{of.quoted(name)} = {of.new.format(of.quoted(name))}" for name in others)
        return f" {of.conflict.format(of.quoted('_key'))} {new}"


def _column(dialect: Dialect, spec: StructField) -> TypedColumn:
    """Return the column for a field; its name may begin with an underscore, as those of bad rows do."""
    if not spec.name.startswith("_") or spec.name in _OURS:
        return dialect.column_of(spec)
    plain = dialect.column_of(StructField(spec.name[1:], spec.dataType, spec.nullable))
    return evolve(plain, name=spec.name)


_OURS = ("_key", "_task")
"""The columns that we add to the user's, also in the tables in which tasks stage rows."""
