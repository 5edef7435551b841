"""The work of a new leader before its first transaction: it recovers the states, and compares the declarations."""
