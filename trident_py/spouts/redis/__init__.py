"""Redis as a source."""
