"""`PostgresChangesSpout`: the changes of PostgreSQL tables."""
