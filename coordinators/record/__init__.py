"""What a topology keeps durably: its record, the wishes of operators, and the port to its store."""
