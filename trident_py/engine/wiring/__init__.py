"""Builds the engine of a topology from its plan and its configuration."""
