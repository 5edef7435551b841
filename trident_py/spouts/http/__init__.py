"""HTTP requests as a source."""
