"""The loop that carries out what the protocol decides, on one thread."""
