"""`SQLSpout`: the new rows of a database's table."""
