"""Received records in append-only files, for sources that can't be read again."""
