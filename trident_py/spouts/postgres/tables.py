"""The tables of a publication, by PostgreSQL's catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen
from pyspark.sql import types as t

from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.spouts.postgres.rows import Layout, SourceTable
from trident_py.spouts.sql.columns import kind_of
from trident_py.states.sql.catalog import FoundColumn
from trident_py.states.sql.dialect import Connection, Database

_OLDEST_VERSION = 150_000
_PUBLICATION = """
SELECT oid::bigint, concat_ws(', ', CASE WHEN pubinsert THEN 'insert' END, CASE WHEN pubupdate THEN 'update' END,
    CASE WHEN pubdelete THEN 'delete' END, CASE WHEN pubtruncate THEN 'truncate' END), pubupdate OR pubdelete
FROM pg_publication WHERE pubname = %s"""
_TABLES = """
SELECT t.schemaname, t.tablename,
    ARRAY(SELECT a.attname::text FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = ANY(t.attnames)
        AND (a.attgenerated = '' OR current_setting('server_version_num')::int >= 180000)),
    t.rowfilter, c.relkind <> 'p', c.oid::bigint, coalesce(r.oid, 0)::bigint,
    c.relreplident = 'f' OR EXISTS (
        SELECT FROM pg_index AS i WHERE i.indrelid = c.oid
        AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END)
FROM pg_publication AS p
JOIN pg_publication_tables AS t ON t.pubname = p.pubname
JOIN pg_namespace AS n ON n.nspname = t.schemaname
JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = t.tablename
LEFT JOIN pg_publication_rel AS r ON r.prpubid = p.oid AND r.prrelid = c.oid
WHERE p.pubname = %s ORDER BY t.schemaname, t.tablename"""
"""Generated columns are logged from version 18 on."""

_SERVER = """
SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('wal_level')"""


@frozen(kw_only=True)
class PublishedTable:
    """A table of a publication.

    Attributes:
        names: the columns that are published.
        filter: the condition of the rows that are published, in SQL; None: all rows.
        is_plain: whether it has rows itself; else they are in its partitions.
        identity: tells the table, and its membership in the publication, from later ones of the same name.
        has_key: whether updates and deletes say which row they change.
    """

    schema: str
    name: str
    names: tuple[str, ...]
    filter: str | None
    is_plain: bool
    identity: str
    has_key: bool

    @property
    def shown(self) -> str:
        """Schema and name."""
        return f"{self.schema}.{self.name}"


@frozen
class Publication:
    """A publication.

    Attributes:
        id: its OID.
        operations: the published ones, as ``insert, update``.
        changes_rows: whether it publishes updates or deletes.
    """

    id: int
    operations: str
    changes_rows: bool
    tables: tuple[PublishedTable, ...]

    @property
    def identity(self) -> dict[str, Json]:
        """The facts that must not change: else changes may be missing in the log."""
        return {
            "publication": str(self.id),
            "operations": self.operations,
            **{f"table {each.shown}": each.identity for each in self.tables},
        }


def publication_of(connection: Connection, name: str) -> Publication | None:
    """Return the publication; None: it does not exist."""
    found = connection.execute(_PUBLICATION, [name]).fetchone()
    if found is None:
        return None
    tables = tuple(_table(row) for row in connection.execute(_TABLES, [name]).fetchall())
    id, operations, changes_rows = found
    return Publication(id, operations, changes_rows, tables)


def _table(row: Sequence[Any]) -> PublishedTable:
    schema, name, names, condition, is_plain, table, member, has_key = row
    return PublishedTable(
        schema=schema,
        name=name,
        names=tuple(names),
        filter=condition,
        is_plain=is_plain,
        identity=f"{table}.{member}",
        has_key=has_key,
    )


def publication_named(connection: Connection, name: str) -> Publication:
    """Return the publication.

    Raises:
        TopologyError: it doesn't exist, or has no tables.
    """
    found = publication_of(connection, name)
    if found is None or not found.tables:
        raise TopologyError(
            f"{'there is no publication' if found is None else 'no table is in the publication'} {name!r}; to fix "
            f"this: CREATE PUBLICATION {name} FOR TABLE ..."
        )
    return found


def check_server(connection: Connection) -> None:
    """Check that the server logs changes of rows.

    Raises:
        TopologyError: it doesn't.
    """
    ((version, shown, level),) = connection.execute(_SERVER).fetchall()
    if version < _OLDEST_VERSION:
        raise TopologyError(f"the server is PostgreSQL {shown}; PostgresChangesSpout needs version 15 or later")
    if level != "logical":
        raise TopologyError(
            f"the server has wal_level = {level}, and logs no changes of rows; to fix this: ALTER SYSTEM SET wal_level "
            f"= logical, and restart the server"
        )


def declared_layout(
    database: Database, connection: Connection, publication: Publication, as_text: Sequence[str]
) -> Layout:
    """Return the fields of the publication's tables.

    Args:
        database: that of the connection.
        connection: in its transaction.
        publication: its tables.
        as_text: columns that are read as texts.

    Raises:
        TopologyError: a table has no key, or there is no such column.
    """
    keyless = [each.shown for each in publication.tables if not each.has_key]
    if keyless and publication.changes_rows:
        raise TopologyError(
            f"table {keyless[0]} has no key, so updates and deletes don't say which row they change; to fix this: add "
            f"a primary key, or ALTER TABLE {keyless[0]} REPLICA IDENTITY FULL, or publish its inserts only"
        )
    layout = Layout({each.shown: _source(database, connection, each, as_text) for each in publication.tables})
    known = {each.name for each in layout.fields}
    for name in as_text:
        if name not in known:
            raise TopologyError(f"there is no column {name!r} for as_text=; there are {', '.join(sorted(known))}")
    return layout


def _source(database: Database, connection: Connection, table: PublishedTable, as_text: Sequence[str]) -> SourceTable:
    columns = database.find_table(connection, table.schema, table.name).columns
    return SourceTable(table.shown, tuple(_field(each, as_text) for each in columns if each.name in table.names))


def _field(column: FoundColumn, as_text: Sequence[str]) -> t.StructField:
    kind = None if column.name in as_text else kind_of(column)
    return t.StructField(column.name, kind or t.StringType())


def differences(stored: dict[str, Json], found: dict[str, Json]) -> list[str]:
    """Return the differences between two identities, for people."""
    return [
        f"{name} was {'added' if name not in stored else 'removed' if name not in found else 'replaced or altered'}"
        for name in sorted(stored.keys() | found.keys())
        if stored.get(name) != found.get(name)
    ]
