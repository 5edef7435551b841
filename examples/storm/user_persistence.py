"""Storm's UserPersistenceTridentTopology: looks up the department of each user, and writes both into a table.

::

    python examples/storm/user_persistence.py
    sqlite3 users.db 'SELECT * FROM users'

What changed:

- The database is SQLite. `SQLQuery` and `SQLSink` take the URL of PostgreSQL or MySQL as well.
- ``JdbcState`` inserts a row again when its batch is replayed. `SQLSink` commits each row once.
- A table has the fields of the stream, so there is no ``JdbcMapper``; ``create_date`` is a timestamp.
- The table is called "users", because "user" is a word of PostgreSQL's.
- The spout emits two users once; the original emits one of the same two at random, without end.
- The record is in this process, as in a ``LocalCluster``: `run_batches`. With ``topology.start()`` it is in ZooKeeper.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

from trident_py import TridentTopology
from trident_py.sinks import SQLSink
from trident_py.spouts import FixedBatchSpout
from trident_py.states import SQLQuery
from trident_py.testing import run_batches

DATABASE = "sqlite:///users.db"
TABLES = """
    CREATE TABLE IF NOT EXISTS department (dept_id integer PRIMARY KEY, dept_name varchar(100));
    CREATE TABLE IF NOT EXISTS user_department (user_id integer PRIMARY KEY, dept_id integer);
    INSERT OR IGNORE INTO department VALUES (1, 'R&D'), (2, 'Finance'), (3, 'HR'), (4, 'Sales');
    INSERT OR IGNORE INTO user_department VALUES (1, 1), (2, 2), (3, 3), (4, 4);
"""
CREATED = datetime(2026, 1, 2, tzinfo=UTC)

topology = TridentTopology("user-persistence")
departments = SQLQuery(
    DATABASE,
    "SELECT dept_name FROM department, user_department "
    "WHERE department.dept_id = user_department.dept_id AND user_department.user_id = :user_id",
)
users = FixedBatchSpout(
    "user_id int, user_name string, create_date timestamp", 1, (1, "peter", CREATED), (2, "bob", CREATED)
)
(
    topology.new_stream("userSpout", users)
    .state_query(topology.new_static_state(departments), "user_id", departments, "dept_name string")
    .project("user_id", "user_name", "dept_name", "create_date")
    .write_to(SQLSink(DATABASE, "users"))
)

if __name__ == "__main__":
    with closing(sqlite3.connect("users.db")) as database:
        database.executescript(TABLES)
    run_batches(topology)
    with closing(sqlite3.connect("users.db")) as database:
        for user in database.execute("SELECT user_id, user_name, dept_name FROM users ORDER BY user_id"):
            print(user)
