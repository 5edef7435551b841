"""The durable state of a topology: its record, the wishes of operators, and the interface of its store."""
