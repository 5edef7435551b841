"""Plays the protocol from a file, without Spark and without a server."""
