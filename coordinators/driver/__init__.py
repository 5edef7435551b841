"""The loop that carries out the decisions of the protocol, on one thread."""
