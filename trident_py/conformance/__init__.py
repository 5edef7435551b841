"""Checks, by real kills, that a spout, a state or a sink keeps its promise."""
