"""Checks by real kills whether a spout, a state or a sink keeps its promise."""
